"""What rules read of the one kernel of a profile."""

from __future__ import annotations

from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.rules.kernel import Kernel, kernel_of
from profscope.schema import Tables


def kernel_in(tables: Tables) -> Kernel:
    (judged,) = kernel_analyses(tables)
    assert isinstance(judged, KernelAnalysis)
    kernel = kernel_of(judged)
    assert kernel is not None
    return kernel
