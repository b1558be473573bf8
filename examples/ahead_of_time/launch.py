"""Launch an exported kernel through the driver API, by ctypes.

    python launch.py build/softmax.json softmax.records

Everything that depends on the kernel comes from the JSON file. Needs NVIDIA's driver, and nothing else.
"""

import ctypes
import json
import sys
from pathlib import Path

ROWS, COLS, CTAS = 512, 1024, 128


def check(result: int, what: str) -> None:
    """Raise what the driver says went wrong."""
    if result:
        says = ctypes.c_char_p()
        cuda.cuGetErrorString(result, ctypes.byref(says))
        raise RuntimeError(f"{what}: {(says.value or b'unknown error').decode()}")


def allocated(size: int) -> ctypes.c_uint64:
    """Device memory, zeroed."""
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
    check(cuda.cuMemsetD8_v2(address, 0, ctypes.c_size_t(size)), "cuMemsetD8")
    return address


def launch(described: Path, records: Path) -> None:
    """One launch of softmax_kernel, and what it recorded to a file."""
    kernel = json.loads(described.read_text())
    profile = kernel["profile"]
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    device = ctypes.c_int()
    check(cuda.cuInit(0), "cuInit")
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    cubin = str(described.with_name(kernel["cubin"])).encode()
    check(cuda.cuModuleLoad(ctypes.byref(module), cubin), "cuModuleLoad")
    check(
        cuda.cuModuleGetFunction(ctypes.byref(function), module, kernel["entry"].encode()),
        "cuModuleGetFunction",
    )

    stride_log2, ring_log2 = 0, profile["ring_log2"]
    areas = CTAS  # with another stride_log2 fewer: docs/programs.md says how many
    size = profile["header_bytes"] + areas * (profile["cta_bytes"] + (profile["ring_bytes"] << ring_log2))
    memory = allocated(size + profile["alignment"]).value
    address = -(-memory // profile["alignment"]) * profile["alignment"]
    pointer = address | profile["enable_bits"] | stride_log2 << profile["stride_shift"]
    pointer |= ring_log2 - profile["min_ring_log2"] << profile["ring_shift"]

    values = {
        "out_ptr": allocated(4 * ROWS * COLS),
        "in_ptr": allocated(4 * ROWS * COLS),
        "rows": ctypes.c_int32(ROWS),
        "cols": ctypes.c_int32(COLS),
        "global_scratch": ctypes.c_uint64(0),
        "profile_scratch": ctypes.c_uint64(pointer),
    }
    given = [values[each["name"]] for each in kernel["parameters"]]
    parameters = (ctypes.c_void_p * len(given))(*(ctypes.addressof(value) for value in given))
    block, shared = kernel["launch"]["threads_per_cta"], kernel["launch"]["shared_bytes"]
    check(
        cuda.cuLaunchKernel(function, CTAS, 1, 1, block, 1, 1, shared, None, parameters, None),
        "cuLaunchKernel",
    )
    check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    host = ctypes.create_string_buffer(size)
    check(cuda.cuMemcpyDtoH_v2(host, ctypes.c_uint64(address), ctypes.c_size_t(size)), "cuMemcpyDtoH")
    records.write_bytes(host.raw)


if __name__ == "__main__":
    cuda = ctypes.CDLL("libcuda.so.1")
    launch(Path(sys.argv[1]), Path(sys.argv[2]))
