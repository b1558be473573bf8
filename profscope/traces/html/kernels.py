"""What the page says of each kernel: its entry in the model, its launches, and its roofline."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.kernels.roof_rows import roof_frame, roof_rows_of
from profscope.analysis.model.build import ModelSources, by_configuration, profile_model
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.labels import differs_text
from profscope.schema import Tables
from profscope.traces.overview import attempted

__all__ = ["MOST_KERNELS", "Kernel", "kernels_of", "model_of"]

MOST_KERNELS: Final = 24
"""Kernels and variants with sections of their own: those whose launches took longest."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """One configuration of a kernel: its entry in the model, its launches, its rows of the roofline, and why
    there are none."""

    entry: KernelEntry
    launches: pd.DataFrame
    roofline: pd.DataFrame
    roofline_missing: list[str]

    @property
    def kernel(self) -> str:
        return self.entry.kernel

    @property
    def variant(self) -> int:
        return self.entry.variant

    @property
    def name(self) -> str:
        """With what tells it from the kernel's other configurations."""
        return f"{self.entry.name} {differs_text(self.entry.differs) * bool(self.entry.label)}".rstrip()


def model_of(tables: Tables, pool: Executor) -> tuple[ProfileModel, ModelSources, pd.DataFrame]:
    """The model, what it is made from, and the roofline; what can run beside the rest does."""
    asked = pool.submit(_judged, tables)
    sources = ModelSources(tables)
    sources.lines  # noqa: B018  while the kernels are judged
    findings, roofs = asked.result()
    parts = ("findings", "lines", "accounts")
    model = profile_model(tables, None, parts, MOST_KERNELS, sources=sources, findings=findings)
    return model, sources, roofs


def _judged(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Findings and roofline: what both are asked of is read once."""
    told = [(_findings(tables, each), roof_rows_of(each)) for each in kernel_analyses(tables)]
    return findings_frame(tables, [said for said, _ in told]), roof_frame(roof for _, roof in told)


def _findings(tables: Tables, judged: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration. The page may be all that is kept of a profile: where working them out
    fails, it says so."""
    notes: list[str] = []
    said = attempted("findings", lambda: findings_of(tables, judged), None, notes)
    return said or FindingsOf(Answer([], []), judged.kernel, notes[0])


def kernels_of(tables: Tables, model: ProfileModel, roofs: pd.DataFrame) -> list[Kernel]:
    """Those with sections of their own, in the order of the model."""
    missing = roofs.attrs.get("not_measured") or ()
    launches, roofline = by_configuration(tables.launches), by_configuration(roofs)
    kernels = []
    for entry in model.kernels[:MOST_KERNELS]:
        key = entry.kernel, entry.variant
        names = {entry.kernel, f"{entry.kernel} #{entry.variant}"}
        texts = (str(text).partition(": ") for text in missing)
        kernels.append(
            Kernel(
                entry=entry,
                launches=launches[key],
                roofline=roofline.get(key, roofs.iloc[:0]).reset_index(drop=True),
                roofline_missing=list(dict.fromkeys(text for name, _, text in texts if name in names)),
            )
        )
    return kernels
