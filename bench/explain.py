"""What `profscope.explain` predicts of kernels with a fault of their options, and what its tries really save.

    python -m bench.explain [--rows REGEX] [--limit-s S]     # on a GPU
    python -m bench.explain --dry-run                        # on the emulator, small

A row for each finding: predicted, the finding's gain; tried, the best of what it suggests; measured, what
that saved of the bare time. Below it stand the best of all tries and what it saved. The last kernel is an
autotuned matmul, as Triton's tutorial writes it.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
import triton
import triton.language as tl

import profscope
from bench.planted_kernels import matmul_kernel as plain_matmul_kernel
from bench.planted_kernels import one_pass_kernel, spills_kernel
from profscope.tuning.explanation import Explanation

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


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out_ptr + at, tl.load(x_ptr + at, inside) + tl.load(y_ptr + at, inside), inside)


def _matrices(device: str, size: int) -> list[torch.Tensor]:
    return [torch.randn(size, size, device=device).half() for _ in range(3)]


def _one_stage(device: str, small: bool, limit_s: float) -> Explanation:
    size, block, warps = (128, 64, 4) if small else (2048, 128, 8)
    tiles = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32 if small else 64}
    grid = (size // block, size // block)
    return profscope.explain(
        plain_matmul_kernel, *_matrices(device, size), size, size, **tiles, grid=grid, num_warps=warps,
        num_stages=1, limit_s=limit_s,
    )  # fmt: skip


def _small_tiles(device: str, small: bool, limit_s: float) -> Explanation:
    size, larger = (128, [64]) if small else (4096, [64, 128])
    return profscope.explain(
        plain_matmul_kernel, *_matrices(device, size), size, size, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32,
        grid=lambda given: (size // given["BLOCK_M"], size // given["BLOCK_N"]),
        vary={"BLOCK_M": larger, "BLOCK_N": larger}, limit_s=limit_s,
    )  # fmt: skip


def _spills(device: str, small: bool, limit_s: float) -> Explanation:
    programs = 16 if small else 4 * torch.cuda.get_device_properties(0).multi_processor_count
    x, y = torch.randn(8192, device=device), torch.randn(8192, device=device)
    out = torch.empty(programs * 8192, device=device)
    return profscope.explain(
        spills_kernel, x, y, out, 2 if small else 200, BLOCK=8192, grid=(programs,), num_warps=4, maxnreg=40,
        limit_s=limit_s,
    )  # fmt: skip


def _many_warps(device: str, small: bool, limit_s: float) -> Explanation:
    rows, columns = (16, 512) if small else (65536, 1024)
    x = torch.randn(rows, columns, device=device).half()
    return profscope.explain(
        one_pass_kernel, x, torch.empty_like(x), columns, 1e-5, BLOCK=columns, grid=(rows,), num_warps=32,
        limit_s=limit_s,
    )  # fmt: skip


def _tiny_ctas(device: str, small: bool, limit_s: float) -> Explanation:
    count = 1 << (14 if small else 26)
    x, y = torch.randn(count, device=device), torch.randn(count, device=device)
    return profscope.explain(
        add_kernel, x, y, torch.empty_like(x), count, BLOCK=64, vary={"BLOCK": [256, 1024]},
        grid=lambda given: (triton.cdiv(count, given["BLOCK"]),), limit_s=limit_s,
    )  # fmt: skip


def _autotuned(device: str, small: bool, limit_s: float) -> Explanation:
    size = 64 if small else 4096

    def grid(given: dict[str, Any]) -> tuple[int]:
        return (triton.cdiv(size, given["BLOCK_M"]) * triton.cdiv(size, given["BLOCK_N"]),)

    return profscope.explain(
        matmul_kernel, *_matrices(device, size), size, size, size, grid=grid, limit_s=limit_s
    )


KERNELS: Final[dict[str, Callable[[str, bool, float], Explanation]]] = {
    "matmul of 1 stage": _one_stage,
    "matmul of small tiles": _small_tiles,
    "state in 40 registers": _spills,
    "short rows of 32 warps": _many_warps,
    "add by 64 elements": _tiny_ctas,
    "autotuned matmul": _autotuned,
}


def _table(name: str, found: Explanation) -> Iterator[str]:
    for row in found.findings.to_dict("records"):
        measured = f"{row['measured_pct']:.0f} %" if row["tried"] else ""
        yield f"{name:24} {row['finding']:20} {row['gain_pct']:5.0f} %  {row['tried']:32} {measured}"
    unit = found.tries.attrs["unit"]
    times = found.tries.set_index("options")[unit]
    own, best = times[found.launched], times[found.best]
    saved = f"{100 * (1 - best / own):.0f} % less than {own:.4g}"
    yield f"{name:24} best: {found.best}: {best:.4g} {unit}, {saved}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a kernel failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.explain", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator if there is no GPU")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only kernels whose name it matches")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of each kernel's tries")
    options = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.explain: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    rows, failed = [f"{'kernel':24} {'finding':20} predicted {'tried':30} measured"], 0
    for name, explain in KERNELS.items():
        if not re.search(options.rows, name):
            continue
        try:
            found = explain(device, options.dry_run, options.limit_s)
        except Exception:  # noqa: BLE001  the others' figures still count
            traceback.print_exc()
            failed += 1
            continue
        print(f"== {name}\n{found}\n", flush=True)
        rows += _table(name, found)
    print("\n".join(rows))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
