"""The emulator against Triton's interpreter and torch on the CPU: same kernels, same inputs, one run.

    python -m bench.emulator [--repeat 5]

Each peer runs in a process of its own, because TRITON_INTERPRET is read when Triton is imported. The time is
the best of some launches after the first, which compiles; the interpreter has nothing to compile.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

_PEERS = ("emulator", "interpreter", "torch")


def _cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Of each case: launch the kernel, and do the same in torch."""
    import torch

    from bench.kernels import Workload, add, attention, matmul, softmax

    def of(workload: Workload, in_torch: Callable[..., Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
        inputs = workload.inputs("cpu")
        return lambda: workload.launch(inputs), lambda: in_torch(*(inputs[name] for name in workload.tensors))

    attend = torch.nn.functional.scaled_dot_product_attention
    return {
        "add, 1 M elements, 1,024 CTAs": of(add(1 << 20), lambda x, y, out: x + y),
        "softmax, 1024 x 1024": of(softmax(1024, 1024), lambda out, x: x.softmax(1)),
        "matmul, 256^3 fp16": of(matmul(256, (64, 64, 32), 4), lambda a, b, c: a @ b),
        "matmul, 512^3 fp16": of(matmul(512, (64, 64, 32), 4), lambda a, b, c: a @ b),
        "attention, 1 x 1024 x 64": of(attention(1, 1024), lambda q, k, v, out: attend(q, k, v)),
    }


def _measured(peer: str, repeat: int) -> dict[str, list[float]]:
    """Seconds of each case, of the first call and of the best later one; in the peer's own process."""
    import torch

    from profscope.emulator import activate

    torch.set_num_threads(2)
    found = {}
    with activate() if peer == "emulator" else nullcontext():
        for name, (launch, in_torch) in _cases().items():
            times = []
            for _ in range(1 + repeat):
                start = time.perf_counter()
                (in_torch if peer == "torch" else launch)()
                times.append(time.perf_counter() - start)
            found[name] = [times[0], min(times[1:])]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peer", choices=_PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        json.dump(_measured(options.peer, options.repeat), sys.stdout)
        return
    results = {}
    for peer in _PEERS:
        environment = {**os.environ, "TRITON_INTERPRET": "1" if peer == "interpreter" else "0"}
        command = [sys.executable, "-m", "bench.emulator", "--peer", peer, "--repeat", str(options.repeat)]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, env=environment, cwd=root, check=True, stdout=subprocess.PIPE)
        results[peer] = json.loads(done.stdout)
    print(f"ms{'':30}{'emulator':>11}{'interpreter':>13}{'torch':>11}{'ratio':>8}{'first':>9}")
    for name, (first, ours) in results["emulator"].items():
        _, theirs = results["interpreter"][name]
        _, in_torch = results["torch"][name]
        print(
            f"{name:32}{ours * 1e3:11.1f}{theirs * 1e3:13.1f}{in_torch * 1e3:11.2f}{theirs / ours:7.1f}x"
            f"{first * 1e3:9.0f}"
        )


if __name__ == "__main__":
    main()
