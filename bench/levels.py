"""What recording adds to a kernel's time, by level and by CTA sampling.

    python -m bench.levels [--rows REGEX] [--rounds 7] [--limit-s 150] [--json FILE]
    python -m bench.levels --dry-run       # small sizes; without a GPU on the emulator

For every kernel and choice: slowdown over the bare kernel, interleaved with it and with the other choices,
outputs compared bit by bit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from bench import kernels
from bench.command import Measure, measure_all
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.table import Row
from bench.timing import interleave
from bench.variants import BARE, DEFAULT, LEVELS, Variant, buffers, recording, variants

__all__ = ["CHOICES", "main"]


class Choice(NamedTuple):
    """pipeline: passes. ctas: one CTA in so many records; 1: all of them."""

    pipeline: str
    ctas: int = 1


CHOICES: Final = {
    "light": Choice(LEVELS["light"]),
    "default": Choice(DEFAULT),
    "heavy": Choice(LEVELS["heavy"]),
    "ctas=64": Choice(DEFAULT, 64),
    "heavy, ctas=64": Choice(LEVELS["heavy"], 64),
}

_LIMIT_S: Final = 150.0


def measure(workload: Workload, device: str, rounds: int) -> list[Row]:
    """The slowdowns of one kernel."""
    inputs = workload.inputs(device)
    ttgir = workload.launch(inputs).asm["ttgir"]
    given = {name: buffers(ttgir, workload, choice.pipeline) for name, choice in CHOICES.items()}
    launches = min(each.launches for each in given.values())
    sample = timed_launches(workload, inputs, device, launches)
    every: dict[str, Variant] = dict(variants(workload, DEFAULT, given["default"], BARE))
    for name, choice in CHOICES.items():
        every[name] = partial(recording, choice.pipeline, given[name], choice.ctas)
    cells = interleave(every, sample, rounds)["us"]
    return [Row("slowdown", workload.name, "bare: us, others: ratio", cells, BARE)]


def chosen(*, small: bool) -> Iterator[Workload]:
    """The kernels, those first whose figures decide."""
    wanted = ("layer norm", "softmax", "attention", "add", "matmul")
    every = [each for each in kernels.workloads(small=small) if "warp-specialised" not in each.name]
    yield from sorted(every, key=lambda each: [each.name.startswith(name) for name in wanted].index(True))


def measured(options: argparse.Namespace, device: str) -> Iterator[tuple[str, Measure]]:
    """What is measured, by the kernel's name."""
    for workload in chosen(small=options.dry_run):
        yield workload.name, partial(measure, workload, device, options.rounds)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a figure is missing."""
    return measure_all("bench.levels", __doc__, _LIMIT_S, argv, measured, choices=CHOICES)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
