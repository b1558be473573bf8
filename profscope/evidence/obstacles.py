"""Why launches cannot be observed: what profscope says of it, and what the machine says of permissions."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from profscope.around.job import ranks

__all__ = [
    "EMULATED", "EVENTS", "NOT_NVIDIA", "has_sys_admin", "is_for_administrators", "occupied_by",
    "several_ranks",
]  # fmt: skip

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
