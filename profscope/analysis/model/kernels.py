"""One configuration of a kernel: what it is, how long its launches took, what recording it cost, and what is
found in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.breakdown import Account
from profscope.analysis.experiments import most_saved_first
from profscope.analysis.limits import bound_by
from profscope.analysis.model.entries import (
    Configuration,
    Ctas,
    EvidenceValue,
    ExperimentEntry,
    FindingEntry,
    KernelEntry,
    LaunchTimes,
    LeftOut,
    Limits,
    Lines,
    MovedBytes,
    PathStep,
    Records,
    Resources,
    Slowdown,
    Source,
    Tail,
    Work,
)
from profscope.analysis.model.judgement import TimelineAnswers
from profscope.analysis.model.labels import Group
from profscope.analysis.model.lines import NO_SAMPLES, identity, lines_entry
from profscope.analysis.model.numbers import entry_of, known_count, known_number
from profscope.analysis.overhead import bare_times, variant_entry
from profscope.analysis.spans.rows import grid_ctas
from profscope.analysis.verdict import KernelVerdict
from profscope.schema import Tables

__all__ = ["KernelRows", "Said", "kernel_entry"]

_RECORDS: Final = "records: from the first to the last clock of each launch"
_MODEL: Final = "the emulator's cost model"
_EVENTS: Final = "CUDA events around bare launches"
_COUNTER: Final = "the hardware's counter gpu__time_duration.sum of bare launches"
_MOST_ARGUMENTS: Final = 24
_MOST_OPS: Final = 6
_RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions")


class KernelRows(NamedTuple):
    """Of one configuration, the rows of the tables and questions of these names."""

    launches: pd.DataFrame
    overhead: pd.DataFrame
    limits: pd.DataFrame
    findings: pd.DataFrame
    experiments: pd.DataFrame
    summary: pd.DataFrame
    lines: pd.DataFrame


class Said(NamedTuple):
    """What questions say of all configurations: of those without a finding, what is known; and what could not
    be told of findings and lines."""

    clean: Mapping[str, str]
    findings: Collection[str]
    lines: Collection[str]


def kernel_entry(
    tables: Tables,
    group: Group,
    rows: KernelRows,
    times: pd.Series[float],
    whole_time: float,
    verdict: KernelVerdict,
    account: Account | None,
    timeline: TimelineAnswers | None,
    said: Said,
    *,
    with_lines: bool,
    with_work: bool,
) -> KernelEntry:
    """times: of the launches of the configuration; whole_time: of all launches together."""
    about = variant_entry(tables.metadata, group.kernel, group.variant)
    own_id = _kernel_id(about, group.kernel, group.variant)
    names = {group.kernel, f"{group.kernel} #{group.variant}"}
    launches, summary, time = rows.launches, rows.summary, _launch_times(times, tables.unit, _RECORDS)
    first, cost = launches.iloc[0], rows.overhead.iloc[0]
    return KernelEntry(
        id=own_id,
        kernel=group.kernel,
        variant=group.variant,
        label=group.label,
        differs=group.differs,
        configuration=_configuration_of(about),
        source=_source_of(tables, group.kernel, summary),
        grid=tuple(int(first[name]) for name in ("grid_x", "grid_y", "grid_z")),
        grids=len(launches[["grid_x", "grid_y", "grid_z"]].drop_duplicates()),
        num_ctas=int(first["num_ctas"]),
        num_warps=int(first["num_warps"]),
        launches=len(launches),
        launches_seen=int(summary["launches_seen"].max()) if len(summary) else len(launches),
        untimed=int(times.isna().sum()),
        ctas=Ctas(
            *(int(each.sum()) for each in (grid_ctas(launches), launches["ctas"], launches["unfinished"]))
        ),
        share=None if not whole_time or time is None else time.total / whole_time,
        time=time,
        bare_time=_bare_time(tables, group.kernel, group.variant),
        recorded_over_bare=Slowdown(
            ratio=known_number(cost["slowdown"]),
            low_ratio=known_number(cost["slowdown_low"]),
            high_ratio=known_number(cost["slowdown_high"]),
            basis=str(cost["basis"]),
        ),
        resources=_resources_of(cost),
        records=Records(
            kept=int(launches["records"].sum()),
            dropped=int(launches["dropped"].sum()),
            per_warp=known_number(cost["records_per_warp"]),
            memory_bytes=int(launches["profile_bytes"].sum()),
        ),
        verdict=verdict.label,
        reasons=verdict.reasons,
        verdict_not_measured=verdict.not_measured,
        limits=_limits_of(rows.limits),
        account=account,
        findings=tuple(_finding(own_id, row) for row in rows.findings.to_dict("records")),
        clean=said.clean.get(f"{group.kernel} #{group.variant}") or said.clean.get(group.kernel, ""),
        findings_not_measured=tuple(_about(names, said.findings)),
        experiments=tuple(_experiments(rows.experiments)),
        lines=_lines_of(own_id, rows, tables.unit, names, said.lines) if with_lines else None,
        overlap=None if timeline is None else _overlap_of(timeline),
        critical_path=()
        if timeline is None
        else tuple(entry_of(PathStep, row) for row in timeline.critical_path.rows),
        tail=next((entry_of(Tail, row) for row in timeline.tail.rows), None) if timeline else None,
        work=_work_of(summary) if with_work else None,
        left_out=LeftOut(0, 0, 0),
    )


def _about(names: set[str], texts: Collection[str]) -> list[str]:
    """What is said of one configuration, without its name."""
    split = (text.partition(": ") for text in texts)
    return list(dict.fromkeys(said for name, _, said in split if name in names))


def _kernel_id(about: Mapping[str, Any], kernel: str, variant: int) -> str:
    """The same in every session for the same kernel and configuration; if that is not known, of the name and
    the variant's number."""
    return identity(str(about["key"])) if about.get("key") else identity(kernel, str(variant))


def _configuration_of(about: Mapping[str, Any]) -> Configuration | None:
    """Constexprs and options of the launch, without the types of arguments; None if they are not known."""
    if "constexprs" not in about:
        return None
    shown = list((about["constexprs"] or {}).items())[:_MOST_ARGUMENTS]
    options = (about.get(name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg"))
    return Configuration({str(name): value for name, value in shown}, *options)


def _source_of(tables: Tables, kernel: str, summary: pd.DataFrame) -> Source | None:
    """None if there are several texts and none is surely the kernel's own: that of the file of its spans."""
    texts = [each for each in tables.metadata.get("sources") or [] if each["name"] == kernel]
    files = {*summary.loc[summary["kind"] == "kernel", "file"].astype("str")} if len(summary) else set()
    own = texts[0] if len(texts) == 1 else next((each for each in texts if each["file"] in files), None)
    if own is None:
        return None
    line = int(own["line"]) + _decorator_lines(str(own["text"]))
    return Source(str(own["file"]), line, str(own.get("sha256") or ""))


def _decorator_lines(text: str) -> int:
    """How many lines stand before the `def` of a function's text; 0 if there is none."""
    before = re.match(r"(?:(?!\s*def\b).*\n)*?(?=\s*def\b)", text)
    return before.group().count("\n") if before else 0


def _launch_times(times: pd.Series[float], unit: str, source: str) -> LaunchTimes | None:
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


def _bare_time(tables: Tables, kernel: str, variant: int) -> LaunchTimes | None:
    timed = bare_times(tables, kernel, variant)
    bare = pd.Series(timed.bare, dtype="float64")
    if tables.emulated:
        clock_khz = (tables.metadata.get("device") or {}).get("clock_khz")
        return _launch_times(bare * (float(clock_khz or np.nan) / 1e6), tables.unit, _MODEL)
    return _launch_times(bare, "ns", _COUNTER if timed.basis == "counters" else _EVENTS)


def _resources_of(cost: pd.Series[Any]) -> Resources:
    own = {name: known_count(cost[name]) for name in _RESOURCES}
    bare = {name: known_count(cost[f"bare_{name}"]) for name in _RESOURCES}
    return Resources(own, None if set(bare.values()) == {None} else bare)


def _limits_of(rows: pd.DataFrame) -> Limits | None:
    if not len(rows):
        return None
    used = zip(rows["resource"].tolist(), rows["peak_pct"].tolist(), strict=True)
    return Limits(bound_by(rows), {str(resource): known_number(value) for resource, value in used})


def _finding(kernel_id: str, row: Mapping[Any, Any]) -> FindingEntry:
    values = {
        str(name): EvidenceValue(known_number(each["value"]), str(each["unit"]))
        for name, each in row["evidence_values"].items()
    }
    return entry_of(
        FindingEntry, row, id=f"{kernel_id}-{row['finding']}-{row['line']}", evidence_values=values
    )


def _experiments(rows: pd.DataFrame) -> Iterator[ExperimentEntry]:
    for row in most_saved_first(rows).to_dict("records"):
        yield entry_of(ExperimentEntry, row, valid=bool(row["valid"]))


def _lines_of(kernel_id: str, rows: KernelRows, unit: str, names: set[str], said: Collection[str]) -> Lines:
    missing = [*(text for text in said if text.startswith(NO_SAMPLES)), *_about(names, said)]
    return lines_entry(kernel_id, rows.lines, rows.summary, unit, missing)


def _overlap_of(timeline: TimelineAnswers) -> dict[str, dict[str, float | None]] | None:
    """What runs at once in a CTA ("cta") and on an SM ("sm")."""
    entries = {}
    for row in timeline.overlap.rows:
        figures = {name: known_number(row[name]) for name in row if name not in ("kernel", "variant", "of")}
        entries[str(row["of"])] = figures
    return entries or None


def _work_of(summary: pd.DataFrame) -> Work | None:
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
