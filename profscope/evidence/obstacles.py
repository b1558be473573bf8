"""Who else uses CUPTI in this process: then nothing is observed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["injected_tool", "other_profiler"]

# Libraries that a tool puts into the process, and the variables that it sets for them.
_LIBRARIES: Final = {
    "libsanitizer-collection.so": "compute-sanitizer",
    "libInterceptorInjectionTarget": "compute-sanitizer",
    "libToolsInjection": "Nsight Systems",
    "libcuda-injection.so": "Nsight Compute",
    "libTreeLauncherTargetInjection": "an Nsight tool",
}
_VARIABLES: Final = {
    "NV_COMPUTE_PROFILER_PERFWORKS_DIR": "Nsight Compute",
    "NV_NSIGHT_INJECTION_PORT_BASE": "Nsight Compute",
    "NSYS_PROFILING_SESSION_ID": "Nsight Systems",
    "CUDA_INJECTION64_PATH": "a tool in CUDA_INJECTION64_PATH",
}


def injected_tool(maps: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The profiler or checker that was started around this process; "" if there is none.

    maps: the text of /proc/self/maps.
    """
    if maps is None:
        try:
            maps = Path("/proc/self/maps").read_text()
        except OSError:
            maps = ""
    found = [tool for library, tool in _LIBRARIES.items() if f"/{library}" in maps]
    found += [tool for variable, tool in _VARIABLES.items() if environ.get(variable)]
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
