"""What the stamps of CTAs that do not record add to a kernel's time, at ctas=64.

    python -m bench.stamps [--rows REGEX] [--rounds 7] [--limit-s 240] [--json FILE]
    python -m bench.stamps --dry-run       # small sizes; without a GPU on the emulator

For every kernel: slowdown over the bare kernel with and without stamps, interleaved, outputs compared bit by
bit; and the time with stamps over that without. Of a grid of more than 4,096 CTAs only the ends have some.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final
from unittest.mock import patch

from bench import kernels
from bench.command import Measure, measure_all
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.table import Row
from bench.timing import interleave
from bench.variants import BARE, DEFAULT, Buffers, Variant, buffers, recording, variants
from profscope import options

__all__ = ["STAMPED", "WITHOUT", "main"]

STAMPED: Final = "ctas=64"
WITHOUT: Final = "ctas=64, no stamps"

_CTAS: Final = 64
_LAUNCHES: Final = 200  # of a sample, at most: a launch may take 10 us
_LIMIT_S: Final = 240.0


@contextlib.contextmanager
def _recording(given: Buffers, *, stamps: bool) -> Iterator[None]:
    with patch.object(options, "_STAMPS", stamps), recording(DEFAULT, given, _CTAS):
        yield


def measure(workload: Workload, device: str, rounds: int) -> list[Row]:
    """The slowdowns of one kernel."""
    inputs = workload.inputs(device)
    ttgir = workload.launch(inputs).asm["ttgir"]
    most = _LAUNCHES if device == "cuda" else 3
    given = buffers(ttgir, workload, DEFAULT, ctas=_CTAS, most_launches=most)
    sample = timed_launches(workload, inputs, device, given.launches)
    every: dict[str, Variant] = {
        **variants(workload, DEFAULT, given, BARE),
        WITHOUT: partial(_recording, given, stamps=False),
        STAMPED: partial(_recording, given, stamps=True),
    }
    cells = interleave(every, sample, rounds)["us"]
    about = {"ctas": workload.ctas, "launches": given.launches}
    name = _name(workload)
    pair = {WITHOUT: cells[WITHOUT], STAMPED: cells[STAMPED]}
    return [
        Row("slowdown", name, "bare: us, others: ratio", cells, BARE, about),
        Row("with stamps over without", name, "us and ratio", pair, WITHOUT, about),
    ]


def workloads(*, small: bool) -> Iterator[Workload]:
    """Short CTAs first: there a stamp costs most."""
    if small:
        yield kernels.add(1 << 12, 256)
        yield from kernels.workloads(small=True)
        return
    yield kernels.add(1 << 20, 256)
    yield kernels.add(4 << 20, 1024)
    yield kernels.add(64 << 20, 256)
    yield kernels.add(64 << 20, 1024)
    yield kernels.softmax(8192, 4096)
    yield kernels.layer_norm(4096, 4096)
    yield kernels.layer_norm_row(4096, 4096)
    yield kernels.matmul(4096, (128, 256, 64), 8)
    yield kernels.attention(64, 4096)


def _name(workload: Workload) -> str:
    block = workload.constexprs.get("BLOCK")
    of_each = f", {block} elements a CTA" if workload.name.startswith("add") else ""
    return f"{workload.name}{of_each}, {workload.ctas} CTAs"


def measured(given: argparse.Namespace, device: str) -> Iterator[tuple[str, Measure]]:
    """What is measured, by the kernel's name and its CTAs."""
    for workload in workloads(small=given.dry_run):
        yield _name(workload), partial(measure, workload, device, given.rounds)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a figure is missing."""
    return measure_all("bench.stamps", __doc__, _LIMIT_S, argv, measured)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
