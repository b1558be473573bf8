"""What it costs to keep sums, beside records and Proton; and whether both say the same.

    python -m bench.sums [--rows REGEX] [--rounds 7] [--limit-s 400] [--json FILE]

For every kernel at the default and the heavy level: its slowdown with records, with sums (the longest of each
site included), with totals alone, and with Proton at the same points; the bytes a launch leaves; and by how
many points the shares of the scopes differ between records and sums. Then what a launch costs the host.
--dry-run takes small sizes and the emulator, to show that it runs; its figures mean nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final

import torch

import profscope
from bench import kernels
from bench.command import Measure, measure_all
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import host_us, interleave, why
from bench.variants import BARE, DEFAULT, LEVELS, OURS, SHARED, Buffers, Variant, buffers, variants

__all__ = ["KEPT", "main"]

KEPT: Final = ("sums", "totals")
_LEVELS: Final = {"default": DEFAULT, "heavy": LEVELS["heavy"]}
_SHARED_CTAS: Final = 256  # so many CTAs tell how a kernel's time is shared out
_LAUNCHES: Final = 6  # the first of them finds its caches cold
_LIMIT_S: Final = 400.0
_MEMORY_MIB: Final = 1024  # so that nothing is drained while kernels are timed


def keeping(pipeline: str, keep: str, **options: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Makes sessions whose launches all keep sums."""
    return partial(profscope.session, instrument=[pipeline], keep=keep, spans_every=0, **options)


def slowdowns(workload: Workload, level: str, device: str, rounds: int) -> list[Row]:
    """The rows of one kernel at one level: slowdown, bytes a launch, how far the shares are apart."""
    pipeline = _LEVELS[level]
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, pipeline)
    names = [BARE, OURS, SHARED] if torch.cuda.is_available() else [BARE, OURS]  # Proton needs a GPU
    every: dict[str, Variant] = dict(variants(workload, pipeline, given, *names))
    every |= {keep: keeping(pipeline, keep, memory=_MEMORY_MIB) for keep in KEPT}
    cells = interleave(every, timed_launches(workload, inputs, device, given.launches), rounds)["us"]
    stride = max(1, workload.ctas // _SHARED_CTAS)
    tables = {
        OURS: _recorded(workload, device, partial(_records, pipeline, given, ctas=stride)),
        "sums": _recorded(workload, device, keeping(pipeline, "sums", ctas=stride)),
    }
    sizes = {
        name: Cell(error=each) if isinstance(each, str) else _cta_bytes(each) for name, each in tables.items()
    }
    return [
        Row(f"slowdown, {level}", workload.name, "bare: us, others: ratio", cells, BARE),
        Row(f"profile of a recorded CTA, {level}", workload.name, "bytes", sizes),
        Row(f"shares of scopes, {level}", workload.name, "points apart", {"most": _apart(tables)}),
    ]


def _records(pipeline: str, given: Buffers, ctas: int) -> AbstractContextManager[Any]:
    return profscope.session(instrument=[pipeline], memory=given.memory_mib, buffer=given.records, ctas=ctas)


def _recorded(workload: Workload, device: str, session: Callable[[], AbstractContextManager[Any]]) -> Any:
    """The profile of some launches; or why there is none."""
    inputs = workload.inputs(device)
    try:
        with session() as prof:
            for _ in range(_LAUNCHES):
                workload.launch(inputs)
        return prof.profile
    except Exception as error:  # noqa: BLE001  the other figures still count
        return why(error)


def _cta_bytes(profile: Any) -> Cell:
    launches = profile.launches
    return Cell((float(launches["profile_bytes"].sum() / launches["ctas"].sum()),))


def _apart(tables: Mapping[str, Any]) -> Cell:
    """The most by which a scope's share of the kernel's time differs, in points."""
    if errors := [each for each in tables.values() if isinstance(each, str)]:
        return Cell(error=errors[0])
    key = ["scope", "kind", "file", "line", "call_path"]
    one, other = (
        profile.summary()
        .astype({"scope": "str", "file": "str", "call_path": "str"})
        .groupby(key)["share"]
        .sum()
        for profile in tables.values()
    )
    apart = one.sub(other, fill_value=0.0)
    worst = apart.abs().idxmax()
    return Cell((float(100 * apart.abs().max()),), note=f"{worst[0]}, line {worst[3]}")


def launches(workload: Workload, device: str, rounds: int, count: int) -> list[Row]:
    """What a launch costs the launching thread, and from launch to launch, all that follows it included."""
    inputs = workload.inputs(device)
    workload.launch(inputs)
    every: dict[str, Variant] = {
        BARE: nullcontext,
        "spans": lambda: profscope.session(instrument=[DEFAULT]),
        "sums": keeping(DEFAULT, "sums"),
        "sums, spans now and then": lambda: profscope.session(instrument=[DEFAULT], keep="sums"),
    }

    def sample(name: str) -> Mapping[str, float]:
        for _ in range(count):
            workload.launch(inputs)
        host, wall = host_us(lambda: workload.launch(inputs), count)
        return {"launching thread": host, "launch to launch": wall}

    figures = interleave(every, sample, rounds)
    return [
        Row("cost of a launch", f"{workload.name}: {line}", "us", cells) for line, cells in figures.items()
    ]


def measured(options: argparse.Namespace, device: str) -> Iterator[tuple[str, Measure]]:
    """What is measured, by name, the kernels of the targets first."""
    small, rounds = options.dry_run, options.rounds
    add = kernels.add(64 * 1024)
    matmul = kernels.matmul(128, (64, 64, 32), 4) if small else kernels.matmul(4096, (128, 128, 64), 4)
    count = 4 if small else 300
    for workload in (add, matmul):
        yield f"launch: {workload.name}", partial(launches, workload, device, min(rounds, 5), count)
    for level in _LEVELS:
        for workload in (*kernels.workloads(small=small), *kernels.larger_tiles(small=small)):
            yield f"{level}: {workload.name}", partial(slowdowns, workload, level, device, rounds)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a figure is missing."""
    return measure_all("bench.sums", __doc__, _LIMIT_S, argv, measured)


if __name__ == "__main__":
    raise SystemExit(main())
