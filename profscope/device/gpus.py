"""The NVIDIA GPUs of this machine and their driver, as these say it themselves. Needs no torch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Gpu", "driver_version", "gpus"]

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
    """Of NVIDIA's driver, such as "580.159.04"; "" if its management library does not tell."""
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
