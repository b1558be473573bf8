"""`profscope.explain` of an autotuned matmul, as Triton's tutorial writes it: `python -m bench.explain`."""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
import triton
import triton.language as tl

import profscope

__all__ = ["main"]

# (BLOCK_M, BLOCK_N, BLOCK_K, stages, warps): the tutorial's, with one stage, and one that cannot be built.
_SHAPES = (
    (128, 256, 64, 3, 8),
    (64, 256, 32, 4, 4),
    (128, 128, 32, 4, 4),
    (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4),
    (128, 32, 32, 4, 4),
    (64, 32, 32, 5, 2),
    (32, 64, 32, 5, 2),
    (128, 128, 64, 1, 8),
    (256, 256, 128, 4, 8),
)
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 8}, num_stages=stages, num_warps=warps)
    for m, n, k, stages, warps in _SHAPES
]


@triton.autotune(CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,  # noqa: N803
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,  # noqa: N803
):  # fmt: skip
    pid = tl.program_id(0)
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = GROUP * cols
    first = (pid // group) * GROUP
    size = min(rows - first, GROUP)
    m = (first + (pid % group) % size) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = ((pid % group) // size) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_at = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_at = b_ptr + k[:, None] * N + (n % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_at, mask=k[None, :] < K - step * BLOCK_K, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < K - step * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--json", help="where the table goes, too")
    chosen = parser.parse_args(arguments)
    size = chosen.size
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(size, size, device=device).half() for _ in range(2))
    c = torch.empty_like(a)

    def grid(given: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(size, given["BLOCK_M"]) * triton.cdiv(size, given["BLOCK_N"]),)

    table = profscope.explain(matmul_kernel, a, b, c, size, size, size, grid=grid)
    print(table.drop(columns=["low_us", "high_us"]).to_string(max_colwidth=90))
    print(table.attrs["basis"])
    print(table.attrs["why"])
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump(
                {"attrs": table.attrs, "rows": json.loads(table.to_json(orient="records"))}, file, indent=1
            )


if __name__ == "__main__":
    main()
