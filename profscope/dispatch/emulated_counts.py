"""The emulator's counts of a session's recorded launches, as the tables `counts` and `samples`.

Its samples are the cycles of its cost model: each warp is looked at in every cycle.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from profscope.binaries.rows import SourcePlace, ptx_places
from profscope.dispatch.configurations import Configurations
from profscope.emulator.machine.transactions import SECTOR
from profscope.emulator.ptx_syntax import ptx_class
from profscope.evidence.sample_tables import (
    BARE,
    Number,
    classes_by_place,
    numbering,
    sampler_metadata,
    summed_samples,
)
from profscope.evidence.subject import ExperimentedKernel, of_configurations
from profscope.evidence.tables import Evidence, experiments_table
from profscope.schema import COUNT_DTYPES, COUNTER_DTYPES, measured_frame

if TYPE_CHECKING:
    from profscope.emulator.device import Device
    from profscope.emulator.machine.counts import Totals
    from profscope.emulator.program import Program

__all__ = ["EmulatedCounts"]


@dataclass(frozen=True, eq=False)
class _Counted:
    """A recorded binary. kernel, key: as of `Subject`. ptx: what was executed, records and all."""

    kernel: str
    key: str
    ptx: str = field(repr=False)
    totals: Totals = field(repr=False)


class EmulatedCounts:
    """Installed for the length of a session on the emulator. device: that runs its launches."""

    def __init__(self, device: Device, configurations: Configurations) -> None:
        self._device = device
        self._configurations = configurations
        self._counts: dict[Program, Totals] = {}
        self._tables: tuple[tuple[int, int], Evidence] | None = None  # of so many launches and experiments

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement: launches with records are counted."""
        before, self._device.counts = self._device.counts, self._counts
        try:
            yield
        finally:
            self._device.counts = before

    def tables(self, experiments: Sequence[ExperimentedKernel]) -> Evidence | None:
        """Of the launches so far, with experiments; None if there are none."""
        kernels = self._counted()
        numbers = sum(each.totals.launches for each in kernels), len(experiments)
        if any(numbers) and (self._tables is None or self._tables[0] != numbers):
            self._tables = numbers, _evidence(kernels, experiments)
        return None if self._tables is None else self._tables[1]

    def tensors(self) -> list[dict[str, Any]]:
        """As the metadata's entry "evidence" has them; see `Observing.describe`."""
        return of_configurations(
            {"kernel": each.kernel, "key": each.key, "bytes": each.totals.tensors} for each in self._counted()
        )

    def launch_ns(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By kernel and key what a recorded launch takes, and would take without its records."""
        sums: dict[tuple[str, str], Counter[str]] = {}
        for each in self._counted():
            recorded, bare = each.totals.cycles
            own = sums.setdefault((each.kernel, each.key), Counter())
            own.update(launches=each.totals.launches, recorded=recorded, bare=bare)
        ms = self._device.model.milliseconds
        return {
            key: (1e6 * ms(own["recorded"]) / own["launches"], 1e6 * ms(own["bare"]) / own["launches"])
            for key, own in sums.items()
        }

    def _counted(self) -> list[_Counted]:
        """The binaries that have been recorded."""
        counts = dict(self._counts)  # another thread may launch meanwhile
        recorded = [each.recorded for each in self._configurations.all() if each.recorded is not None]
        return [
            _Counted(
                kernel=kernel.name,
                key="" if build is None else build.key,
                ptx=kernel.asm["ptx"],
                totals=totals,
            )
            for kernel, _, build in recorded
            if (totals := counts.get(kernel.function)) is not None
        ]


def _evidence(kernels: Sequence[_Counted], experiments: Sequence[ExperimentedKernel]) -> Evidence:
    """As `tables.evidence`. Of a configuration with several binaries the one that executed most stands for
    it, and a note says so."""
    number = numbering({})
    groups: dict[tuple[str, str], list[_Counted]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.kernel, kernel.key), []).append(kernel)
    notes = [
        f"{name}: instructions of one of its {len(several)} binaries are counted"
        for (name, _), several in groups.items()
        if len(several) > 1
    ]
    chosen = [max(several, key=_executed) for several in groups.values()]
    rows = [_rows(each).assign(variant=number(each.kernel, each.key)) for each in chosen]
    whole = pd.concat(rows, ignore_index=True) if rows else None
    counts = measured_frame("counts", None if whole is None else {name: whole[name] for name in COUNT_DTYPES})
    keys = dict.fromkeys([*groups, *((each.kernel, each.key) for each in experiments)])
    configurations = [[name, number(name, key), key] for name, key in keys]
    about = {"configurations": configurations, "notes": notes}
    samples = _samples(chosen, number) if chosen else None
    moved = pd.DataFrame(
        [row for each in chosen for row in _moved(each, number(each.kernel, each.key))],
        columns=[*COUNTER_DTYPES],
    )
    counters = measured_frame("counters", {name: moved[name] for name in COUNTER_DTYPES})
    return Evidence(samples, counts, counters, experiments_table(experiments, number), about)


def _moved(kernel: _Counted, variant: int) -> Iterator[dict[str, Any]]:
    """The counters of what DRAM moves in a launch, if L2 keeps all that it has moved: each sector once; and
    of that what a CTA has alone, which a launch of more CTAs moves for each of them."""
    totals = kernel.totals
    for counter, sectors in (
        ("dram_read", totals.loaded.sectors), ("dram_write", totals.stored.sectors),
        ("dram_read_alone", totals.loaded.alone), ("dram_write_alone", totals.stored.alone),
    ):  # fmt: skip
        yield {
            "kernel": kernel.kernel, "variant": variant, "counter": counter, "metric": "distinct sectors",
            "value": SECTOR * sectors / totals.launches, "unit": "B", "peak_pct": np.nan,
            "launches": totals.launches,
        }  # fmt: skip


def _executed(kernel: _Counted) -> int:
    return int(np.sum(kernel.totals.columns["executed"]))


def _rows(kernel: _Counted) -> pd.DataFrame:
    """One row for each instruction of the PTX; a function that is inlined several times counts once."""
    table = _instructions(kernel).drop(columns="class").assign(**kernel.totals.columns)
    keys = ["pc", "opcode", *SourcePlace._fields]
    return (
        table.groupby(keys, sort=True, as_index=False)
        .sum()
        .assign(kernel=kernel.kernel, launches=kernel.totals.launches)
    )


def _instructions(kernel: _Counted) -> pd.DataFrame:
    """One row for each instruction that is counted: pc, opcode, class, and the columns of `SourcePlace`."""
    instructions = [each.instruction for each in kernel.totals.instructions]
    lines = ptx_places(kernel.ptx)
    places = [lines[each.line - 1] for each in instructions]
    return pd.DataFrame(
        {
            "pc": [each.number for each in instructions],
            "opcode": [each.opcode for each in instructions],
            "class": [ptx_class(each.opcode) for each in instructions],
            **{name: [getattr(place, name) for place in places] for name in SourcePlace._fields},
        }
    )


def _samples(kernels: Sequence[_Counted], number: Number) -> tuple[pd.DataFrame, dict[str, Any]]:
    """As `sample_tables`: the cycles of all warps of each kernel's launches, without those of records, so
    that they are the bare binary's."""
    parts, about = [], {}
    for kernel in kernels:
        variant = number(kernel.kernel, kernel.key)
        known, waits = _instructions(kernel), kernel.totals.waits
        at = known.iloc[[each.number for each in waits]].reset_index(drop=True)
        cause = known.iloc[[each.blamed for each in waits]].reset_index(drop=True)
        rows = at[["pc", "file", "line", "call_path", "class"]].assign(
            kernel=kernel.kernel,
            variant=variant,
            **BARE,
            stall=[each.stall for each in waits],
            samples=[each.cycles for each in waits],
            **{f"blamed_{name}": cause[name] for name in ("pc", "file", "line", "class")},
        )
        parts.append(rows)
        about[kernel.kernel, variant] = {
            "kernel": kernel.kernel, "variant": variant, "key": kernel.key, "binary": BARE["binary"],
            "launches": kernel.totals.launches, "samples": int(rows["samples"].sum()), "dropped": 0,
            "period_cycles": [1], "apart": None, "sass": "",
            "instructions": classes_by_place(known.drop_duplicates("pc")),
        }  # fmt: skip
    return summed_samples(parts), sampler_metadata(about, [])
