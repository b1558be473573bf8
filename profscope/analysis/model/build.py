"""The model of a profile, from its tables: parts about all kernels, then an entry for each kernel."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.breakdown import Account, time_accounts
from profscope.analysis.experiments import most_saved_first
from profscope.analysis.limits import bound_by, limits_of
from profscope.analysis.line_rows import TimeSources, witnesses
from profscope.analysis.lines import lines_of
from profscope.analysis.model.entries import (
    SCHEMA,
    Configuration,
    Ctas,
    EvidenceValue,
    ExperimentEntry,
    FindingEntry,
    KernelEntry,
    LaunchTimes,
    LeftOut,
    LeftOutOfModel,
    Limits,
    MovedBytes,
    PathStep,
    ProfileModel,
    Records,
    Resources,
    Slowdown,
    Source,
    Tail,
    VerdictEntry,
    Work,
)
from profscope.analysis.model.header import header_of, program_of
from profscope.analysis.model.judgement import Judgement, TimelineAnswers, judgement_of
from profscope.analysis.model.labels import Group, groups_of, short_name
from profscope.analysis.model.lines import NO_SAMPLES, identity, lines_entry
from profscope.analysis.model.missing import not_measured
from profscope.analysis.model.numbers import entry_of, known_count, known_number
from profscope.analysis.overhead import bare_times, overhead
from profscope.analysis.spans.ctas import launch_durations, longest_first
from profscope.analysis.spans.rows import grid_ctas
from profscope.analysis.spans.summing import SummedSpans, summed_spans
from profscope.analysis.summary import summary_of, summary_without_percentiles
from profscope.analysis.timeline.distances import compared
from profscope.analysis.variants import variant_entry
from profscope.analysis.verdict import Verdict, verdict_of
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["ALL_PARTS", "ModelSources", "by_configuration", "profile_model"]

ALL_PARTS: Final = frozenset(("findings", "lines", "accounts", "timelines", "work"))
"""What takes its time to work out: a view asks for what it shows."""

_Key = tuple[str, int]


class ModelSources:
    """Inputs of several parts, each computed when it is first asked for, and once."""

    def __init__(self, tables: Tables, *, percentiles: bool = True) -> None:
        """percentiles: whether the summary has them; putting spans in order takes longest."""
        self.tables = tables
        self._percentiles = percentiles

    @cached_property
    def spans(self) -> SummedSpans:
        return summed_spans(self.tables)

    @cached_property
    def summary(self) -> pd.DataFrame:
        if self._percentiles:
            return summary_of(self.tables, self.spans)
        return summary_without_percentiles(self.tables)

    @cached_property
    def time_sources(self) -> TimeSources:
        return witnesses(self.tables)

    @cached_property
    def distances(self) -> pd.DataFrame:
        return compared(self.time_sources)

    @cached_property
    def _lines(self) -> tuple[pd.DataFrame, list[str]]:
        lines = lines_of(self.tables, self.time_sources, self.distances)
        missing = lines.attrs["not_measured"]
        lines.attrs = {}  # pandas copies them, deeply, with whatever is asked of a table
        return lines, missing

    @property
    def lines(self) -> pd.DataFrame:
        return self._lines[0]

    @property
    def lines_not_measured(self) -> list[str]:
        return self._lines[1]


def profile_model(
    tables: Tables,
    whole: Tables | None = None,
    parts: Collection[str] = ALL_PARTS,
    detailed: int = 0,
    sources: ModelSources | None = None,
    judgement: Judgement | None = None,
) -> ProfileModel:
    """Everything that views show of a profile.

    whole: if the tables have some CTAs, SMs or warps of their launches only, those of the whole launches: the
    verdict, what recording cost, accounts, findings, overlap and critical path are of these. parts: of
    ALL_PARTS. detailed: of so many kernels lines, accounts and timelines are known, those whose launches took
    longest; 0: of all. sources, judgement: of the tables, if known.
    """
    judged = tables if whole is None else whole
    sources = sources or ModelSources(tables, percentiles=False)
    of_whole = sources if judged is tables else ModelSources(judged, percentiles=False)
    groups = groups_of(tables)
    order = [(str(kernel), int(variant)) for kernel, variant in longest_first(tables, tables.launches).index]
    shown = order[: detailed or None]
    with worker_pool(1) as pool:  # findings need nothing of what follows, and take as long
        if {*parts} & {"findings", "lines", "accounts", "timelines"}:
            of_whole.spans  # noqa: B018  which both threads need
        asked = None if judgement else pool.submit(_judgement, of_whole, shown, parts)
        lines = sources.lines if "lines" in parts else None
        accounts = (
            time_accounts(judged, of_whole.time_sources, shown) if "accounts" in parts and shown else {}
        )
        costs = overhead(judged)
        apart = of_whole.distances if len(judged.samples) else pd.DataFrame()
        verdict = verdict_of(judged, costs, apart)
        judgement = asked.result() if asked else judgement
    assert judgement is not None
    summary = sources.summary if {*parts} & {"lines", "work"} else pd.DataFrame()
    durations = launch_durations(tables)
    whole_time = float(durations.dropna().sum())
    rows = {
        "launches": tables.launches,
        "overhead": costs,
        "limits": limits_of(tables.counters),
        "findings": judgement.findings,
        "experiments": judged.experiments,
        "summary": summary,
        "lines": pd.DataFrame() if lines is None else lines,
    }
    answers = _Answers(
        tables,
        {name: (without_attrs(table), by_configuration(table)) for name, table in rows.items()},
        durations,
        whole_time,
        verdict,
        accounts,
        judgement,
        [] if lines is None else sources.lines_not_measured,
    )
    entries = [
        _kernel_entry(
            answers,
            groups[key],
            with_lines=lines is not None and key in shown,
            with_work="work" in parts,
        )
        for key in order
    ]
    return ProfileModel(
        schema=SCHEMA,
        unit=tables.unit,
        emulated=tables.emulated,
        header=header_of(tables),
        verdict=VerdictEntry(verdict.label, verdict.headline, verdict.in_brief(order, short_name)),
        program=program_of(tables, whole_time),
        kernels=tuple(entries),
        other_kernels=(),
        left_out=LeftOutOfModel(0, 0.0, 0.0, 0),
        not_measured=tuple(not_measured(tables, entries, judgement, summary if "work" in parts else None)),
        next_command="",
    )


def _judgement(sources: ModelSources, shown: Collection[_Key], parts: Collection[str]) -> Judgement:
    if not {*parts} & {"findings", "timelines"}:
        return Judgement(pd.DataFrame(), {})
    timelines = shown if "timelines" in parts else ()
    return judgement_of(sources.tables, timelines, sources.spans, with_findings="findings" in parts)


def by_configuration(table: pd.DataFrame) -> dict[_Key, pd.DataFrame]:
    """The rows of each kernel and variant."""
    if not len(table):
        return {}
    groups: Any = without_attrs(table).groupby(["kernel", "variant"], sort=False, observed=True)
    return {(str(kernel), int(variant)): rows for (kernel, variant), rows in groups}


def without_attrs(table: pd.DataFrame) -> pd.DataFrame:
    """The same rows: pandas copies attributes, deeply, with every row that is asked of a table."""
    bare = pd.DataFrame(table)
    bare.attrs = {}
    return bare


_RECORDS: Final = "records: from the first to the last clock of each launch"
_MODEL: Final = "the emulator's cost model"
_EVENTS: Final = "CUDA events around bare launches"
_COUNTER: Final = "the hardware's counter gpu__time_duration.sum of bare launches"
_MOST_ARGUMENTS: Final = 24
_MOST_OPS: Final = 6
_RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions")


@dataclass(frozen=True)
class _Answers:
    """What tables and questions say of all configurations. rows: by table or question, it and the rows of
    each configuration. durations: of launches; whole_time: their sum. lines_missing: what could not be told
    of lines."""

    tables: Tables
    rows: Mapping[str, tuple[pd.DataFrame, Mapping[_Key, pd.DataFrame]]]
    durations: pd.Series[float]
    whole_time: float
    verdict: Verdict
    accounts: Mapping[_Key, Account]
    judgement: Judgement
    lines_missing: Collection[str]

    def of(self, name: str, key: _Key) -> pd.DataFrame:
        """The rows of one configuration."""
        table, by_key = self.rows[name]
        return by_key.get(key, table.iloc[:0])


def _kernel_entry(answers: _Answers, group: Group, *, with_lines: bool, with_work: bool) -> KernelEntry:
    tables, key = answers.tables, (group.kernel, group.variant)
    about = variant_entry(tables.metadata, *key)
    own_id = _kernel_id(about, *key)
    name = f"{group.kernel} #{group.variant}"
    names = {group.kernel, name}
    launches, summary = answers.of("launches", key), answers.of("summary", key)
    times, whole_time = answers.durations[launches.index], answers.whole_time
    time, verdict = _launch_times(times, tables.unit, _RECORDS), answers.verdict[key]
    first, cost = launches.iloc[0], answers.of("overhead", key).iloc[0]
    timeline, said = answers.judgement.timelines.get(key), answers.judgement.findings.attrs
    clean: Mapping[str, str] = said.get("clean") or {}
    lines = None
    if with_lines:
        missing = [each for each in answers.lines_missing if each.startswith(NO_SAMPLES)]
        missing += _about(names, answers.lines_missing)
        lines = lines_entry(own_id, answers.of("lines", key), summary, tables.unit, missing)
    return KernelEntry(
        id=own_id,
        kernel=group.kernel,
        variant=group.variant,
        label=group.label,
        differs=group.differs,
        configuration=_configuration_of(about),
        source=_source_of(tables, group.kernel, summary),
        grid=tuple(int(first[name]) for name in ("grid_x", "grid_y", "grid_z")),
        grids=len({*zip(*(launches[name].tolist() for name in ("grid_x", "grid_y", "grid_z")), strict=True)}),
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
        bare_time=_bare_time(tables, *key),
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
        limits=_limits_of(answers.of("limits", key)),
        account=answers.accounts.get(key),
        findings=tuple(_findings(own_id, answers.of("findings", key))),
        clean=clean.get(name) or clean.get(group.kernel, ""),
        findings_not_measured=tuple(_about(names, said.get("not_measured") or [])),
        experiments=tuple(_experiments(answers.of("experiments", key))),
        lines=lines,
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
    if len(texts) == 1:
        own = texts[0]
    else:
        files = {*summary.loc[summary["kind"] == "kernel", "file"].astype("str")} if len(summary) else set()
        own = next((each for each in texts if each["file"] in files), None)
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


def _findings(kernel_id: str, rows: pd.DataFrame) -> Iterator[FindingEntry]:
    for row in rows.to_dict("records") if len(rows) else ():  # none takes as long as some
        yield _finding(kernel_id, row)


def _finding(kernel_id: str, row: Mapping[Any, Any]) -> FindingEntry:
    values = {
        str(name): EvidenceValue(known_number(each["value"]), str(each["unit"]))
        for name, each in row["evidence_values"].items()
    }
    return entry_of(
        FindingEntry, row, id=f"{kernel_id}-{row['finding']}-{row['line']}", evidence_values=values
    )


def _experiments(rows: pd.DataFrame) -> Iterator[ExperimentEntry]:
    for row in most_saved_first(rows).to_dict("records") if len(rows) else ():
        yield entry_of(ExperimentEntry, row, valid=bool(row["valid"]))


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
    sizes, rates = (
        summary[name].to_numpy(np.float64, na_value=np.nan).tolist()
        for name in ("bytes_at_most", "gb_per_s_at_most")
    )
    moved, speed = defaultdict[str, float](float), defaultdict[str, float](float)
    for op, size, rate in zip(summary["scope"].astype("str"), sizes, rates, strict=True):
        if size > 0:
            moved[op] += size
            speed[op] += 0.0 if math.isnan(rate) else rate
    most = sorted(moved, key=lambda op: moved[op], reverse=True)[:_MOST_OPS]
    return Work(
        flops=known_count(summary["flops"].sum(min_count=1)),
        tflop_per_s=known_number(summary["tflop_per_s"].sum(min_count=1)),
        bytes_by_op={op: MovedBytes(int(moved[op]), known_number(speed[op] or None)) for op in most},
    )
