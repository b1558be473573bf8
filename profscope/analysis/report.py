"""A profile in few words, for programs: what automated tuners and CI read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis import report_sections as sections
from profscope.analysis.analysed_kernels import kernel_analyses
from profscope.analysis.answers import Answer, joined_frame
from profscope.analysis.clock_cost import record_cost
from profscope.analysis.devices import peak_of
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.launch_durations import longest_first, took
from profscope.analysis.limits import limits_of
from profscope.analysis.line_rows import PLACE, witnesses
from profscope.analysis.lines import lines
from profscope.analysis.notes import kernel_of_note
from profscope.analysis.op_labels import hides_copies
from profscope.analysis.overhead import bare_times, overhead, variant_entry
from profscope.analysis.quantities import count_text
from profscope.analysis.report_sections import clipped, number
from profscope.analysis.sources import Sources
from profscope.analysis.summary import summary
from profscope.analysis.time_account import TimeAccount, time_accounts
from profscope.analysis.timeline.critical_path import PATH_DTYPES, path_of
from profscope.analysis.timeline.overlap import OVERLAP_DTYPES, overlap_of
from profscope.analysis.values import value_problems
from profscope.analysis.verdict import Verdict, verdict_of
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["MOST_CHARACTERS", "SCHEMA", "report"]

SCHEMA: Final = "profscope-report/1"
MOST_CHARACTERS: Final = 20_000
"""Of the report as JSON, indented by one."""


_MISSING: Final = 4  # of what a question could not tell


class _Size(NamedTuple):
    """How much is told: kernels; lines and findings of each; notes, and reasons of what was not measured."""

    kernels: int
    lines: int
    findings: int
    notes: int


_SIZES: Final = (
    _Size(8, 12, 12, 12),
    _Size(6, 8, 8, 8),
    _Size(4, 6, 6, 6),
    _Size(3, 4, 4, 4),
    _Size(2, 3, 3, 3),
    _Size(1, 2, 2, 2),
    _Size(1, 0, 0, 0),
    _Size(0, 0, 0, 0),
)


class _Judgement(NamedTuple):
    """What four questions say of the configurations that may be shown."""

    findings: pd.DataFrame
    critical_path: pd.DataFrame
    overlap: pd.DataFrame
    tail: pd.DataFrame


class _Parts(NamedTuple):
    """What the report is made from, worked out once. lines: None where no samples were taken."""

    tables: Tables
    summary: pd.DataFrame
    overhead: pd.DataFrame
    verdict: Verdict
    lines: pd.DataFrame | None
    judgement: _Judgement
    sources: Sources
    limits: pd.DataFrame
    accounts: dict[tuple[str, int], TimeAccount]


def report(tables: Tables, whole: Tables | None = None) -> dict[str, Any]:
    """What there is to know of a profile, as JSON-able data of at most MOST_CHARACTERS characters.

    Its keys are always there, as docs/views.md and `profscope/analysis/report.schema.json` have them; None
    where a figure is not known, and then `not_measured` says why. Every number has its unit in its key, and
    each section says in `provenance` where its numbers are from. Kernels are never mixed: each variant has an
    entry of its own, those whose launches took longest first; `left_out`
    counts what there was no room for. Rows have an `id` that is the same in the next session.

    whole: where the tables have some CTAs, SMs or warps of their launches only, those of the whole launches.
    The verdict, what recording cost, the breakdown, findings, overlap and critical path are then of these.
    """
    judged = tables if whole is None else whole
    costs = overhead(judged)
    by_line = lines(judged) if len(judged.samples) else None
    apart = [] if by_line is None else by_line.attrs["distances"]
    by_line = by_line if len(tables.samples) else None
    shown = _heaviest(tables).index[: _SIZES[0].kernels]
    with worker_pool(1) as pool:  # beside each other: numpy lets threads run
        summed = pool.submit(summary, tables)
        judgement = _judgement(judged, list(shown))
        verdict = verdict_of(judged, costs, apart)
        sources = Sources(tables.metadata)
        limits = limits_of(tables.counters)
        table = summed.result()
        accounts = time_accounts(judged, witnesses(judged, table if judged is tables else None), list(shown))
        parts = _Parts(tables, table, costs, verdict, by_line, judgement, sources, limits, accounts)
    kernels = [_kernel(parts, str(kernel), int(variant), _SIZES[0]) for kernel, variant in shown]
    for size in _SIZES:
        told = _report(parts, [_cut(each, size) for each in kernels[: size.kernels]], size)
        if len(json.dumps(told, indent=1)) <= MOST_CHARACTERS:
            break
    return told


def _judgement(tables: Tables, shown: list[tuple[str, int]]) -> _Judgement:
    """All asked in one walk, since what a configuration is judged by takes longest to make."""
    findings: list[FindingsOf] = []
    paths: list[Answer] = []
    overlaps: list[Answer] = []
    tails: list[Answer] = []
    for judged in kernel_analyses(tables, only=shown):
        findings.append(findings_of(tables, judged))
        paths.append(path_of(judged))
        overlaps.append(overlap_of(judged))
        tails.append(sections.tail_of(judged))
    return _Judgement(
        findings_frame(tables, findings),
        joined_frame(paths, PATH_DTYPES),
        joined_frame(overlaps, OVERLAP_DTYPES),
        joined_frame(tails, sections.TAIL_DTYPES),
    )


def _heaviest(tables: Tables) -> pd.Series[float]:
    """`longest_first`, of all launches."""
    return longest_first(tables, tables.launches)


def _report(parts: _Parts, kernels: list[dict[str, Any]], size: _Size) -> dict[str, Any]:
    launches = parts.tables.launches
    rest = _heaviest(parts.tables).iloc[size.kernels :]
    wrong = value_problems(parts.tables)
    told = [f"values: {wrong}"] * bool(wrong) + _notes(parts.tables)
    notes = [clipped(note, 240) for note in told]
    return {
        "schema": SCHEMA,
        "tool": _tool(parts.tables.metadata),
        "emulated": parts.tables.emulated,
        "gpu": _gpu(parts.tables),
        "cache_state": _cache_state(launches),
        "verdict": {"label": parts.verdict.label, "headline": clipped(parts.verdict.headline, 300)},
        "kernels": kernels,
        "left_out": {
            "kernels": len(rest),
            "kernels_ns": None if parts.tables.emulated else int(rest.sum()),
            "kernels_cycles": int(rest.sum()) if parts.tables.emulated else None,
            "notes": max(0, len(notes) - size.notes),
        },
        "notes": notes[: size.notes],
        "not_measured": _not_measured(parts),
    }


def _notes(tables: Tables) -> list[str]:
    """Those on no kernel first, then each kernel's, those whose launches took longest first."""
    kernels = dict.fromkeys(str(kernel) for kernel, _ in _heaviest(tables).index)
    place = {kernel: at for at, kernel in enumerate(kernels)}
    notes = [str(note) for note in tables.metadata.get("notes") or ()]
    return sorted(notes, key=lambda note: place.get(kernel_of_note(note), -1))


def _tool(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Who recorded, with what, and told how."""
    names = ("profscope", "triton", "torch", "python")
    versions = {name: clipped(metadata[name], 60) if metadata.get(name) else None for name in names}
    options = metadata.get("options") or {}
    told = {name: options.get(name) for name in ("instrument", "keep", "measure", "every", "ctas")}
    return {
        "name": clipped(metadata.get("tool") or "", 60) or None,
        "versions": versions,
        "options": {name: clipped(value, 80) if value is not None else None for name, value in told.items()},
    }


def _gpu(tables: Tables) -> dict[str, Any]:
    device = tables.metadata.get("device") or {}
    sms = device.get("sm_count")
    timed = tables.launches.iloc[:0] if tables.emulated else tables.launches
    clocks, uncertainty = timed["clock_ghz"].dropna(), timed["ns_uncertainty"].dropna()
    cost = record_cost(tables.metadata)
    return {
        "name": clipped(device.get("name") or "", 80) or None,
        "arch": clipped(device["arch"], 80) if device.get("arch") else None,
        "sm_count": sms if isinstance(sms, int) else None,
        "min_clock_ghz": number(clocks.min(), 4),
        "max_clock_ghz": number(clocks.max(), 4),
        "time_uncertainty_ns": number(uncertainty.max(), 4),
        "clock_read_cycles": None if cost is None else number(cost.read),
        "row_store_cycles": None if cost is None else number(cost.row),
        "peaks": _peaks(tables.metadata),
        "provenance": "clocks: SM clock against the globaltimer, read by the CTAs themselves",
    }


def _peaks(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the device can do at most; None where nobody knows it."""
    peak = peak_of(metadata)
    if peak is None:
        return None
    rates = {f"tensor_{bits}bit_tflop_per_s": number(peak.tflop_per_s.get(bits)) for bits in (8, 16, 32)}
    return {"memory_gb_per_s": number(peak.memory_gb_per_s), **rates, "provenance": peak.source}


def _cache_state(launches: pd.DataFrame) -> dict[str, Any]:
    """Nobody flushes caches: each launch finds what those before it left."""
    return {
        "flushed": False,
        "launches": len(launches),
        "colder_launches": int(launches["cold"].sum()),
        "provenance": "as the program left them; colder: right after memory for records was zeroed",
    }


def _kernel(parts: _Parts, kernel: str, variant: int, size: _Size) -> dict[str, Any]:
    tables = parts.tables
    launches = _of(tables.launches, kernel, variant)
    about = variant_entry(tables.metadata, kernel, variant)
    cost = {str(name): value for name, value in _of(parts.overhead, kernel, variant).iloc[0].items()}
    rows = _of(parts.summary, kernel, variant)
    identity = sections.kernel_id(about, kernel, variant)
    findings = _findings_of(parts.judgement.findings, kernel, variant, identity)
    samples = None if parts.lines is None else _of(parts.lines, kernel, variant)
    lines = sections.lines(rows, parts.sources, identity, size.lines, samples, tables.unit)
    path = _of(parts.judgement.critical_path, kernel, variant)
    bare = {} if tables.emulated else bare_times(tables.metadata, kernel, variant)
    first = launches.iloc[0]
    grids = launches[["grid_x", "grid_y", "grid_z"]].drop_duplicates()
    seen = rows["launches_seen"].max() if len(rows) else len(launches)
    return {
        "id": identity,
        "kernel": clipped(kernel, 200),
        "variant": variant,
        "configuration": sections.configuration(about),
        "source": sections.source(tables, kernel, rows),
        "grid": [int(first[name]) for name in ("grid_x", "grid_y", "grid_z")],
        "grids": len(grids),
        "num_ctas": int(first["num_ctas"]),
        "num_warps": int(first["num_warps"]),
        "launches": len(launches),
        "launches_seen": int(seen),
        "ctas": sections.ctas(launches),
        "time": sections.times(took(tables, tables.unit)[launches.index], tables.unit, cost, bare),
        "resources": sections.resources(cost),
        "verdict": _verdict(parts.verdict, kernel, variant),
        "breakdown": sections.breakdown(parts.accounts.get((kernel, variant))),
        "findings": findings[: size.findings],
        "lines": lines,
        "limits": sections.limits(_of(parts.limits, kernel, variant)),
        "overlap": sections.overlap(_of(parts.judgement.overlap, kernel, variant)),
        "critical_path": sections.critical_path(path, size.lines),
        "tail": sections.tail(_of(parts.judgement.tail, kernel, variant)),
        "work": sections.work(rows, launches),
        "records": sections.records(launches, cost),
        "left_out": {
            "lines": max(0, len(sections.recorded_rows(rows)[PLACE].drop_duplicates()) - len(lines)),
            "findings": max(0, len(findings) - size.findings),
        },
    }


def _cut(entry: dict[str, Any], size: _Size) -> dict[str, Any]:
    """An entry with no more rows than this; what is missing counts as left out."""
    most = {"lines": size.lines, "findings": size.findings}
    kept = {name: entry[name][:count] for name, count in most.items()}
    lost = {name: len(entry[name]) - len(kept[name]) for name in most}
    left_out = {name: count + lost[name] for name, count in entry["left_out"].items()}
    return entry | kept | {"critical_path": entry["critical_path"][: size.lines], "left_out": left_out}


def _of(table: pd.DataFrame, kernel: str, variant: int) -> pd.DataFrame:
    return table[(table["kernel"] == kernel) & (table["variant"] == variant)]


def _verdict(judged: Verdict, kernel: str, variant: int) -> dict[str, Any]:
    told = judged[kernel, variant].described()
    reasons = [{**reason, "text": clipped(reason["text"], 200)} for reason in told["reasons"]]
    return {"label": told["label"], "reasons": reasons}


_GAINS: Final = ("gain_pct", "gain_low_pct", "gain_high_pct", "program_pct")


def _findings_of(findings: pd.DataFrame, kernel: str, variant: int, identity: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{identity}-{row['finding']}-{row['line']}",
            "finding": str(row["finding"]),
            "file": clipped(row["file"], 200),
            "line": int(row["line"]),
            "evidence": clipped(row["evidence"], 240),
            "evidence_values": {
                name: {"value": number(each["value"], 4), "unit": each["unit"]}
                for name, each in row["evidence_values"].items()
            },
            "advice": clipped(row["advice"], 240),
            **{name: number(row[name], 4) for name in _GAINS},
            "confidence": clipped(row["confidence"], 40),
        }
        for _, row in _of(findings, kernel, variant).iterrows()
    ]  # fmt: skip


def _not_measured(parts: _Parts) -> list[str]:
    """What is None everywhere, and why. What is so in one kernel only, its verdict and overhead say."""
    metadata, launches = parts.tables.metadata, parts.tables.launches
    texts = [
        f"{account.kernel} #{account.variant}: {text}"
        for account in parts.accounts.values()
        for text in account.not_measured
    ]
    said = _told("breakdown", texts)
    for name, answer in parts.judgement._asdict().items():
        said += _told(name, answer.attrs.get("not_measured") or ())
    if _peaks(metadata) is None:
        said.append("gpu.peaks: those of the device are not known")
    if parts.lines is None or not (parts.lines["samples"] > 0).any():
        said.append("lines.sample_share, samples, stalls: no samples were taken")
    if parts.tables.emulated:
        said.append("time.bare: the emulator's times between events are not a kernel's alone")
    elif not (metadata.get("baseline") or {}).get("kernels"):
        said.append("time.bare: no bare launch was timed (session(baseline=))")
    if parts.limits.empty:
        said.append("limits: no counters were taken (session(hardware=True))")
    if record_cost(metadata) is None:
        said.append("gpu.clock_read_cycles: nobody measured what a record costs here")
    hiding = [
        f"{kernel} #{variant}"
        for (kernel, variant), scopes in parts.summary.groupby(["kernel", "variant"], observed=True)["scope"]
        if hides_copies(scopes.astype("str"))
    ]
    if hiding:
        named = clipped(", ".join(hiding))
        said.append(f"work.bytes_by_op: copies were not recorded (instrument='heavy' does): {named}")
    if parts.tables.emulated:
        said.append("resources, rates, clocks, ns: the emulator has none; its cycles are of a cost model")
    elif np.isnan(launches["clock_ghz"].to_numpy(np.float64)).all():
        said.append("gpu.*_clock_ghz: no launch was long enough to tell, or its tool does not say")
    if not metadata.get("sources"):
        said.append("source, lines.text: no source was kept")
    return said


def _told(name: str, texts: Iterable[str]) -> list[str]:
    """What another question could not tell, each reason once, with the kernels it holds for; those that hold
    for most of them first, and of many the first ones."""
    kernels: dict[str, list[str]] = {}
    for text in texts:
        kernel, _, why = text.partition(": ")
        kernels.setdefault(why, []).append(kernel)
    reasons = sorted(kernels, key=lambda why: -len(kernels[why]))
    missing = [f"{name}: {clipped(', '.join(kernels[why]), 80)}: {clipped(why, 160)}" for why in reasons]
    left = len(missing) - _MISSING
    return [*missing[:_MISSING], *([f"{name}: {count_text(left, 'more reason')}"] if left > 0 else [])]
