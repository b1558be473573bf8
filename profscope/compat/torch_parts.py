"""What profscope needs of torch's own inside, without importing it, and what to say if a version of torch
does not have it; also what Inductor and others have loaded.

Of torch 2.11 to 2.15: `torch._C._aoti`, the store of `torch.distributed`, and of `torch._inductor.codecache`
`CppPythonBindingsCodeCache.cache` and `CppWrapperCodeCache.cache`, of graphs that C++ calls
(`cpp_wrapper=True`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "CppKernels",
    "cpp_kernels",
    "job_store",
    "mapped_files",
    "missing_attribute",
    "package_runner",
]


_FOR_A_CPU: Final = (
    "torch.compile made kernels for a CPU, in C++: Inductor makes Triton kernels on GPUs only, so move the "
    'model and its inputs there: .to("cuda")'
)
_WRAPPED: Final = (
    "; and leave cpp_wrapper=True out: it has C++ launch the kernels, on a GPU, too, "
    "and there they go unrecorded"
)


def package_runner() -> Any:
    """The class whose `run` runs a package of AOTInductor's on a GPU; None if this torch has none."""
    inside = getattr(sys.modules.get("torch"), "_C", None)
    return getattr(getattr(inside, "_aoti", None), "AOTIModelContainerRunnerCuda", None)


def missing_attribute(owner: Any, *names: str) -> str:
    """ "torch 2.16.0 has no CachingAutotuner.run": the first of these attributes, each "name" or "name.name",
    that `owner`, a module, a class or an object, does not have. "" where it has them all."""
    for name in names:
        value = owner
        for part in name.split("."):
            if not hasattr(value, part):
                whose = getattr(owner, "__name__", type(owner).__name__).rpartition(".")[2]
                version = getattr(sys.modules.get("torch"), "__version__", "of this version")
                return f"torch {version} has no {whose}.{name}"
            value = getattr(value, part)
    return ""


class CppKernels(NamedTuple):
    """How many there are in this process. bound: that Python calls; wrapped: that C++ calls."""

    bound: int = 0
    wrapped: int = 0

    def why_unseen(self, now: CppKernels) -> str:
        """Why a session saw no launch around a model that was compiled meanwhile; "" if none was."""
        if now.wrapped > self.wrapped:
            return _FOR_A_CPU + _WRAPPED
        return _FOR_A_CPU if now.bound > self.bound else ""


def cpp_kernels() -> CppKernels:
    """Those of now; none where Inductor is not loaded. Imports nothing."""
    module = sys.modules.get("torch._inductor.codecache")
    caches = (getattr(module, name, None) for name in ("CppPythonBindingsCodeCache", "CppWrapperCodeCache"))
    return CppKernels(*(len(getattr(cache, "cache", ())) for cache in caches))


def mapped_files() -> str:
    """The files that this process has in memory, as /proc/self/maps says; "" where there is no such file."""
    try:
        return Path("/proc/self/maps").read_text()
    except OSError:
        return ""


def job_store() -> Any:
    """A connection of its own to the store at which the ranks of a job have met. torch.distributed is
    initialised. Raises AttributeError or ValueError if this torch has no such store."""
    store = sys.modules["torch.distributed"].distributed_c10d._get_default_store()
    return store.clone() if hasattr(store, "clone") else store
