"""The CUPTI library of this process: calls for PC sampling, instruction counts and counters; why it has none.

In its continuous mode CUPTI 13 stands still for ever where one thread opens, starts, stops or closes the
sampler while another one launches (seen on an H200: each waits for a lock that the other one has). So these
calls are made while no other thread runs Python, and after a pause in which launches that have begun come to
their end. A thread that launches without Python's lock for longer, from C++ alone, could still do harm.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from profscope.around.job import ranks
from profscope.compat.torch_parts import mapped_files
from profscope.errors import ProfscopeError
from profscope.evidence.structures import STRUCTURES, CubinCrc

__all__ = [
    "ADVICE",
    "EMULATED",
    "EVENTS",
    "FORBIDDEN",
    "HAS_SAMPLED",
    "NOT_NVIDIA",
    "OVERFLOW",
    "TOOL_VARIABLES",
    "WAITER",
    "Cupti",
    "Library",
    "SamplerError",
    "alone",
    "bytes_for",
    "check",
    "cubin_crc",
    "has_sys_admin",
    "injected_tool",
    "is_for_administrators",
    "library_path",
    "names_for",
    "occupied_by",
    "other_profiler",
    "several_ranks",
]

# Libraries that a tool puts into the process, and the variables that it sets for them.
_TOOL_LIBRARIES: Final = {
    "libsanitizer-collection.so": "compute-sanitizer",
    "libInterceptorInjectionTarget": "compute-sanitizer",
    "libToolsInjection": "Nsight Systems",
    "libcuda-injection.so": "Nsight Compute",
    "libTreeLauncherTargetInjection": "an Nsight tool",
}
TOOL_VARIABLES: Final = {
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR": "Nsight Compute",
    "NV_NSIGHT_INJECTION_PORT_BASE": "Nsight Compute",
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems",
    "CUDA_INJECTION64_PATH": "a tool in CUDA_INJECTION64_PATH",
}
WAITER: Final = "idle"  # the name of daemons that never launch
HAS_SAMPLED: Final[set[int]] = set()
"""This process, by its id, once it has: a fact that outlives sessions."""
_ALONE: Final = ("Enable", "Start", "Stop", "Disable")
_PAUSE_US: Final = 300
_HANDOVER_S: Final = 0.05  # for how long threads that want Python's lock are to wait; a call takes some ms
OVERFLOW: Final = 8  # CUPTI_ERROR_OUT_OF_MEMORY: the hardware's buffer was full
_ONLY_ADMINISTRATORS: Final = (
    "the driver lets only administrators read performance counters here "
    "(NVreg_RestrictProfilingToAdminUsers=0 allows all; in a container, the capability SYS_ADMIN)"
)
FORBIDDEN: Final = (35, 40)
"""CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES"""
_ANOTHER: Final = "another profiler has the GPU's counters; run without it (Nsight's tools, for one)"
ADVICE: Final = {
    23: _ANOTHER,  # CUPTI_ERROR_DISABLED
    26: _ANOTHER,  # CUPTI_ERROR_HARDWARE_BUSY
    36: _ANOTHER,  # CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED
    39: _ANOTHER,  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
    **dict.fromkeys(FORBIDDEN, _ONLY_ADMINISTRATORS),
}
"""What lies behind results of CUPTI that no later launch changes, and what would help."""

_BESIDE: Final = ("libnvperf_target.so", "libnvperf_host.so")
_HOST: Final = "cuptiProfilerHost"
_OLDEST: Final = 24  # CUPTI's API version in CUDA 12.6, the first with both interfaces


class SamplerError(ProfscopeError):
    """The GPU's sampler cannot be used here; the text says why, and what would help. result: CUPTI's number
    for it, 0 where it is none of CUPTI's."""

    def __init__(self, said: str, result: int = 0) -> None:
        super().__init__(said)
        self.result = result


def library_path(maps: str | None = None) -> Path:
    """Where CUPTI is: the one that is loaded (torch's), which sees this process's kernels; else Triton's.

    maps: as of `mapped_files`. Raises SamplerError if there is none.
    """
    for line in (mapped_files() if maps is None else maps).splitlines():
        if "/libcupti.so" in line:
            return Path(line.split(maxsplit=5)[-1])
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("backends/nvidia/lib/cupti/libcupti.so*")):
            return path
    raise SamplerError("neither torch nor Triton brings NVIDIA's CUPTI library here")


class Cupti:
    """Calls of one CUDA context. Raises SamplerError if there is no library, no context on this thread, or no
    lock that keeps other threads from launching."""

    def __init__(self) -> None:
        path = library_path()
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise SamplerError("this Python runs threads at the same time, which CUPTI cannot stand")
        try:
            self._library = ctypes.CDLL(str(path))
            self._holding = ctypes.PyDLL(str(path))  # the same one, called without giving up Python's lock
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(str(error)) from error
        self._context = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(self._context))
        if not self._context:
            raise SamplerError("this thread has no CUDA context yet; use the GPU first")
        version = ctypes.c_uint32()
        check(self._library, "cuptiGetVersion", self._library.cuptiGetVersion(ctypes.byref(version)))
        self.version = int(version.value)
        self.path = path

    def call(self, name: str, parameters: Any) -> None:
        """Call `cuptiPCSampling<name>` for the context."""
        parameters.size = ctypes.sizeof(parameters)
        parameters.context = self._context
        function = f"cuptiPCSampling{name}"
        if name in _ALONE:
            with alone():
                result = getattr(self._holding, function)(ctypes.byref(parameters))
        else:
            result = getattr(self._library, function)(ctypes.byref(parameters))
        check(self._library, function, result)
        HAS_SAMPLED.add(os.getpid())

    def crc(self, cubin: bytes) -> int:
        """See `cubin_crc`."""
        return cubin_crc(self._library, cubin)


def cubin_crc(library: ctypes.CDLL, cubin: bytes) -> int:
    """What records have in place of a binary. Needs no GPU. Raises SamplerError."""
    parameters = CubinCrc(cubin_size=len(cubin), cubin=cubin)
    parameters.size = ctypes.sizeof(parameters)
    check(library, "cuptiGetCubinCrc", library.cuptiGetCubinCrc(ctypes.byref(parameters)))
    return int(parameters.crc)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """In the body of the with statement no other thread runs Python, and those that launch have done so."""
    own = {thread.ident for thread in threading.enumerate() if thread.name == f"profscope-{WAITER}"}
    if not sys._current_frames().keys() - own - {threading.get_ident()}:
        yield  # there is none
        return
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_HANDOVER_S)
    try:
        time.sleep(1e-6 * _PAUSE_US)  # who waited for the lock already, and for less, gets it now
        ctypes.PyDLL(None).usleep(_PAUSE_US)
        yield
    finally:
        sys.setswitchinterval(interval)


def check(library: ctypes.CDLL, function: str, result: int) -> None:
    """Raises SamplerError with what CUPTI calls a result that is none of success."""
    if not result:
        return
    text = ctypes.c_char_p()
    library.cuptiGetResultString(result, ctypes.byref(text))
    said = (text.value or b"").decode() or f"error {result}"
    advice = f": {ADVICE[result]}" if result in ADVICE else ""
    raise SamplerError(f"{function} says {said}{advice}", result)


class Library:
    """Calls of CUPTI, under Python's lock unless they concern the host alone.

    path: default the library that this process has loaded, else Triton's. Raises SamplerError if there is
    none, if it is older than 12.6, or if the two libraries that belong to it are missing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or library_path()
        HAS_SAMPLED.add(os.getpid())  # with the libraries that are loaded next
        try:
            for name in _BESIDE:  # unless these are loaded first, CUPTI answers CUPTI_ERROR_UNKNOWN
                ctypes.CDLL(str(self.path.with_name(name)), ctypes.RTLD_GLOBAL)
            self._calls = ctypes.PyDLL(str(self.path))
            self._host = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise SamplerError(f"counters need a complete CUPTI: {error}") from error
        version = ctypes.c_uint32()
        check(self._calls, "cuptiGetVersion", self._calls.cuptiGetVersion(ctypes.byref(version)))
        self.version = int(version.value)
        if self.version < _OLDEST:
            raise SamplerError(f"counters need CUPTI 12.6 or newer, and {self.path} is older")

    def call(self, function: str, **fields: Any) -> Any:
        """Call a function of STRUCTURES and return its parameters. Raises SamplerError."""
        cls = STRUCTURES[function]
        last = getattr(cls, cls.LAST)
        parameters = cls(structSize=last.offset + last.size, **fields)
        library = self._host if function.startswith(_HOST) else self._calls
        check(self._calls, function, getattr(library, function)(ctypes.byref(parameters)))
        return parameters

    def crc(self, cubin: bytes) -> int:
        """What instruction counts have in place of a binary. Needs no GPU. Raises SamplerError."""
        return cubin_crc(self._calls, cubin) & 0xFFFFFFFF


def names_for(names: Sequence[str]) -> Any:
    """A C array of strings."""
    return (ctypes.c_char_p * len(names))(*(name.encode() for name in names))


def bytes_for(size: int) -> Any:
    """A C array of zeroed bytes."""
    return (ctypes.c_uint8 * size)()


def injected_tool(maps: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The profiler or checker that was started around this process; "" if there is none.

    maps: as of `mapped_files`.
    """
    maps = mapped_files() if maps is None else maps
    found = [tool for library, tool in _TOOL_LIBRARIES.items() if f"/{library}" in maps]
    found += [tool for variable, tool in TOOL_VARIABLES.items() if environ.get(variable)]
    return found[0] if found else ""


def other_profiler(modules: Mapping[str, Any] = sys.modules) -> str:
    """The profiler of this process that is at work now; "" if there is none."""
    kineto = modules.get("torch.autograd.profiler")
    if getattr(kineto, "_is_profiler_enabled", False):
        return "torch.profiler"
    proton = modules.get("triton.profiler.flags")
    if getattr(getattr(proton, "flags", None), "profiling_on", False):
        return "Proton"
    return ""


EMULATED: Final = "the emulator has no hardware to ask"
NOT_NVIDIA: Final = "only NVIDIA's GPUs are asked, through CUPTI"
EVENTS: Final = "events=True has CUPTI to itself"

_PARAMETERS: Final = Path("/proc/driver/nvidia/params")
_STATUS: Final = Path("/proc/self/status")
_ADMINISTRATORS_ONLY: Final = re.compile(r"^RmProfilingAdminOnly: (\d+)$", re.MULTILINE)
_CAPABILITIES: Final = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)
_SYS_ADMIN: Final = 21  # the bit of CAP_SYS_ADMIN


def several_ranks(environment: Mapping[str, str]) -> str:
    """Why nothing is observed if the process is one of several ranks; "" if it is not."""
    if (ranks(environment) or 1) > 1:
        return "this is one of several ranks, whose kernels wait for one another"
    return ""


def occupied_by(tool: str) -> str:
    """Why nothing is observed under a profiler or checker."""
    return f"{tool} has CUPTI to itself; run without it"


def is_for_administrators(parameters: str | None = None) -> bool | None:
    """Whether NVIDIA's driver gives counters to administrators only; None if unknown.

    parameters: the text of /proc/driver/nvidia/params, which containers may not have.
    """
    found = _ADMINISTRATORS_ONLY.search(_text(_PARAMETERS) if parameters is None else parameters)
    return None if found is None else found[1] != "0"


def has_sys_admin(status: str | None = None) -> bool:
    """Whether this process is an administrator for the driver. status: the text of /proc/self/status."""
    found = _CAPABILITIES.search(_text(_STATUS) if status is None else status)
    return found is not None and bool(int(found[1], 16) >> _SYS_ADMIN & 1)


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
