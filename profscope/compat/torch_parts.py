"""What profscope needs of torch's own inside, and what to say where a version of torch does not have it."""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

__all__ = ["CppKernels", "cpp_kernels", "missing_attribute", "package_runner"]


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
