"""What diff says of two runs of one kernel on a GPU: nothing, if it can tell noise from news.

    python -m bench.two_runs [--trials 20] [--rows REGEX]

Sessions follow each other; between them, memory moves. Each is compared with the one before it: a trial, in
which no row may be significant. A matmul whose rows are an eighth longer, and one with another `num_stages`,
must be found. Without a GPU the emulator runs small sizes, to show that it works.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import torch

import profscope
from bench import kernels
from bench.kernels import Workload

__all__ = ["main"]

_LAUNCHES: Final = 8
_ON_GPU: Final = torch.cuda.is_available()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a trial has a significant row, or a real change has none."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.two_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rows", default="", metavar="REGEX", help="only kernels whose name it matches")
    options = parser.parse_args(argv)
    wrong = 0
    with kernels.surroundings():
        for workload in [each for each in _workloads() if re.search(options.rows, each.name)]:
            before, failed = _session(workload, 0), 0
            for number in range(1, options.trials + 1):
                after = _session(workload, number)
                failed += _is_news(f"{workload.name}, trial {number}", before, after)
                before = after
            print(f"{workload.name}: {failed} of {options.trials} trials with significant rows", flush=True)
            wrong += failed
            for title, changed in _changed(workload):
                wrong += not _is_news(f"{workload.name}, to be found: {title}", before, _session(changed, 0))
    return int(wrong > 0)


def _workloads() -> list[Workload]:
    if not _ON_GPU:
        return [kernels.matmul(64, (32, 32, 32), 4), kernels.layer_norm(4, 1024)]
    return [
        kernels.matmul(2048, (128, 128, 64), 8),
        kernels.attention(32, 2048),
        kernels.layer_norm(4096, 4096),
    ]


def _changed(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """Of a matmul: what takes longer or shorter."""
    if "K" not in workload.scalars:
        return
    step, size = workload.constexprs["BLOCK_K"], int(workload.scalars["K"])
    longer = size + max(size // 8 // step, 1) * step
    shapes = {"a_ptr": (size, longer), "b_ptr": (longer, size)}
    tensors = {**workload.tensors, **{name: (shape, torch.float16) for name, shape in shapes.items()}}
    scalars = {**workload.scalars, "K": longer, "stride_am": longer}
    yield f"{100 * (longer / size - 1):.1f} % more steps", replace(workload, tensors=tensors, scalars=scalars)
    yield "num_stages=1", replace(workload, options={**workload.options, "num_stages": 1})


def _session(workload: Workload, seed: int) -> profscope.Profile:
    """A session's profile, with its tensors somewhere else each time."""
    chance, device = random.Random(seed), "cuda" if _ON_GPU else "cpu"
    sizes = [chance.randrange(1, 64) << (16 if _ON_GPU else 4) for _ in range(3)]
    apart = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes]
    inputs = workload.inputs(device)
    del apart
    with profscope.session(ctas=4 if _ON_GPU else 1) as session:
        for _ in range(_LAUNCHES):
            workload.launch(inputs)
    return session.profile


def _is_news(title: str, a: profscope.Profile, b: profscope.Profile) -> bool:
    """Whether anything is significant; prints what is."""
    difference = profscope.diff(a, b)
    significant, whole = difference[difference["significant"]], difference.iloc[0]
    print(
        f"{title}: {whole['percent']:+.2f} % [{whole['low']:.0f}, {whole['high']:.0f}] of "
        f"{whole['self_a']:.0f} {difference.attrs['unit']}; "
        f"{len(significant)} of {len(difference)} significant"
    )
    for row in significant.head(5).itertuples():
        print(
            f"    {row.scope} {row.kind} L{row.line_a} L{row.line_b}: "
            f"{row.self_a:.0f} {row.self_b:.0f} {row.percent:+.1f} %"
        )
    sys.stdout.flush()
    return len(significant) > 0


if __name__ == "__main__":
    sys.exit(main())
