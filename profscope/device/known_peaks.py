"""What a GPU was measured to do at most (by `tuning.peaks`), in a file for each GPU, driver and Triton.

~/.cache/profscope/peaks/NVIDIA H200, driver 580.159.04, Triton 3.6.0.json
{"dram_gb_s": 4310.2, "l2_gb_s": 5892.0, ...}
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from profscope.device.gpus import driver_version, gpus
from profscope.installed import version
from profscope.traces.output import whole_file

__all__ = ["Peaks", "cache_folder", "keep", "known_peaks", "peaks_file"]

_IN_NAMES: Final = " ,.()+-_"  # what a file's name may have besides letters and digits


@dataclass(frozen=True)
class Peaks:
    """Medians. dram_gb_s, l2_gb_s: 1e9 bytes a second of a copy, read and written. dram_latency_ns,
    l2_latency_ns: of one load that waits for the one before. fma_tflops: float32, dot_fp16_tflops: tensor
    cores with float32 sums; 1e12 operations a second, two for a multiplication and an addition."""

    dram_gb_s: float
    l2_gb_s: float
    l2_latency_ns: float
    dram_latency_ns: float
    fma_tflops: float
    dot_fp16_tflops: float


def known_peaks(device: int) -> Peaks | None:
    """Those of a CUDA device that are kept; None if there are none, or if their file cannot be read."""
    if not (cache_folder() / "peaks").is_dir():
        return None  # the driver's version need not be asked for
    try:
        found = json.loads(peaks_file(device).read_text())
    except (OSError, ValueError):
        return None  # they can be measured again
    names = [each.name for each in fields(Peaks)]
    if not isinstance(found, dict) or not all(_is_rate(found.get(name)) for name in names):
        return None
    return Peaks(**{name: float(found[name]) for name in names})


def keep(device: int, peaks: Peaks) -> Path:
    """Write the file of a CUDA device, and return its path. Raises OSError if that cannot be written."""
    path = peaks_file(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(json.dumps(asdict(peaks), indent=1).encode())
    return path


def peaks_file(device: int) -> Path:
    """Where the peaks of a CUDA device are kept, with this driver and this Triton. Raises as `gpus`."""
    name = f"{gpus()[device].name}, driver {driver_version()}, Triton {version('triton')}"
    safe = "".join(each if each.isalnum() or each in _IN_NAMES else "-" for each in name)
    return cache_folder() / "peaks" / f"{safe}.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """What profscope keeps between processes, of all programs of a user."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profscope"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
