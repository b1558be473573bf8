"""What is worked out of a profile to be drawn above its spans, for both formats that Perfetto reads."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from profscope.analysis.span_rows import Ints
from profscope.schema import Tables
from profscope.traces.attempts import attempted, noted
from profscope.traces.drawn_counters import Counter, drawn_counters
from profscope.traces.overview import Bars, WarpRuns, drawn_findings, warp_runs
from profscope.traces.tracks import Tracks

__all__ = ["Above", "worked_out"]


class Above(NamedTuple):
    """tables: the profile, with a note where something could not be worked out."""

    tables: Tables
    runs: WarpRuns
    counters: list[Counter]
    findings: Bars | None


def worked_out(tables: Tables, numbered: tuple[Ints, pd.DataFrame], tracks: Tracks) -> Above | None:
    """None where there are no spans. numbered: as `drawn_counters` takes it."""
    if not len(tables.df):
        return None
    notes: list[str] = []
    runs = warp_runs(tables.df, tracks)
    nothing: list[Counter] = []
    counters = attempted("counters", lambda: drawn_counters(tables, numbered, tracks, runs), nothing, notes)
    told = attempted("findings", lambda: drawn_findings(tables), None, notes)
    return Above(noted(tables, notes), runs, counters, told)
