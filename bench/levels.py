"""What the default level should record: what a choice costs, and how much time it leaves dark.

    python -m bench.levels [--rows REGEX] [--rounds 7] [--limit-s 150] [--json FILE]
    python -m bench.levels --dry-run       # small sizes; without a GPU on the emulator

For every kernel and choice of op classes: slowdown over the bare kernel, interleaved with it and with
the other choices, outputs compared bit by bit; the share of warp time that lies in no span of an op; and
how many records a warp has. A choice that finds no further op shows how much the figures vary.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import profscope
from bench import kernels
from bench.command import Measure, measure_all
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import interleave, why
from bench.variants import BARE, DEFAULT, OURS, Buffers, Variant, buffers, variants

__all__ = ["CHOICES", "main"]

_CLASSES: Final = re.compile(r"(op-spans\{classes=[^}]*)\}")


def _with(classes: str) -> str:
    """The default level, with further classes of ops."""
    pipeline, count = _CLASSES.subn(rf"\1;{classes}}}", DEFAULT)
    assert count == 1, DEFAULT
    return pipeline


CHOICES: Final = {
    "default": DEFAULT,
    "+ reduce": _with("reduce"),
    "+ reduce, barrier": _with("reduce;barrier"),
}
"""Pipelines by the name of the choice."""

# So many CTAs tell how a kernel's time is shared out.
_SHARED_CTAS: Final = 256
_LIMIT_S: Final = 150.0


def measure(workload: Workload, device: str, rounds: int) -> list[Row]:
    """The rows of one kernel: slowdown, share of time in no op's span, records and bytes of a launch."""
    inputs = workload.inputs(device)
    ttgir = workload.launch(inputs).asm["ttgir"]
    given = {name: buffers(ttgir, workload, pipeline) for name, pipeline in CHOICES.items()}
    launches = min(each.launches for each in given.values())
    sample = timed_launches(workload, inputs, device, launches)
    every: dict[str, Variant] = dict(variants(workload, DEFAULT, given["default"], BARE))
    for name, pipeline in CHOICES.items():
        every[name] = variants(workload, pipeline, given[name], OURS)[OURS]
    cells = interleave(every, sample, rounds)["us"]
    rows = [Row("slowdown", workload.name, "bare: us, others: ratio", cells, BARE)]
    found = {name: _recorded(workload, device, name, given[name]) for name in CHOICES}
    units = {"share of warp time in no op's span": "%", "records a warp": "", "profile a launch": "MB"}
    for at, (group, unit) in enumerate(units.items()):
        rows.append(Row(group, workload.name, unit, {name: each[at] for name, each in found.items()}))
    return rows


def _recorded(workload: Workload, device: str, choice: str, given: Buffers) -> tuple[Cell, Cell, Cell]:
    """The share of warp time in no op's span, records a warp, MB a launch, of one recorded launch."""
    inputs = workload.inputs(device)
    try:
        with profscope.session(
            instrument=[CHOICES[choice]],
            memory=given.memory_mib,
            ctas=max(1, workload.ctas // _SHARED_CTAS),
        ) as session:
            workload.launch(inputs)
        if int(session.launches["dropped"].sum()):
            raise RuntimeError("records were dropped")
        summary, ctas = session.summary(), int(session.launches["ctas"].sum())
        in_ops = summary.loc[summary["kind"] == "op", "self_cycles"].sum()
        share = 100 * (1 - in_ops / summary["self_cycles"].sum())
        records = int(session.launches["records"].sum()) / (ctas * workload.warps)
    except Exception as error:  # noqa: BLE001  the other choices still count
        return (Cell(error=why(error)),) * 3
    return Cell((float(share),)), Cell((records,)), Cell((given.launch_bytes / 1e6,))


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
