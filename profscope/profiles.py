"""The profile: plain tables, the hinge between recording a kernel and looking at it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from profscope.analysis.checks import problems
from profscope.analysis.recorded import not_samples
from profscope.analysis.summary import summarise, with_launches
from profscope.analysis.values import first_nan
from profscope.analysis.waits import transaction_table
from profscope.analysis.work import with_work
from profscope.schema import launches_frame, spans_frame

__all__ = ["Profile", "load"]


@dataclass(frozen=True, eq=False)
class Profile:
    """What a session collected, as plain data.

    df        one row per span, the columns of `profscope.schema.SPAN_DTYPES`, in order of launch, cta, warp
    and time
    launches  one row per launch, the columns of `profscope.schema.LAUNCH_DTYPES`
    metadata  a JSON-able dict: tool, versions, device, options, notes to the user
    """

    df: pd.DataFrame = field(default_factory=spans_frame)
    launches: pd.DataFrame = field(default_factory=launches_frame)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        """Whether the cycles come from the emulator's cost model; then no figure here is GPU time."""
        return self.metadata.get("backend") == "emulator"

    def summary(self) -> pd.DataFrame:
        """One row per kernel and scope: counts, totals and percentiles in ns and cycles (see `summarise`);
        bytes, flops and their rates (see `profscope.analysis.work.with_work`); launches recorded and seen.

        The index of an emulated profile's summary is named "EMULATED", which shows wherever it is printed.
        """
        unscaled = not_samples(self.metadata)
        table = with_work(summarise(self.df, self.launches, unscaled), self.launches, self.metadata)
        table = with_launches(table, self.launches, self.metadata)
        return table.rename_axis(index="EMULATED" if self.emulated else None)

    def first_nan(self) -> "pd.Series[Any] | None":
        """The span whose probed values were the first with a NaN (see `analysis.values`)."""
        return first_nan(self.df)

    def transactions(self) -> pd.DataFrame:
        """One row per asynchronous operation that a recorded wait ended: when it was issued, how long it was
        in flight, and how long its wait took (see `transaction_table`)."""
        return transaction_table(self.df)

    def validate(self) -> list[str]:
        """What is wrong with the tables, one line each; empty for a sound profile."""
        return problems(self.df, self.launches, self.metadata)

    def save(self, path: str | Path) -> None:
        """Write a trace from which `load` rebuilds this profile exactly, in the format that the suffix names.

        `.pftrace` and `.pftrace.gz` are Perfetto's protobuf, smaller and faster to write; `.json` and
        `.json.gz` are a Chrome trace, which other tools read, too. The file appears whole or not at all.
        Raises OptionError for another suffix, TraceError when it cannot be written.
        """
        from profscope.traces.saving import (
            save,
        )  # the writer imports this module's neighbours, not the other way round

        save(self, path)

    def __repr__(self) -> str:
        emulated = ", EMULATED" if self.emulated else ""
        return f"<Profile: {len(self.df)} spans, {len(self.launches)} launches{emulated}>"


def load(path: str | Path) -> Profile:
    """Read a trace: one saved by profscope, exactly, whatever its name; a Kineto or Proton Chrome trace as
    far as it goes; or what a session with `spool=` wrote: its file, or its folder if there is one file in it.

    Raises TraceError, in one line saying what the file is, for anything else.
    """
    from profscope.traces.loading import load as load_trace

    return load_trace(path)
