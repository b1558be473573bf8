"""The table `counts` of launches on the emulator, which counts what it executes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from instrument_passes.sass.rows import SourcePlace, ptx_places
from profscope.evidence.sample_tables import numbering
from profscope.evidence.tables import Evidence
from profscope.schema import COUNT_DTYPES, measured_frame

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


def emulated_evidence(kernels: Sequence[CountedKernel]) -> Evidence:
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
    configurations = [[name, number(name, key), key] for name, key in of_configurations]
    about = {"configurations": configurations, "notes": notes}
    return Evidence(None, counts, measured_frame("counters"), about)


def _executed(kernel: CountedKernel) -> int:
    return int(np.sum(kernel.totals.columns["executed"]))


def _rows(kernel: CountedKernel) -> pd.DataFrame:
    """One row for each instruction of the PTX; a function that is inlined several times counts once."""
    instructions = [each.instruction for each in kernel.totals.instructions]
    lines = ptx_places(kernel.ptx)
    places = [lines[each.line - 1] for each in instructions]
    columns = {name: [getattr(place, name) for place in places] for name in SourcePlace._fields}
    table = pd.DataFrame(
        {
            "pc": [each.number for each in instructions],
            "opcode": [each.opcode for each in instructions],
            **columns,
            **kernel.totals.columns,
        }
    )
    keys = ["pc", "opcode", *columns]
    return (
        table.groupby(keys, sort=True, as_index=False)
        .sum()
        .assign(kernel=kernel.kernel, launches=kernel.totals.launches)
    )
