"""What is known of the one kernel of a profile."""

from __future__ import annotations

from profscope.analysis.diagnosis.facts import KernelFacts, facts_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.schema import Tables

__all__ = ["facts_in"]


def facts_in(tables: Tables) -> KernelFacts:
    (kernel,) = kernel_analyses(tables)
    assert isinstance(kernel, KernelAnalysis)
    facts = facts_of(kernel)
    assert facts is not None
    return facts
