"""Proton's sampling of instructions, `proton.start(mode="pcsampling")`, behind which no session can sample:
where it has been on, CUPTI may end the process that opens the GPU's sampler again. Once Proton has ended that
need not be so (it went well on an H200), but nothing tells the two apart."""

from __future__ import annotations

import os
from typing import Final

from profscope.dispatch.processes import mapped_files
from profscope.evidence.cupti import HAS_SAMPLED

__all__ = ["proton_has_sampled"]

_PROTON: Final = "/libproton.so"
_COUNTERS: Final = "/libnvperf_host.so"  # CUPTI loads it to sample, and not to trace


def proton_has_sampled(maps: str | None = None) -> str:
    """What to say if Proton has sampled in this process, else "". maps: what /proc/self/maps says."""
    maps = mapped_files() if maps is None else maps
    if _PROTON in maps and _COUNTERS in maps and os.getpid() not in HAS_SAMPLED:
        return (
            "Proton's pcsampling has been on in this process, and CUPTI may end a process in which two "
            "libraries open the GPU's sampler; use one of the two in a process"
        )
    return ""
