"""Binaries of the corpus, built once for all tests that look into them."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.kernels import aot, corpus
from tests.kernels.spec import CUDA80, CUDA90, CUDA100

_SPECS = {spec.name: spec for spec in corpus.specs()}
# Few, for each takes a second: cp.async and mma; TMA and wgmma; a reduction, on Blackwell.
BUILDS = (("matmul", CUDA80), ("matmul_tma", CUDA90), ("softmax", CUDA100))


@cache
def built(name: str, target: str) -> Any:
    """Triton's CompiledKernel of a corpus kernel."""
    return aot.compiled(_SPECS[name], target)
