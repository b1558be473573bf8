"""What the page says of each kernel: asked once, of the same questions that a profile answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from profscope.analysis.findings import findings
from profscope.analysis.line_rows import witnesses
from profscope.analysis.lines import lines_of
from profscope.analysis.roofline import roofline
from profscope.analysis.span_rows import ended
from profscope.analysis.verdict import KernelVerdict, Verdict, verdict
from profscope.schema import Tables
from profscope.traces.html.sampled import Sampled, sampled_by_line

__all__ = ["MOST_KERNELS", "Answers", "Kernel", "answers", "kernels_of"]

MOST_KERNELS: Final = 24
"""Kernels and variants with sections of their own: those whose launches took longest."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the questions said of the whole profile; in the summary there are no trials."""

    verdict: Verdict
    findings: pd.DataFrame
    lines: pd.DataFrame
    summary: pd.DataFrame
    roofline: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Kernel:
    """One variant of a kernel, an autotuner's trials left out; tables have the rows of it alone.

    label: " #1 BLOCK=64" where it has several variants, else "". launches: rows of the table of launches;
    launch_ns: the median of those that are known to have ended, None where none is.
    """

    kernel: str
    variant: int
    label: str
    launches: pd.DataFrame
    launch_ns: float | None
    total_ns: float
    verdict: KernelVerdict | None
    findings: pd.DataFrame
    lines: pd.DataFrame
    summary: pd.DataFrame
    roofline: pd.DataFrame
    sampled: Sampled

    @property
    def name(self) -> str:
        return self.kernel + self.label


def answers(tables: Tables, pool: Executor) -> Answers:
    """Ask; what can run beside the rest does."""
    asked = [pool.submit(question, tables) for question in (findings, roofline)]
    known, believed = witnesses(tables), verdict(tables)
    return Answers(believed, asked[0].result(), lines_of(tables, known), known.summary, asked[1].result())


def kernels_of(tables: Tables, said: Answers) -> list[Kernel]:
    """Those whose launches took longest first."""
    return sorted(_kernels(tables, said), key=lambda kernel: -kernel.total_ns)


def _kernels(tables: Tables, said: Answers) -> Iterator[Kernel]:
    launches = tables.launches[~tables.launches["trial"]]
    variants = launches.groupby("kernel")["variant"].nunique()
    for key, own in launches.groupby(["kernel", "variant"], sort=False):
        kernel, variant = str(key[0]), int(own["variant"].iloc[0])
        timed = ended(own)
        took = timed["end_ns"] - timed["start_ns"]
        yield Kernel(
            kernel=kernel,
            variant=variant,
            label=_label(tables, kernel, variant) if variants[kernel] > 1 else "",
            launches=own,
            launch_ns=float(took.median()) if len(took) else None,
            total_ns=float(took.sum()),
            verdict=said.verdict.get((kernel, variant)),
            findings=_own(said.findings, kernel, variant),
            lines=_own(said.lines, kernel, variant),
            summary=_own(said.summary, kernel, variant),
            roofline=_own(said.roofline, kernel, variant),
            sampled=sampled_by_line(tables.samples, kernel, variant),
        )


def _own(table: pd.DataFrame, kernel: str, variant: int) -> pd.DataFrame:
    own = table[(table["kernel"] == kernel) & (table["variant"] == variant)]
    return own.reset_index(drop=True)


def _label(tables: Tables, kernel: str, variant: int) -> str:
    """The number, and of the constexprs and launch options what is not the same in all variants."""
    entries = (tables.metadata.get("variants") or {}).get(kernel) or []
    flat = [_flat(entry) for entry in entries]
    mine = next((own for own, entry in zip(flat, entries, strict=True) if entry["variant"] == variant), {})
    differs = [f"{name}={value}" for name, value in mine.items() if any(o.get(name) != value for o in flat)]
    return " ".join([f" #{variant}", *differs])


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    options = {name: entry.get(name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    return {**(entry.get("constexprs") or {}), **{n: v for n, v in options.items() if v is not None}}
