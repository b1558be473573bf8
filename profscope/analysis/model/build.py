"""The model of a profile, from its tables."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any, Final

import pandas as pd

from profscope.analysis.breakdown import time_accounts
from profscope.analysis.limits import limits_of
from profscope.analysis.line_rows import TimeSources, witnesses
from profscope.analysis.lines import lines_of
from profscope.analysis.model.entries import SCHEMA, LeftOutOfModel, ProfileModel, VerdictEntry
from profscope.analysis.model.header import header_of, program_of
from profscope.analysis.model.judgement import Judgement, judgement_of
from profscope.analysis.model.kernels import KernelRows, Said, kernel_entry
from profscope.analysis.model.labels import groups_of, short_name
from profscope.analysis.model.missing import not_measured
from profscope.analysis.overhead import overhead
from profscope.analysis.spans.ctas import launch_durations, longest_first
from profscope.analysis.spans.summing import SummedSpans, summed_spans
from profscope.analysis.summary import summary_of
from profscope.analysis.timeline.distances import compared
from profscope.analysis.verdict import verdict_of
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["ALL_PARTS", "ModelSources", "by_configuration", "profile_model"]

ALL_PARTS: Final = frozenset(("findings", "lines", "accounts", "timelines", "work"))
"""What takes its time to work out: a view asks for what it shows."""

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
    def distances(self) -> pd.DataFrame:
        return compared(self.time_sources, self.tables.metadata)

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
        verdict = verdict_of(judged, costs, apart, lambda: of_whole.spans)
        judgement = asked.result() if asked else judgement
    assert judgement is not None
    summary = sources.summary if {*parts} & {"lines", "work"} else pd.DataFrame()
    durations = launch_durations(tables, tables.unit)
    whole_time = float(durations.dropna().sum())
    said = Said(
        clean=judgement.findings.attrs.get("clean") or {},
        findings=judgement.findings.attrs.get("not_measured") or [],
        lines=[] if lines is None else sources.lines_not_measured,
    )
    rows = {
        name: (table, by_configuration(table))
        for name, table in {
            "launches": tables.launches,
            "overhead": costs,
            "limits": limits_of(tables.counters),
            "findings": judgement.findings,
            "experiments": judged.experiments,
            "summary": summary,
            "lines": pd.DataFrame() if lines is None else lines,
        }.items()
    }
    entries = []
    for key in order:
        own = {name: by_key.get(key, table.iloc[:0]) for name, (table, by_key) in rows.items()}
        entries.append(
            kernel_entry(
                tables,
                groups[key],
                KernelRows(**own),
                durations[own["launches"].index],
                whole_time,
                verdict[key],
                accounts.get(key),
                judgement.timelines.get(key),
                said,
                with_lines=lines is not None and key in shown,
                with_work="work" in parts,
            )
        )
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
    bare = pd.DataFrame(table)
    bare.attrs = {}  # pandas copies them, deeply, with every row that is asked of a table
    groups: Any = bare.groupby(["kernel", "variant"], sort=False, observed=True)
    return {(str(kernel), int(variant)): rows for (kernel, variant), rows in groups}
