"""One configuration of a kernel: what it is, how long its launches took, and what recording it cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.limits import bound_by
from profscope.analysis.model.entries import (
    Configuration,
    Ctas,
    LaunchTimes,
    Limits,
    MovedBytes,
    Records,
    Resources,
    Slowdown,
    Source,
    Work,
)
from profscope.analysis.model.lines import identity
from profscope.analysis.model.numbers import known_count, known_number
from profscope.analysis.spans.rows import grid_ctas
from profscope.schema import Tables

__all__ = [
    "COUNTER",
    "EVENTS",
    "MODEL",
    "RECORDS",
    "configuration_of",
    "ctas_of",
    "kernel_id",
    "launch_times",
    "limits_entry",
    "records_of",
    "resources_of",
    "slowdown_of",
    "source_of",
    "work_of",
]

RECORDS: Final = "records: from the first to the last clock of each launch"
MODEL: Final = "the emulator's cost model"
EVENTS: Final = "CUDA events around bare launches"
COUNTER: Final = "the hardware's counter gpu__time_duration.sum of bare launches"
_MOST_ARGUMENTS: Final = 24
_MOST_OPS: Final = 6
_RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions")


def kernel_id(about: Mapping[str, Any], kernel: str, variant: int) -> str:
    """The same in every session for the same kernel and configuration; if that is not known, of the name and
    the variant's number."""
    return identity(str(about["key"])) if about.get("key") else identity(kernel, str(variant))


def configuration_of(about: Mapping[str, Any]) -> Configuration | None:
    """Constexprs and options of the launch, without the types of arguments; None if they are not known."""
    if "constexprs" not in about:
        return None
    shown = list((about["constexprs"] or {}).items())[:_MOST_ARGUMENTS]
    options = (about.get(name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"))
    return Configuration({str(name): value for name, value in shown}, *options)


def source_of(tables: Tables, kernel: str, files: set[str]) -> Source | None:
    """None if there are several texts and none is surely the kernel's own. files: where its spans stand."""
    texts = [each for each in tables.metadata.get("sources") or [] if each["name"] == kernel]
    own = texts[0] if len(texts) == 1 else next((each for each in texts if each["file"] in files), None)
    if own is None:
        return None
    line = int(own["line"]) + _decorator_lines(str(own["text"]))
    return Source(str(own["file"]), line, str(own.get("sha256") or ""))


def _decorator_lines(text: str) -> int:
    """How many lines stand before the `def` of a function's text; 0 if there is none."""
    before = re.match(r"(?:(?!\s*def\b).*\n)*?(?=\s*def\b)", text)
    return before.group().count("\n") if before else 0


def launch_times(times: pd.Series[float], unit: str, source: str) -> LaunchTimes | None:
    """times: of launches, missing where not known. None if none is."""
    known = times.dropna().to_numpy(np.float64)
    if not len(known):
        return None
    low, median, high = (float(value) for value in np.quantile(known, (0.25, 0.5, 0.75)))
    return LaunchTimes(
        unit=unit,
        launches=len(known),
        total=float(known.sum()),
        median=median,
        p25=low,
        p75=high,
        min=float(known.min()),
        max=float(known.max()),
        source=source,
    )


def slowdown_of(cost: Mapping[str, Any]) -> Slowdown:
    """cost: a row of `overhead`, as of all that follow."""
    ratio, low, high = (known_number(cost[name]) for name in ("slowdown", "slowdown_low", "slowdown_high"))
    return Slowdown(ratio, low, high, str(cost["basis"]))


def resources_of(cost: Mapping[str, Any]) -> Resources:
    own = {name: known_count(cost[name]) for name in _RESOURCES}
    bare = {name: known_count(cost[f"bare_{name}"]) for name in _RESOURCES}
    return Resources(own, None if set(bare.values()) == {None} else bare)


def records_of(launches: pd.DataFrame, cost: Mapping[str, Any]) -> Records:
    return Records(
        kept=int(launches["records"].sum()),
        dropped=int(launches["dropped"].sum()),
        per_warp=known_number(cost["records_per_warp"]),
        memory_bytes=int(launches["profile_bytes"].sum()),
    )


def ctas_of(launches: pd.DataFrame) -> Ctas:
    return Ctas(
        grid=int(grid_ctas(launches).sum()),
        recorded=int(launches["ctas"].sum()),
        unfinished=int(launches["unfinished"].sum()),
    )


def limits_entry(rows: pd.DataFrame) -> Limits | None:
    """rows: those of `limits` by counters."""
    if not len(rows):
        return None
    used = zip(rows["resource"].tolist(), rows["peak_pct"].tolist(), strict=True)
    return Limits(bound_by(rows), {str(resource): known_number(value) for resource, value in used})


def work_of(summary: pd.DataFrame) -> Work | None:
    """summary: the rows of the configuration. Which memory bytes are of, the op says, so they are told by
    op."""
    if not len(summary):
        return None
    moved, rate = "bytes_at_most", "gb_per_s_at_most"
    ops = summary[summary[moved].notna() & (summary[moved] > 0)]
    by_op = ops.groupby(ops["scope"].astype("str"), sort=False)[[moved, rate]].sum()
    by_op = by_op.sort_values(moved, ascending=False, kind="stable").head(_MOST_OPS)
    return Work(
        flops=known_count(summary["flops"].sum(min_count=1)),
        tflop_per_s=known_number(summary["tflop_per_s"].sum(min_count=1)),
        bytes_by_op={
            str(op): MovedBytes(int(row[moved]), known_number(row[rate] or None))
            for op, row in by_op.iterrows()
        },
    )
