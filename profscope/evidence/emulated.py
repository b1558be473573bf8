"""The tables `counts` and `samples` of launches on the emulator, which counts what it executes.

Its samples are the cycles of its cost model: each warp is looked at in every cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from profscope.binaries.rows import SourcePlace, ptx_places
from profscope.emulator.machine.transactions import SECTOR
from profscope.emulator.ptx_syntax import ptx_class
from profscope.evidence.sample_tables import classes_by_place, numbering, sampler_metadata, summed_samples
from profscope.evidence.subject import ExperimentedKernel
from profscope.evidence.tables import Evidence, experiments_table
from profscope.schema import COUNT_DTYPES, COUNTER_DTYPES, measured_frame

if TYPE_CHECKING:
    from profscope.emulator.machine.counts import Totals

__all__ = ["CountedKernel", "emulated_evidence"]


@dataclass(frozen=True, eq=False)
class CountedKernel:
    """A recorded binary. kernel, key: as of `Subject`. ptx: what was executed, records and all.
    is_probed: its records have values of tensors in them."""

    kernel: str
    key: str
    ptx: str = field(repr=False)
    totals: Totals = field(repr=False)
    is_probed: bool


def emulated_evidence(
    kernels: Sequence[CountedKernel], experiments: Sequence[ExperimentedKernel] = ()
) -> Evidence:
    """As `tables.evidence`. Of a configuration with several binaries the one that executed most stands for
    it, and a note says so. One that is probed is left out: threads exchange the values, as a kernel does."""
    number = numbering({})
    of_configurations: dict[tuple[str, str], list[CountedKernel]] = {}
    for kernel in kernels:
        if not kernel.is_probed:
            of_configurations.setdefault((kernel.kernel, kernel.key), []).append(kernel)
    probed = dict.fromkeys(kernel.kernel for kernel in kernels if kernel.is_probed)
    notes = [f"{name}: instructions are not counted with value-probe, which adds some" for name in probed]
    notes += [
        f"{name}: instructions of one of its {len(several)} binaries are counted"
        for (name, _), several in of_configurations.items()
        if len(several) > 1
    ]
    chosen = [max(several, key=_executed) for several in of_configurations.values()]
    rows = [_rows(each).assign(variant=number(each.kernel, each.key)) for each in chosen]
    whole = pd.concat(rows, ignore_index=True) if rows else None
    counts = measured_frame("counts", None if whole is None else {name: whole[name] for name in COUNT_DTYPES})
    keys = dict.fromkeys([*of_configurations, *((each.kernel, each.key) for each in experiments)])
    configurations = [[name, number(name, key), key] for name, key in keys]
    about = {"configurations": configurations, "notes": notes}
    samples = _samples(chosen, number) if chosen else None
    moved = pd.DataFrame(
        [row for each in chosen for row in _moved(each, number(each.kernel, each.key))],
        columns=[*COUNTER_DTYPES],
    )
    counters = measured_frame("counters", {name: moved[name] for name in COUNTER_DTYPES})
    return Evidence(samples, counts, counters, experiments_table(experiments, number), about)


def _moved(kernel: CountedKernel, variant: int) -> Iterator[dict[str, Any]]:
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


def _executed(kernel: CountedKernel) -> int:
    return int(np.sum(kernel.totals.columns["executed"]))


def _rows(kernel: CountedKernel) -> pd.DataFrame:
    """One row for each instruction of the PTX; a function that is inlined several times counts once."""
    table = _instructions(kernel).drop(columns="class").assign(**kernel.totals.columns)
    keys = ["pc", "opcode", *SourcePlace._fields]
    return (
        table.groupby(keys, sort=True, as_index=False)
        .sum()
        .assign(kernel=kernel.kernel, launches=kernel.totals.launches)
    )


def _instructions(kernel: CountedKernel) -> pd.DataFrame:
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


def _samples(
    kernels: Sequence[CountedKernel], number: Callable[[str, str], int]
) -> tuple[pd.DataFrame, dict[str, Any]]:
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
            launch=-1,
            binary="bare",
            stall=[each.stall for each in waits],
            samples=[each.cycles for each in waits],
            **{f"blamed_{name}": cause[name] for name in ("pc", "file", "line", "class")},
        )
        parts.append(rows)
        about[kernel.kernel, variant, "bare"] = {
            "kernel": kernel.kernel, "variant": variant, "key": kernel.key, "binary": "bare",
            "launches": kernel.totals.launches, "samples": int(rows["samples"].sum()), "dropped": 0,
            "period_cycles": [1], "apart": None, "sass": "",
            "instructions": classes_by_place(known.drop_duplicates("pc")),
        }  # fmt: skip
    return summed_samples(parts), sampler_metadata(about, [])
