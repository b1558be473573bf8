"""What CTAs that do not record cost a kernel, with a body of their own and without.

    python -m bench.twins [--rows REGEX] [--rounds 7] [--limit-s 200] [--json FILE]

For every kernel at the default level: its slowdown with records of one CTA in 64, with the second body that a
session builds, and with one body alone, in turn.
--dry-run takes small sizes and the emulator, to show that it runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from unittest import mock

import profscope
from bench import kernels
from bench.command import Measure, measure_all
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.table import Row
from bench.timing import interleave
from bench.variants import BARE, DEFAULT, Variant, buffers, variants
from profscope.options import Options

__all__ = ["main"]

_LIMIT_S: Final = 200.0
_MEMORY_MIB: Final = 1024  # so that nothing is drained while kernels are timed
_STRIDE: Final = 64


def slowdowns(workload: Workload, device: str, rounds: int) -> list[Row]:
    """The row of one kernel."""
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, DEFAULT)
    records = partial(profscope.session, instrument=[DEFAULT], memory=_MEMORY_MIB)
    made: dict[str, Callable[[], Any]] = {
        f"records, 1 in {_STRIDE}": partial(records, ctas=_STRIDE),
    }
    every: dict[str, Variant] = dict(variants(workload, DEFAULT, given, BARE))
    for name, make in made.items():
        every |= {f"{name}: one body": partial(_with_one_body, make), f"{name}: two": make}
    cells = interleave(every, timed_launches(workload, inputs, device, given.launches), rounds)["us"]
    return [Row("slowdown, default", workload.name, "bare: us, others: ratio", cells, BARE)]


@contextlib.contextmanager
def _with_one_body(make: Callable[[], Any]) -> Iterator[None]:
    with mock.patch.object(Options, "_has_bare_ctas", False), make():
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns an exit code."""

    def tasks(options: argparse.Namespace, device: str) -> Iterator[tuple[str, Measure]]:
        for workload in kernels.workloads(small=options.dry_run):
            yield workload.name, partial(slowdowns, workload, device, options.rounds)

    return measure_all("bench.twins", __doc__, _LIMIT_S, argv, tasks)


if __name__ == "__main__":
    raise SystemExit(main())
