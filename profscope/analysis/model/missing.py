"""Unknowns of a profile, with reasons. Those of one kernel alone are in its entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import refused_evidence
from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.model.header import peaks_of
from profscope.analysis.model.judgement import Judgement
from profscope.analysis.op_labels import hides_copies
from profscope.analysis.spans.corrections import record_cost
from profscope.analysis.spans.rows import narrow_sites
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.texts import count_text
from profscope.schema import Tables

__all__ = ["FRAMES", "MOSTLY_UNCOVERED", "bare_kernels", "more_spans", "not_measured", "reasons_once"]

_MOST_REASONS: Final = 4  # of what one section could not tell
_MOST_LETTERS: Final = 80  # of the names of kernels
FRAMES: Final = ("kernel", "loop", "iteration")
"""Spans that say where a warp was, not what it did: their own time is that of no op."""

MOSTLY_UNCOVERED: Final = 0.5
"""From this share of a kernel's warp time on, the view says what would show more."""

_DEFAULT: Final = 'session(instrument="default") records loads, stores, waits and MMAs'
_HEAVY: Final = (
    'session(instrument="heavy") adds reductions, barriers, layout conversions, shared memory and copies'
)
_LATENCY: Final = 'session(measure="latency") ends spans on loads with the arrival of their data'
_ARITHMETIC: Final = (
    'session(instrument=["heavy", "op-spans{classes=math;convert;elementwise}"]) adds arithmetic'
)
_REST: Final = "arithmetic has spans: the rest is scalars, addresses and control flow"


def not_measured(
    tables: Tables, kernels: Sequence[KernelEntry], judgement: Judgement, summary: pd.DataFrame | None
) -> list[str]:
    """summary: None if it was not asked for."""
    said = reasons_once("account", _of_accounts(kernels))
    said += reasons_once("findings", judgement.findings.attrs.get("not_measured") or ())
    for name in ("critical_path", "overlap", "tail"):
        answers = (getattr(own, name) for own in judgement.timelines.values())
        said += reasons_once(name, [text for answer in answers for text in answer.not_measured])
    refused = refused_evidence(tables.metadata)
    if not len(tables.samples):
        said.append(f"lines.share_samples, samples, stalls: {refused or 'no samples were taken'}")
    if tables.counters.empty:
        said.append(f"limits: {refused or 'no counters were taken (session(evidence=True))'}")
    if not tables.metadata.get("sources"):
        said.append("source, lines.source: no source was kept")
    return said + _of_times(tables, kernels) + ([] if summary is None else _of_copies(summary))


def _of_accounts(kernels: Sequence[KernelEntry]) -> list[str]:
    accounts = [(each.name, each.account) for each in kernels if each.account is not None]
    return [f"{name}: {text}" for name, account in accounts for text in account.not_measured]


def _of_times(tables: Tables, kernels: Sequence[KernelEntry]) -> list[str]:
    metadata, said = tables.metadata, []
    if peaks_of(metadata) is None:
        said.append("device.peaks: those of the device are not known")
    if not any(each.bare_time for each in kernels):
        said.append("bare_time: no bare launch was timed (session(baseline=))")
    if record_cost(metadata) is None:
        said.append("device.clock_read_cycles: what a record costs was not measured")
    if tables.emulated:
        said.append("resources, rates, clocks, ns: the emulator has none; its cycles are of a cost model")
    elif np.isnan(tables.launches["clock_ghz"].to_numpy(np.float64)).all():
        said.append("device.*_clock_ghz: no launch was long enough to tell, or its tool does not say")
    return said


def _of_copies(summary: pd.DataFrame) -> list[str]:
    hiding = [
        f"{kernel} #{variant}"
        for (kernel, variant), scopes in summary.groupby(["kernel", "variant"], observed=True)["scope"]
        if hides_copies(scopes.astype("str"))
    ]
    named = f"copies were not recorded (instrument='heavy' does): {_names(hiding)}"
    return [f"work.bytes_by_op: {named}"] if hiding else []


def reasons_once(name: str, texts: Iterable[str]) -> list[str]:
    """Unknowns of a section, each reason once, with the kernels it holds for; those that hold for
    most of them first, and of many the first ones."""
    kernels: dict[str, list[str]] = {}
    for text in texts:
        kernel, _, why = text.partition(": ")
        kernels.setdefault(why, []).append(kernel)
    reasons = sorted(kernels, key=lambda why: -len(kernels[why]))
    missing = [f"{name}: {_names(kernels[why])}: {why}" for why in reasons[:_MOST_REASONS]]
    left = len(reasons) - _MOST_REASONS
    return [*missing, *([f"{name}: {count_text(left, 'more reason')}"] if left > 0 else [])]


def _names(names: Sequence[str]) -> str:
    """The first ones as a whole, and how many more: "add_kernel, matmul_kernel and 18 more"."""
    told = 1
    while told < len(names) and len(", ".join(names[: told + 1])) <= _MOST_LETTERS:
        told += 1
    rest = len(names) - told
    return ", ".join(names[:told]) + (f" and {rest} more" if rest else "")


def more_spans(options: dict[str, Any]) -> str:
    """The options that put more time into spans; "" if unknown."""
    level, measure = options.get("instrument"), options.get("measure")
    if level is None:
        return ""
    if level == "light":
        return f"{_DEFAULT}, {_HEAVY}"
    steps = [_HEAVY] if level == "default" else []
    steps += [] if measure == "latency" else [_LATENCY]
    steps += [] if "elementwise" in str(level) else [_ARITHMETIC]
    return ", ".join(steps or [_REST])


def bare_kernels(tables: Tables, kernels: Sequence[str], spans: SummedSpans | None = None) -> list[str]:
    """Those of some kernels that have spans, but none inside their own. spans: sums of the summary, if
    known."""
    sites = narrow_sites(tables.df)[1] if spans is None else spans.rows
    inside = {*sites.loc[sites["kind"] != "kernel", "kernel"]}
    return [name for name in kernels if name in {*sites["kernel"]} - inside]
