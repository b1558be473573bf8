"""What no trace file can hold, so that it is neither written nor taken from one that says so."""

from profscope.schema import (
    HOST_DTYPES,
    LAUNCH_DTYPES,
    NUMBER_DTYPES,
    SAMPLE_DTYPES,
    SPREAD_DTYPES,
    SUM_DTYPES,
    Tables,
)

__all__ = ["misfit"]

LONGEST_NS = (1 << 63) - 1
"""292 years: what int64 can tell apart."""


def misfit(tables: Tables) -> str | None:
    """What no trace file can hold, in a few words: times too far to count with, text that is no Unicode.

    None for tables that fit. Takes about a millisecond a million rows.
    """
    return _far_time(tables) or _odd_text(tables)


def _far_time(tables: Tables) -> str | None:
    starts, durations = (tables.df[name].to_numpy() for name in ("start_ns", "duration_ns"))
    if int(durations.min(initial=0)) < 0:
        return f"a duration_ns of {durations.min()}"
    times = [starts, *(tables.launches[name].to_numpy() for name in ("start_ns", "end_ns"))]
    least = min(int(each.min(initial=0)) for each in times)
    last_end = int(starts.max(initial=0)) + int(durations.max(initial=0))  # or later
    most = max(last_end, *(int(each.max(initial=0)) for each in times))
    if most > LONGEST_NS or most - least > LONGEST_NS:
        return f"times from {least} to {most} ns, more than 292 years"
    return None


def _odd_text(tables: Tables) -> str | None:
    df, launches = tables.df, tables.launches
    texts = {
        str(name): list(table[name].cat.categories)
        for table in (tables.events, df)
        for name in table
        if table[name].dtype == "category"
    }
    beside = (
        (launches, LAUNCH_DTYPES),
        (tables.sums, SUM_DTYPES),
        (tables.spreads, SPREAD_DTYPES),
        (tables.numbers, NUMBER_DTYPES),
        (tables.samples, SAMPLE_DTYPES),
        (tables.host, HOST_DTYPES),
    )
    others = [
        (name, table[name].tolist()) for table, dtypes in beside for name in dtypes if dtypes[name] == "str"
    ]
    for name, values in [*texts.items(), *others]:
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            return f"a {name} with a lone surrogate, which UTF-8 cannot spell"
    return None
