"""The NVIDIA GPUs of this machine: facts from them and their driver, and measured peaks (by `tuning.peaks`).
Needs no torch.

Peaks are in a file for each GPU, driver and Triton:

~/.cache/profscope/peaks/NVIDIA H200, driver 580.159.04, Triton 3.6.0.json
{"dram_gb_s": 4310.2, "l2_gb_s": 5892.0, ...}
"""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from profscope.installed import version
from profscope.traces.output import whole_file

__all__ = ["Gpu", "Peaks", "cache_folder", "driver_version", "gpus", "keep", "known_peaks", "peaks_file"]

_NAME_BYTES: Final = 256
_VERSION_BYTES: Final = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
_WITHOUT_GPUS: Final = 1  # NVML_INIT_FLAG_NO_GPUS: initialise no GPU, which takes long
# CU_DEVICE_ATTRIBUTE_...
_SM_COUNT: Final = 16
_L2_BYTES: Final = 38
_MAJOR: Final = 75
_MINOR: Final = 76


@dataclass(frozen=True)
class Gpu:
    """capability: (9, 0) of an H200. l2_bytes: of its L2 cache."""

    name: str
    capability: tuple[int, int]
    sm_count: int
    memory_bytes: int
    l2_bytes: int


def gpus() -> list[Gpu]:
    """Those that this process may use (CUDA_VISIBLE_DEVICES), in CUDA's order.

    Raises OSError if there is no driver, RuntimeError with what it says if it has no GPU or fails.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    _check(driver, "cuInit", driver.cuInit(0))
    count = ctypes.c_int()
    _check(driver, "cuDeviceGetCount", driver.cuDeviceGetCount(ctypes.byref(count)))
    return [_gpu(driver, number) for number in range(count.value)]


def driver_version() -> str:
    """The version of NVIDIA's driver, such as "580.159.04"; "" if its management library does not give it."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    version = ctypes.create_string_buffer(_VERSION_BYTES)
    if nvml.nvmlInitWithFlags(_WITHOUT_GPUS):
        return ""
    failed = nvml.nvmlSystemGetDriverVersion(version, _VERSION_BYTES)
    nvml.nvmlShutdown()
    return "" if failed else version.value.decode()


def _gpu(driver: Any, number: int) -> Gpu:
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    _check(driver, "cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), number))
    _check(driver, "cuDeviceGetName", driver.cuDeviceGetName(name, _NAME_BYTES, device))
    _check(driver, "cuDeviceTotalMem", driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device))

    def attribute(which: int) -> int:
        value = ctypes.c_int()
        failed = driver.cuDeviceGetAttribute(ctypes.byref(value), which, device)
        _check(driver, "cuDeviceGetAttribute", failed)
        return value.value

    return Gpu(
        name=name.value.decode(),
        capability=(attribute(_MAJOR), attribute(_MINOR)),
        sm_count=attribute(_SM_COUNT),
        memory_bytes=memory.value,
        l2_bytes=attribute(_L2_BYTES),
    )


def _check(driver: Any, function: str, status: int) -> None:
    if not status:
        return
    text = ctypes.c_char_p()
    driver.cuGetErrorString(status, ctypes.byref(text))
    raise RuntimeError(f"{function} says {(text.value or b'an unknown error').decode()} (error {status})")


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
    """The file for the peaks of a CUDA device, with this driver and this Triton. Raises as `gpus`."""
    name = f"{gpus()[device].name}, driver {driver_version()}, Triton {version('triton')}"
    safe = "".join(each if each.isalnum() or each in _IN_NAMES else "-" for each in name)
    return cache_folder() / "peaks" / f"{safe}.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder for data that all processes of a user share."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profscope"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
