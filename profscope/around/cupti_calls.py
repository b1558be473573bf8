"""Which calls of CUDA's are noted while Kineto watches: not those that only ask CUDA something.

Kineto has CUPTI note all calls of CUDA's runtime and driver. Of the driver's it then shows launches and a few
of memory, and of the runtime's it leaves some out. The rest still cost the thread that makes them: Triton
asks the driver about each pointer that it passes to a kernel, torch for the device and the last error around
each of its own.

CUPTI takes calls by number, and tells the name of each. The choice lasts until Kineto ends: when it begins
the next time all are noted again (`cuptiActivityEnableDriverApi` in cupti_activity.h).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["loaded_library", "named_calls", "note_no_questions", "only_asks"]

_DOMAINS: Final = ((1, "cuptiActivityEnableDriverApi"), (2, "cuptiActivityEnableRuntimeApi"))
"""CUPTI_CB_DOMAIN_DRIVER_API and _RUNTIME_API, each with what chooses among its calls; since CUDA 12.4."""

_GAP: Final = 16  # numbers without a name behind each other: the end
_ASKS: Final = re.compile(
    r"^cu(da)?("
    r"(Ctx|Device|DevicePrimaryCtx|Driver|Runtime|Func|Kernel|Library|Module|Pointer|Stream|Thread)?"
    r"(Get|Query|Peek|Is[A-Z]|CanAccess)"
    r"|MemGet(Info|AddressRange)|Occupancy|ThreadExchange|TensorMapEncode|Ctx(Set|Push|Pop)Current"
    r"|SetDevice_|FuncSet|KernelSet|Event(Create|Destroy|Query|ElapsedTime))"
    r"|^__cuda(Push|Pop)CallConfiguration"
)
"""A question, or a setting of the calling thread's or of a kernel's: none gives the GPU work, moves or takes
memory, or waits."""


def only_asks(call: str) -> bool:
    """Whether a call of CUDA's, by the name that CUPTI has for it, gives the GPU nothing to do, and does not
    wait: cuPointerGetAttribute, cudaStreamIsCapturing_v10000."""
    return _ASKS.match(call) is not None


def note_no_questions() -> int:
    """Have CUPTI leave out calls that only ask, from now on; Kineto has begun. Returns how many that are:
    none where it is not clear which library is Kineto's, or where that cannot choose; then all are noted,
    which only costs."""
    path = loaded_library()
    if path is None:
        return 0
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # its file is no longer there
        return 0
    left_out = 0
    for domain, name in _DOMAINS:
        choose: Callable[[int, int], int] | None = getattr(library, name, None)
        if choose is None:
            continue
        for number, call in named_calls(library, domain):
            if only_asks(call):
                left_out += not choose(number, 0)  # 0: CUPTI_SUCCESS
    return left_out


def named_calls(library: Any, domain: int) -> Iterator[tuple[int, str]]:
    """The calls of a domain of CUPTI's, by number."""
    number = last = 0
    while number - last < _GAP:
        number += 1
        name = ctypes.c_char_p()
        if not library.cuptiGetCallbackName(domain, number, ctypes.byref(name)) and name.value:
            last = number
            yield number, name.value.decode()


def loaded_library(maps: str | None = None) -> Path | None:
    """The CUPTI that this process has loaded, None where it has none or several, of which one is another
    profiler's. maps: what /proc/self/maps says."""
    if maps is None:
        try:
            maps = Path("/proc/self/maps").read_text()
        except OSError:
            return None
    found = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/libcupti.so" in line}
    return Path(found.pop()) if len(found) == 1 else None
