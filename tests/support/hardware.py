"""Running the emulator's PTX on a real GPU through the CUDA driver, and comparing all memory afterwards."""

import ctypes
from typing import Any

import numpy as np
import torch

from profscope.emulator.launcher import Launch
from profscope.emulator.machine.memory import Allocation

# Rounding of approximate instructions and of sums inside a matrix product, by the element type: (rtol, atol).
TOLERANCE = {
    "float64": (1e-12, 1e-12), "float32": (2e-5, 2e-5), "float16": (2e-3, 2e-3), "bfloat16": (1.6e-2, 1.6e-2),
}  # fmt: skip
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def check(result: int) -> None:
    assert result == 0, f"CUDA driver error {result}"


def run_on_both(launch: Launch) -> None:
    """Emulate `launch`, run the same PTX on the GPU on copies, and assert that memory is the same."""
    given = [a for a in launch.memory.allocations if a not in launch.program.variables]
    copies = {a: torch.from_numpy(memory_of(a).copy()).cuda() for a in given}
    run_on_gpu(launch, copies)
    EMULATE(launch)
    for allocation, copy in copies.items():
        compare(allocation, memory_of(allocation), copy.cpu().numpy())


EMULATE = Launch.run  # the real one; tests put `run_on_both` in its place


def memory_of(allocation: Allocation) -> np.ndarray:
    buffer = (ctypes.c_uint8 * allocation.size).from_address(allocation.start)
    return np.frombuffer(buffer, np.uint8)


def run_on_gpu(launch: Launch, copies: dict[Allocation, torch.Tensor]) -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver.cuModuleLoadData(ctypes.byref(module), launch.program.ptx + b"\0"))
    check(driver.cuModuleGetFunction(ctypes.byref(function), module, launch.program.name.encode()))
    check(driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, launch.shared_bytes))
    values: list[Any] = []
    for pointer, bits in zip(launch.memory.pointers, launch.parameters, strict=True):
        value = int(bits.view(f"u{bits.dtype.itemsize}")[0, 0, 0])
        if pointer is not None and pointer in copies:
            value += copies[pointer].data_ptr() - pointer.start
        values.append(ctypes.c_uint64(value))
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    check(
        driver.cuLaunchKernel(
            function, *launch.grid, launch.warps * 32, 1, 1, launch.shared_bytes,
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), arguments, None,
        )
    )  # fmt: skip
    torch.cuda.synchronize()
    check(driver.cuModuleUnload(module))


def compare(allocation: Allocation, emulated: np.ndarray, real: np.ndarray) -> None:
    owner = allocation.owner
    name = str(owner.dtype).removeprefix("torch.")
    if name not in TOLERANCE:
        np.testing.assert_array_equal(emulated, real, err_msg=allocation.name)
        return
    dtype = getattr(torch, name)
    ours, theirs = (torch.from_numpy(b.copy()).view(dtype) for b in (emulated, real))
    rtol, atol = TOLERANCE[name]
    torch.testing.assert_close(
        ours, theirs, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{allocation.name}: {m}"
    )
