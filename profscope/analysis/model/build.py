"""The model of a profile, from its tables."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.breakdown import TimeAccount, apportioned, time_accounts
from profscope.analysis.limits import limits_of
from profscope.analysis.line_rows import TimeSources, witnesses
from profscope.analysis.lines import lines_alone
from profscope.analysis.model import kernels
from profscope.analysis.model.entries import (
    SCHEMA,
    Account,
    KernelEntry,
    LaunchTimes,
    LeftOut,
    LeftOutOfModel,
    Lines,
    ProfileModel,
    VerdictEntry,
    VerdictReason,
)
from profscope.analysis.model.header import header_of, program_of
from profscope.analysis.model.judgement import (
    Judgement,
    finding_entry,
    judgement_of,
    overlap_entry,
    path_entries,
    tail_entry,
)
from profscope.analysis.model.labels import groups_of, short_name
from profscope.analysis.model.lines import NO_SAMPLES, lines_entry
from profscope.analysis.model.missing import not_measured
from profscope.analysis.overhead import bare_times, overhead, variant_entry
from profscope.analysis.spans.ctas import launch_durations, longest_first
from profscope.analysis.spans.summing import SummedSpans, summed_spans
from profscope.analysis.summary import summary_of
from profscope.analysis.timeline.distances import compared
from profscope.analysis.verdict import Verdict, verdict_of
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["ALL_PARTS", "ModelSources", "account_entry", "by_configuration", "profile_model"]

ALL_PARTS: Final = frozenset(("findings", "lines", "accounts", "timelines", "work"))
"""What takes its time to work out: a view asks for what it shows."""

_TENTHS: Final = 1000
_NO_ROWS: Final = pd.DataFrame()
_Key = tuple[str, int]


class ModelSources:
    """What several parts are made from, each worked out when it is first asked for, and once."""

    def __init__(self, tables: Tables, *, percentiles: bool = True) -> None:
        """percentiles: whether the summary has them; putting spans in order takes longest."""
        self.tables = tables
        self._percentiles = percentiles

    @cached_property
    def spans(self) -> SummedSpans:
        return summed_spans(self.tables)

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summary_of(self.tables, self.spans, ordered=self._percentiles)

    @cached_property
    def time_sources(self) -> TimeSources:
        return witnesses(self.tables, self.summary)

    @cached_property
    def _lines_and_distances(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        lines, distances = lines_alone(self.tables, self.time_sources)
        self.lines_not_measured: list[str] = lines.attrs["not_measured"]
        lines.attrs = {}  # pandas copies them, deeply, with whatever is asked of a table
        return lines, distances

    @property
    def lines(self) -> pd.DataFrame:
        return self._lines_and_distances[0]

    @cached_property
    def distances(self) -> list[dict[Any, Any]]:
        if not len(self.tables.samples):
            return []
        known = vars(self).get("_lines_and_distances")
        table = known[1] if known else compared(self.time_sources, self.tables.metadata)
        return table.to_dict("records")


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
    builder = _Builder(tables, whole, frozenset(parts), detailed, sources, judgement)
    return builder.model()


class _Builder:
    def __init__(
        self,
        tables: Tables,
        whole: Tables | None,
        parts: frozenset[str],
        detailed: int,
        sources: ModelSources | None,
        judgement: Judgement | None,
    ) -> None:
        self.tables, self.parts, self.judgement = tables, parts, judgement
        self.judged = tables if whole is None else whole
        self.unit = tables.unit
        self.sources = sources or ModelSources(tables, percentiles=False)
        self.of_whole = (
            self.sources if self.judged is tables else ModelSources(self.judged, percentiles=False)
        )
        self.totals = longest_first(tables, tables.launches)
        order = [(str(kernel), int(variant)) for kernel, variant in self.totals.index]
        self.order, self.detailed = order, order[: detailed or None]

    def model(self) -> ProfileModel:
        tables, judged = self.tables, self.judged
        with worker_pool(1) as pool:  # findings need nothing of what follows, and take as long
            if self.parts & {"findings", "lines", "accounts", "timelines"}:
                self.of_whole.spans  # noqa: B018  which both threads need
            asked = pool.submit(self._judgement)
            lines = self.sources.lines if "lines" in self.parts else None
            accounts = self._accounts()
            costs = overhead(judged)
            verdict = verdict_of(judged, costs, self.of_whole.distances, lambda: self.of_whole.spans)
            judgement = asked.result()
        entries = self._kernels(costs, verdict, judgement, lines, accounts)
        known = launch_durations(tables, self.unit).dropna()
        summary = self.sources.summary if "work" in self.parts else None
        return ProfileModel(
            schema=SCHEMA,
            unit=self.unit,
            emulated=tables.emulated,
            header=header_of(tables),
            verdict=VerdictEntry(verdict.label, verdict.headline, verdict.in_brief(self.order, short_name)),
            program=program_of(tables, float(known.sum())),
            kernels=entries,
            other_kernels=(),
            left_out=LeftOutOfModel(0, 0.0, 0),
            not_measured=tuple(not_measured(tables, entries, judgement, summary)),
        )

    def _judgement(self) -> Judgement:
        if self.judgement is not None:
            return self.judgement
        if not self.parts & {"findings", "timelines"}:
            return Judgement(pd.DataFrame(), {})
        timelines = self.detailed if "timelines" in self.parts else ()
        is_asked = "findings" in self.parts
        return judgement_of(self.judged, timelines, self.of_whole.spans, with_findings=is_asked)

    def _accounts(self) -> dict[_Key, TimeAccount]:
        if "accounts" not in self.parts or not self.detailed:
            return {}
        return time_accounts(self.judged, self.of_whole.time_sources, self.detailed)

    def _kernels(
        self,
        costs: pd.DataFrame,
        verdict: Verdict,
        judgement: Judgement,
        lines: pd.DataFrame | None,
        accounts: dict[_Key, TimeAccount],
    ) -> tuple[KernelEntry, ...]:
        tables = self.tables
        durations = launch_durations(tables, self.unit)
        groups = groups_of(tables)
        of_launches = by_configuration(tables.launches)
        of_costs = by_configuration(costs)
        of_limits = by_configuration(limits_of(tables.counters))
        of_findings = by_configuration(judgement.findings)
        of_lines = {} if lines is None else by_configuration(lines)
        summary = self.sources.summary if self.parts & {"lines", "work"} else _NO_ROWS
        of_summary = by_configuration(summary)
        clean = judgement.findings.attrs.get("clean") or {}
        missing = judgement.findings.attrs.get("not_measured") or []
        whole_time = float(durations.dropna().sum())
        entries = []
        for key in self.order:
            group, launches = groups[key], of_launches[key]
            about = variant_entry(tables.metadata, *key)
            identity = kernels.kernel_id(about, *key)
            cost = {str(name): value for name, value in of_costs[key].iloc[0].items()}
            rows = of_summary.get(key, summary.iloc[:0])
            names = {group.kernel, f"{group.kernel} #{group.variant}"}
            own_lines: Lines | None = None
            if lines is not None and key in self.detailed:
                said = self.sources.lines_not_measured
                own_lines = lines_entry(
                    identity,
                    of_lines.get(key, lines.iloc[:0]),
                    rows,
                    self.unit,
                    [*(text for text in said if text.startswith(NO_SAMPLES)), *_about(names, said)],
                )
            timeline = judgement.timelines.get(key)
            times = durations[launches.index]
            time = kernels.launch_times(times, self.unit, kernels.RECORDS)
            first = launches.iloc[0]
            entries.append(
                KernelEntry(
                    id=identity,
                    kernel=group.kernel,
                    variant=group.variant,
                    label=group.label,
                    differs=group.differs,
                    configuration=kernels.configuration_of(about),
                    source=kernels.source_of(tables, group.kernel, _files(rows)),
                    grid=tuple(int(first[name]) for name in ("grid_x", "grid_y", "grid_z")),
                    grids=len(launches[["grid_x", "grid_y", "grid_z"]].drop_duplicates()),
                    num_ctas=int(first["num_ctas"]),
                    num_warps=int(first["num_warps"]),
                    launches=len(launches),
                    launches_seen=int(rows["launches_seen"].max()) if len(rows) else len(launches),
                    untimed=int(times.isna().sum()),
                    ctas=kernels.ctas_of(launches),
                    share=None if not whole_time or time is None else time.total / whole_time,
                    time=time,
                    bare_time=_bare_time(tables, key),
                    recorded_over_bare=kernels.slowdown_of(cost),
                    resources=kernels.resources_of(cost),
                    records=kernels.records_of(launches, cost),
                    verdict=verdict[key].label,
                    reasons=tuple(VerdictReason(*reason) for reason in verdict[key].reasons),
                    verdict_not_measured=verdict[key].not_measured,
                    limits=kernels.limits_entry(of_limits.get(key, _NO_ROWS)),
                    account=None if key not in accounts else account_entry(accounts[key]),
                    findings=tuple(
                        finding_entry(identity, row)
                        for row in of_findings.get(key, _NO_ROWS).to_dict("records")
                    ),
                    clean=clean.get(f"{group.kernel} #{group.variant}") or clean.get(group.kernel, ""),
                    findings_not_measured=tuple(_about(names, missing)),
                    lines=own_lines,
                    overlap=None if timeline is None else overlap_entry(timeline.overlap),
                    critical_path=() if timeline is None else path_entries(timeline.critical_path),
                    tail=None if timeline is None else tail_entry(timeline.tail),
                    work=kernels.work_of(rows) if "work" in self.parts else None,
                    left_out=LeftOut(0, 0),
                )
            )
        return tuple(entries)


def by_configuration(table: pd.DataFrame) -> dict[_Key, pd.DataFrame]:
    """The rows of each kernel and variant."""
    if not len(table):
        return {}
    bare = pd.DataFrame(table)
    bare.attrs = {}  # pandas copies them, deeply, with every row that is asked of a table
    groups: Any = bare.groupby(["kernel", "variant"], sort=False, observed=True)
    return {(str(kernel), int(variant)): rows for (kernel, variant), rows in groups}


def account_entry(account: TimeAccount) -> Account:
    counts = apportioned(account.shares.values(), _TENTHS)
    shares = {name: count / _TENTHS for name, count in zip(account.shares, counts, strict=True)}
    return Account(shares, account.basis, account.advice, account.not_measured)


def _bare_time(tables: Tables, key: _Key) -> LaunchTimes | None:
    timed = bare_times(tables, *key)
    bare = pd.Series(timed.bare, dtype="float64")
    if tables.emulated:
        clock_khz = (tables.metadata.get("device") or {}).get("clock_khz")
        cycles = bare * (float(clock_khz or np.nan) / 1e6)
        return kernels.launch_times(cycles, tables.unit, kernels.MODEL)
    source = kernels.COUNTER if timed.basis == "counters" else kernels.EVENTS
    return kernels.launch_times(bare, "ns", source)


def _files(summary: pd.DataFrame) -> set[str]:
    if not len(summary):
        return set()
    return set(summary["file"][summary["kind"] == "kernel"].astype("str"))


def _about(names: set[str], texts: Collection[str]) -> list[str]:
    """What is said of one configuration, without its name."""
    split = (text.partition(": ") for text in texts)
    return list(dict.fromkeys(said for name, _, said in split if name in names))
