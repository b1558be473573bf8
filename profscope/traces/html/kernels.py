"""What the page says of each kernel: asked once, of the same questions that a profile answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

import pandas as pd

from profscope.analysis.analysed_kernels import kernel_analyses
from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernel_analysis import KernelAnalysis, SkippedKernel
from profscope.analysis.launch_durations import longest_first, took
from profscope.analysis.line_rows import witnesses
from profscope.analysis.lines import lines_of
from profscope.analysis.roof_rows import roof_frame, roof_rows_of
from profscope.analysis.time_account import TimeAccount, time_accounts
from profscope.analysis.variant_texts import differing
from profscope.analysis.verdict import KernelVerdict, Verdict, verdict
from profscope.schema import Tables
from profscope.traces.above import attempted
from profscope.traces.html.sampled import Sampled, sampled_by_line

__all__ = ["MOST_KERNELS", "Answers", "Kernel", "answers", "kernels_of"]

MOST_KERNELS: Final = 24
"""Kernels and variants with sections of their own: those whose launches took longest."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the questions said of the whole profile."""

    verdict: Verdict
    findings: pd.DataFrame
    lines: pd.DataFrame
    summary: pd.DataFrame
    roofline: pd.DataFrame
    accounts: dict[tuple[str, int], TimeAccount]


@dataclass(frozen=True, eq=False)
class Kernel:
    """One variant of a kernel; tables have the rows of it alone.

    label: " #1 BLOCK=64" where it has several variants, else "". launches: rows of the table of launches.
    Of those that are known to have ended, in `unit`: launch_time, the median, None where there is none, and
    total_time. lines_missing, roofline_missing: what could not be told of it, and why.
    """

    kernel: str
    variant: int
    label: str
    launches: pd.DataFrame
    unit: str
    launch_time: float | None
    total_time: float
    verdict: KernelVerdict | None
    account: TimeAccount | None
    findings: pd.DataFrame
    lines: pd.DataFrame
    lines_missing: list[str]
    summary: pd.DataFrame
    roofline: pd.DataFrame
    roofline_missing: list[str]
    sampled: Sampled

    @property
    def name(self) -> str:
        return self.kernel + self.label


def answers(tables: Tables, pool: Executor) -> Answers:
    """Ask; what can run beside the rest does."""
    asked = pool.submit(_judgement, tables)
    known, believed = witnesses(tables), verdict(tables)
    said, roofs = asked.result()
    accounts = time_accounts(tables, known, _longest(tables))
    return Answers(believed, said, lines_of(tables, known), known.summary, roofs, accounts)


def _longest(tables: Tables) -> list[tuple[str, int]]:
    """Kernels and variants that have sections."""
    longest = longest_first(tables, tables.launches).index[:MOST_KERNELS]
    return [(str(kernel), int(variant)) for kernel, variant in longest]


def _judgement(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Findings and roofline: what both are asked of is read once."""
    told = [(_findings(tables, each), roof_rows_of(each)) for each in kernel_analyses(tables)]
    return findings_frame(tables, [said for said, _ in told]), roof_frame(roof for _, roof in told)


def _findings(tables: Tables, judged: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration. The page may be all that is kept of a profile: where working them out
    fails, it says so."""
    notes: list[str] = []
    said = attempted("findings", lambda: findings_of(tables, judged), None, notes)
    return said or FindingsOf(Answer([], []), judged.kernel, notes[0])


def kernels_of(tables: Tables, said: Answers) -> list[Kernel]:
    """Those whose launches took longest first."""
    return sorted(_kernels(tables, said), key=lambda kernel: -kernel.total_time)


def _kernels(tables: Tables, said: Answers) -> Iterator[Kernel]:
    launches = tables.launches
    variants = launches.groupby("kernel")["variant"].nunique()
    durations = took(tables, tables.unit)
    lines = said.lines.copy(deep=False)
    lines.attrs = {}  # pandas copies them, deeply, with whatever is asked of a table
    for key, own in launches.groupby(["kernel", "variant"], sort=False):
        kernel, variant = str(key[0]), int(own["variant"].iloc[0])
        timed = durations[own.index].dropna()
        yield Kernel(
            kernel=kernel,
            variant=variant,
            label=_label(tables, kernel, variant) if variants[kernel] > 1 else "",
            launches=own,
            unit=tables.unit,
            launch_time=float(timed.median()) if len(timed) else None,
            total_time=float(timed.sum()),
            verdict=said.verdict.get((kernel, variant)),
            account=said.accounts.get((kernel, variant)),
            findings=_own(said.findings, kernel, variant),
            lines=_own(lines, kernel, variant),
            lines_missing=_missing(said.lines, kernel, variant),
            summary=_own(said.summary, kernel, variant),
            roofline=_own(said.roofline, kernel, variant),
            roofline_missing=_missing(said.roofline, kernel, variant),
            sampled=sampled_by_line(tables, kernel, variant),
        )


def _own(table: pd.DataFrame, kernel: str, variant: int) -> pd.DataFrame:
    own = table[(table["kernel"] == kernel) & (table["variant"] == variant)]
    return own.reset_index(drop=True)


def _missing(table: pd.DataFrame, kernel: str, variant: int) -> list[str]:
    """What `not_measured` says of one configuration, without its name."""
    names = {kernel, f"{kernel} #{variant}"}
    texts = (str(text).partition(": ") for text in table.attrs.get("not_measured") or ())
    return list(dict.fromkeys(text for name, _, text in texts if name in names))


def _label(tables: Tables, kernel: str, variant: int) -> str:
    """The number, and what is not the same in all variants."""
    variants = (tables.metadata.get("variants") or {}).get(kernel) or []
    differs = (f"{name}={value}" for name, value in differing(variants, variant).items())
    return " ".join([f" #{variant}", *differs])
