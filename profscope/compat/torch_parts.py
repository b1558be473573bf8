"""Checks of private torch attributes, without importing torch, and the message if one is missing; also the
modules that Inductor and others have loaded.

Of torch 2.11 to 2.15: the store of `torch.distributed`; of `torch._inductor.codecache`
`CppPythonBindingsCodeCache.cache` and `CppWrapperCodeCache.cache`, of graphs that C++ calls
(`cpp_wrapper=True`); and of torch's profiler `_is_profiler_enabled`, `torch.autograd._profiler_enabled` and
`_ExperimentalConfig`.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "CppKernels", "cpp_kernels", "is_profiling", "job_store", "kernels_in", "launched_from_cpp",
    "make_quiet", "mapped_files", "missing_attribute", "of_all_threads", "on_host", "was_quiet",
]  # fmt: skip

_LIBRARY: Final = re.compile(r"/\S*(?:/aotinductor/|\.wrapper)\S*\.so$")
_KERNEL: Final = re.compile(rb"(?<=\0)triton_[a-z]{3}_\w+(?=\0)")
_MOST_BYTES: Final = 1 << 26  # of a library: weights stand behind its code
_SHOWN_KERNELS: Final = 4
_QUIET: Final[Any] = 0  # of a flag that torch sets to False or True
_FOR_A_CPU: Final = (
    "torch.compile made kernels for a CPU, in C++: Inductor makes Triton kernels on GPUs only, so move the "
    'model and its inputs there: .to("cuda")'
)
_WRAPPED: Final = (
    "; and leave cpp_wrapper=True out: it has C++ launch the kernels, on a GPU, too, "
    "and there they go unrecorded"
)


def missing_attribute(owner: Any, *names: str) -> str:
    """ "torch 2.16.0 has no CachingAutotuner.run": the first of these attributes, each "name" or "name.name",
    that `owner`, a module, a class or an object, does not have. "" if it has them all."""
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
    """Those of now; none if Inductor is not loaded. Imports nothing."""
    module = sys.modules.get("torch._inductor.codecache")
    caches = (getattr(module, name, None) for name in ("CppPythonBindingsCodeCache", "CppWrapperCodeCache"))
    return CppKernels(*(len(getattr(cache, "cache", ())) for cache in caches))


def mapped_files() -> str:
    """The files that this process has in memory, as /proc/self/maps says; "" if there is no such file."""
    try:
        return Path("/proc/self/maps").read_text()
    except OSError:
        return ""


def job_store() -> Any:
    """A connection of its own to the store at which the ranks of a job have met. torch.distributed is
    initialised. Raises AttributeError or ValueError if this torch has no such store."""
    store = sys.modules["torch.distributed"].distributed_c10d._get_default_store()
    return store.clone() if hasattr(store, "clone") else store


def launched_from_cpp() -> str:
    """The note on kernels that Inductor's C++ may have launched, "" if there are none.

    A package of AOTInductor, and a graph of `cpp_wrapper=True`, is a C++ library that loads its own cubins
    and launches them with the driver, without Triton. It gives kernels an uninitialised profile buffer, so
    nothing is recorded.
    """
    kernels = kernels_in(mapped_files())
    if not kernels:
        return ""
    shown = ", ".join(kernels[:_SHOWN_KERNELS]) + ", ..." * (len(kernels) > _SHOWN_KERNELS)
    return (
        f"kernels that AOTInductor or cpp_wrapper=True launches from C++ go unrecorded ({shown}); run the "
        "model under torch.compile without cpp_wrapper=True; events=True has their times"
    )


def kernels_in(maps: str) -> list[str]:
    """The Triton kernels in Inductor's libraries that a process has loaded, as /proc/self/maps says."""
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/torchinductor_")
    files = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if line.endswith(".so")}
    paths = (path for path in files if _LIBRARY.search(path) or (cache in path and "/triton/" not in path))
    return sorted({name for path in paths for name in _kernels_of(path)})


@functools.cache
def _kernels_of(library: str) -> tuple[str, ...]:
    names: set[bytes] = set()
    with contextlib.suppress(OSError, ValueError), open(library, "rb") as file:  # it is gone, or empty
        length = min(_MOST_BYTES, os.fstat(file.fileno()).st_size)
        with mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as content:
            names.update(_KERNEL.findall(content))
    return tuple(name.decode() for name in names)


def of_all_threads() -> Any:
    """The configuration that watches all threads, and tells CUPTI of no operator: in which one a call lies,
    its time and thread say. Raises AttributeError or TypeError if this torch has another one."""
    import torch

    return torch._C._profiler._ExperimentalConfig(profile_all_threads=True, disable_external_correlation=True)


def is_profiling() -> bool:
    """Whether a profiler watches: one that watches all threads is known by the flag alone."""
    from torch import autograd

    return bool(autograd._profiler_enabled() or getattr(autograd.profiler, "_is_profiler_enabled", False))


def make_quiet() -> None:
    """Have torch not know of the profiler that watches, so that Inductor does not tell it of each launch."""
    from torch.autograd import profiler

    profiler._is_profiler_enabled = _QUIET


def was_quiet() -> bool:
    """Whether no profiler of the program's has begun since `make_quiet`: it puts the flag up, and down again
    when it ends."""
    from torch.autograd import profiler

    return profiler._is_profiler_enabled is _QUIET


def on_host(event: Any) -> bool:
    """Whether an event is one of the host's."""
    return bool(event.device_type() == sys.modules["torch"]._C._autograd.DeviceType.CPU)
