"""How long launches took as a whole, in ns or in cycles: the one place that every view asks."""

import pandas as pd

from profscope.analysis.cta_rows import ctas_of
from profscope.analysis.span_rows import ended
from profscope.schema import Tables

__all__ = ["busiest_sms", "longest_first", "took"]


def took(tables: Tables, unit: str) -> pd.Series:
    """By index of the table of launches, from first record to last, as they were read: float64, missing (NaN)
    for those whose times are not known (`ended`).

    On the emulator cycles are those of the SM that was busy longest, which are exact; where there are no
    spans, and on a GPU, they are ns times the launch's clock, 0 where that is not known.
    """
    launches = tables.launches
    ns = (launches["end_ns"] - launches["start_ns"]).astype("float64")
    ns = ns.where(launches.index.isin(ended(launches).index))
    if unit == "ns":
        return ns
    cycles = ns * launches["clock_ghz"].fillna(0.0)
    if not tables.emulated:
        return cycles
    counted = launches["launch"].map(busiest_sms(tables))
    return counted.where(counted.notna() & ns.notna(), cycles)


def longest_first(tables: Tables, launches: pd.DataFrame) -> "pd.Series[float]":
    """By kernel and variant, how long some of the tables' launches took together in their unit, the longest
    first."""
    lasted = took(tables, tables.unit)[launches.index]
    times = lasted.groupby([launches["kernel"], launches["variant"]], sort=False).sum()
    return times.sort_values(ascending=False, kind="stable")


def busiest_sms(tables: Tables) -> "pd.Series[float]":
    """By launch, the cycles of the SM that was busy longest: all of it, where all begin at
    once, as on the emulator."""
    ctas = ctas_of(tables)
    ctas = ctas.assign(end=ctas["start_cycle"] + ctas["cycles"])
    of_sm = ctas.groupby(["launch", "sm"]).agg(start=("start_cycle", "min"), end=("end", "max"))
    return (of_sm["end"] - of_sm["start"]).groupby("launch").max().astype("float64")
