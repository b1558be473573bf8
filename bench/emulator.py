"""The emulator against Triton's interpreter and torch on the CPU: same kernels, same inputs, one run.

    python bench/emulator.py [--json results.json] [--repeat 5]

Each peer runs in a process of its own, because TRITON_INTERPRET is read when Triton is imported. The time is
the best of some launches after the first, which compiles; the interpreter has nothing to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("emulator", "interpreter", "torch")


def cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], float]]]:
    """Of each case: launch the kernel, do the same in torch, and the largest difference between the two."""
    import torch

    from tests.kernels.add import add_kernel
    from tests.kernels.attention import attention_kernel
    from tests.kernels.matmul import matmul_kernel
    from tests.kernels.softmax import softmax_kernel

    torch.manual_seed(0)
    found = {}

    n = 1 << 20
    x, y, added = torch.randn(n), torch.randn(n), torch.empty(n)
    found["add, 1 M elements, 1,024 CTAs"] = (
        lambda: add_kernel[(1024,)](x, y, added, n, BLOCK=1024),
        lambda: x + y,
        lambda: float((added - (x + y)).abs().max()),
    )

    rows = torch.randn(1024, 1024)
    normal = torch.empty_like(rows)
    found["softmax, 1024 x 1024"] = (
        lambda: softmax_kernel[(1024,)](normal, rows, 1024, 1024, 1024, BLOCK=1024, STAGES=1),
        lambda: rows.softmax(1),
        lambda: float((normal - rows.softmax(1)).abs().max()),
    )

    def matmul(size: int) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], float]]:
        a, b = torch.randn(size, size).half(), torch.randn(size, size).half()
        c = torch.empty_like(a)
        tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}
        return (
            lambda: matmul_kernel[((size // 64) ** 2,)](a, b, c, size, size, size, size, size, size, **tiles),
            lambda: a @ b,
            lambda: float((c.float() - a.float() @ b.float()).abs().max()),
        )

    found["matmul, 256^3 fp16"] = matmul(256)
    found["matmul, 512^3 fp16"] = matmul(512)

    q, k, v = (torch.randn(1, 1024, 64).half() for _ in range(3))
    out = torch.empty_like(q)
    attend = torch.nn.functional.scaled_dot_product_attention
    found["attention, 1 x 1024 x 64"] = (
        lambda: attention_kernel[(16, 1)](
            q, k, v, out, 1024, 0.125, BLOCK_M=64, BLOCK_N=32, HEAD=64, CAUSAL=False
        ),
        lambda: attend(q, k, v),
        lambda: float((out.float() - attend(q.float(), k.float(), v.float())).abs().max()),
    )
    return found


def measure(peer: str, repeat: int) -> dict[str, Any]:
    """Seconds a call, of each case, for one peer; runs in that peer's process."""
    import torch

    from profscope.emulator import activate

    torch.set_num_threads(2)
    results = {}
    with activate() if peer == "emulator" else nullcontext() as driver:
        for name, (launch, in_torch, difference) in cases().items():
            call = in_torch if peer == "torch" else launch
            start = time.perf_counter()
            call()
            first = time.perf_counter() - start
            error = None if peer == "torch" else difference()
            executed = driver.device.lane_instructions if driver else 0
            times = []
            for _ in range(repeat):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            results[name] = {"first_s": first, "best_s": min(times), "max_difference": error}
            if driver:
                lanes = (driver.device.lane_instructions - executed) / repeat
                results[name] |= {"lane_instructions": lanes, "lane_instructions_per_s": lanes / min(times)}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        json.dump(measure(options.peer, options.repeat), sys.stdout)
        return
    results = {}
    for peer in PEERS:
        environment = {**os.environ, "TRITON_INTERPRET": "1" if peer == "interpreter" else "0"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, __file__, "--peer", peer, "--repeat", str(options.repeat)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        results[peer] = json.loads(done.stdout)
    report(results)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


def machine() -> dict[str, Any]:
    import torch
    import triton

    return {
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "triton": triton.__version__,
        "torch": torch.__version__,
    }


def report(results: dict[str, Any]) -> None:
    print(
        f"{'':32}{'emulator':>11}{'interpreter':>13}{'torch':>11}{'ratio':>8}{'Mlane-instr/s':>15}{'first':>9}"
    )
    for name, ours in results["emulator"].items():
        other = results["interpreter"][name]["best_s"]
        print(
            f"{name:32}{ours['best_s'] * 1e3:>8.1f} ms{other * 1e3:>10.1f} ms"
            f"{results['torch'][name]['best_s'] * 1e3:>8.2f} ms{other / ours['best_s']:>7.1f}x"
            f"{ours['lane_instructions_per_s'] / 1e6:>15.0f}{ours['first_s'] * 1e3:>6.0f} ms"
        )


if __name__ == "__main__":
    main()
