"""The page's data of each kernel: its entry in the model, and its launches."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.findings import FindingsOf, findings_frame, findings_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.model.build import ModelSources, by_configuration, profile_model
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.judgement import Judgement
from profscope.analysis.model.labels import differs_text
from profscope.schema import Tables

__all__ = ["MOST_KERNELS", "Kernel", "kernels_of", "model_of"]

MOST_KERNELS: Final = 24
"""Kernels and variants with sections of their own: those whose launches took longest."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """One configuration of a kernel: its entry in the model, and its launches."""

    entry: KernelEntry
    launches: pd.DataFrame

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


def model_of(tables: Tables, pool: Executor) -> tuple[ProfileModel, ModelSources]:
    """The model, and what it is made from; what can run beside the rest does."""
    asked = pool.submit(_judgement, tables)
    sources = ModelSources(tables)
    sources.lines  # noqa: B018  while the kernels are judged
    parts = ("findings", "lines", "accounts")
    judgement = asked.result()
    return profile_model(tables, None, parts, MOST_KERNELS, sources=sources, judgement=judgement), sources


def _judgement(tables: Tables) -> Judgement:
    told = [_findings(tables, each) for each in kernel_analyses(tables)]
    return Judgement(findings_frame(tables, told), {})


def _findings(tables: Tables, judged: KernelAnalysis | SkippedKernel) -> FindingsOf:
    """Those of one configuration. The page may be all that is kept of a profile: where working them out
    fails, it says so."""
    try:
        return findings_of(tables, judged)
    except Exception as error:  # noqa: BLE001  whatever it is, the page is made
        failed = f"findings are left out: working them out failed, {type(error).__name__}: {error}"
        return FindingsOf(Answer([], []), judged.kernel, failed)


def kernels_of(tables: Tables, model: ProfileModel) -> list[Kernel]:
    """Those with sections of their own, in the order of the model."""
    launches = by_configuration(tables.launches)
    return [Kernel(each, launches[each.kernel, each.variant]) for each in model.kernels[:MOST_KERNELS]]
