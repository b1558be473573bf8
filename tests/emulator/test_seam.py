"""The Triton backend: what it does for launches, and that it does nothing to those who do not ask for it."""

import subprocess
import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.runtime import _allocation, driver
from triton.tools.tensor_descriptor import TensorDescriptor

import profscope
from profscope.emulator import activate, describe
from profscope.errors import EmulatorError, SessionError
from tests.kernels.add import add_kernel


def python(code: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ruff: noqa: N803
def test_where_the_environment_asks_for_it_it_is_active_and_kernels_are_told_so() -> None:
    if torch.cuda.is_available():
        pytest.skip("with a GPU, TRITON_DEFAULT_BACKEND decides")
    target = tl.target_info
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "current_target", lambda: driver.active.get_current_target())
        patch.setattr(driver, "_default", None)
        patch.setattr(driver, "_active", None)
        patch.setenv("PROFSCOPE_EMULATOR", "1")
        assert type(driver.active).__name__ == "EmulatorDriver"
        told = target.current_target()
        assert (told.backend, told.arch, target.cuda_capability_geq(8, 0)) == ("cuda", 80, True)


DOORS = """
import sys, types
package = types.ModuleType("profscope")  # its own imports are not the emulator's
package.__path__ = {path}
sys.modules["profscope"] = package
import triton
print(sorted(m for m in sys.modules if m.startswith("profscope.")))
print([m for m in ("numpy", "torch", "pandas", "rich") if m in sys.modules])
from profscope.emulator.driver import EmulatorDriver
EmulatorDriver()
print("numpy" in sys.modules, "profscope.emulator.launcher" in sys.modules)
"""


def test_import_triton_stays_light() -> None:
    """Triton opens the doors of every backend; what is behind ours is loaded when a driver is made."""
    modules, heavy, then = python(DOORS.format(path=list(profscope.__path__))).splitlines()
    assert modules == str([f"profscope.emulator{name}" for name in ("", ".compiler", ".driver")])
    assert heavy == "[]"
    assert then == "True True"


def test_activation_is_undone_also_after_an_error() -> None:
    outer, told = driver.active, tl.target_info.current_target
    seen = []

    def fail() -> None:
        with activate(sm_count=2):
            seen.extend([driver.active, tl.target_info.current_target])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (driver.active, tl.target_info.current_target) == (outer, told)
    assert outer not in seen
    assert told not in seen


def test_describe() -> None:
    with activate(sm_count=7):
        found = describe()
    assert found["name"] == "profscope emulator"
    assert found["sm_count"] == 7
    before = driver._active
    driver.set_active(object())
    try:
        with pytest.raises(SessionError):
            describe()
    finally:
        driver.set_active(before)


def test_a_kernel_is_loaded_once() -> None:
    loaded: list[Any] = []

    def note(module: Any, function: Any, name: str, *_: Any) -> None:
        loaded.append((module, function))

    x, out = torch.ones(32), torch.zeros(32)
    knobs.runtime.kernel_load_end_hook.add(note)
    add_kernel.device_caches.clear()
    try:
        kernels = [add_kernel[(1,)](x, x, out, n, BLOCK=32) for n in (20, 32, 20, 32)]
    finally:
        knobs.runtime.kernel_load_end_hook.remove(note)
    assert kernels[0].asm["ptx"] == kernels[1].asm["ptx"]
    assert loaded == [(kernel.module, kernel.function) for kernel in kernels[:2]]
    assert loaded[0][1] is not loaded[1][1]


def test_a_kernel_outlives_the_emulator_that_loaded_it() -> None:
    """Triton 3.8 and later ask the driver that is active when a kernel is collected to unload its module."""
    x, out = torch.ones(32), torch.zeros(32)
    with activate():
        kernel = add_kernel[(1,)](x, x, out, 32, BLOCK=32)
        assert kernel.module is not None
    assert kernel.module is None
    kernel[(1, 1, 1)](x, x, out, 32)
    assert kernel.module is not None


@pytest.mark.parametrize("grid", [(1, 65536), (1, 1, 65536), (2**31,)])
def test_a_grid_that_cuda_refuses_is_refused(grid: tuple[int, ...]) -> None:
    x, out = torch.ones(32), torch.zeros(32)
    with pytest.raises(EmulatorError, match=r"add_kernel: grid \(.*CUDA allows at most"):
        add_kernel[grid](x, x, out, 32, BLOCK=32)
    assert not out.any()


@triton.jit
def descriptor_kernel(ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    desc = tl.make_tensor_descriptor(ptr, [rows, cols], [cols, 1], [BLOCK, BLOCK])
    tile = desc.load([tl.program_id(0) * BLOCK, 0])
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offs, tl.sum(tile, 1))


@triton.jit
def host_descriptor_kernel(desc, out_ptr, BLOCK: tl.constexpr):
    tile = desc.load([tl.program_id(0) * BLOCK, 0])
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.sum(tile, 1))


def test_tensor_descriptors() -> None:
    x = torch.randn(40, 12)
    expected = torch.zeros(48)
    expected[:40] = x[:, :12].sum(1)
    out = torch.zeros(48)
    descriptor_kernel[(3,)](x, out, 40, 12, BLOCK=16)
    torch.testing.assert_close(out, expected)
    out = torch.zeros(48)
    host_descriptor_kernel[(3,)](TensorDescriptor(x, [40, 12], [12, 1], [16, 16]), out, BLOCK=16)
    torch.testing.assert_close(out, expected)


@triton.jit
def scalars_kernel(out_ptr, pair, flag, small, big, real, half: tl.float16, unused, COUNT: tl.constexpr):
    tl.store(out_ptr, pair[0].to(tl.float64))
    tl.store(out_ptr + 1, tl.load(pair[1]).to(tl.float64))
    tl.store(out_ptr + 2, flag.to(tl.float64))
    tl.store(out_ptr + 3, small.to(tl.float64))
    tl.store(out_ptr + 4, big.to(tl.float64))
    tl.store(out_ptr + 5, real.to(tl.float64))
    tl.store(out_ptr + 6, half.to(tl.float64))
    tl.store(out_ptr + 7, unused[0] + COUNT + 0.0)


def test_argument_kinds() -> None:
    out = torch.zeros(8, dtype=torch.float64)
    x = torch.tensor([2.5])
    scalars_kernel[(1,)](out, (-3, x), True, -7, 1 << 40, 0.1, 1.5, (1, None), COUNT=4)
    expected = [-3, 2.5, 1, -7, float(1 << 40), torch.tensor(0.1).item(), 1.5, 5]
    assert out.tolist() == expected


def test_profile_buffer_is_one_more_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher built for a kernel with scratch asks the allocator for all CTAs' bytes and bounds them."""
    from profscope.emulator.launcher import Launcher

    x, out = torch.ones(64), torch.zeros(64)
    kernel = add_kernel[(1,)](x, x, out, 64, BLOCK=64)
    metadata = kernel.metadata._replace(profile_scratch_size=48, profile_scratch_align=16)
    requests: list[tuple[int, int, int]] = []
    buffers = []

    def allocate(size: int, alignment: int, stream: int) -> torch.Tensor:
        requests.append((size, alignment, stream))
        buffers.append(torch.zeros(size, dtype=torch.uint8))
        return buffers[-1]

    before = _allocation._profile_allocator.get()
    triton.runtime._allocation.set_profile_allocator(allocate)
    try:
        args = (x, x, out, 64, 64)
        Launcher(kernel.src, metadata)(3, 2, 1, 0, kernel.function, None, None, None, None, *args)
    finally:
        _allocation._profile_allocator.set(before)
    assert requests == [(48 * 6, 16, 0)]


def test_a_kernel_of_another_driver_is_refused() -> None:
    x, out = torch.ones(64), torch.zeros(64)
    kernel = add_kernel[(1,)](x, x, out, 64, BLOCK=64)
    before = driver._active
    driver.set_active(object())
    try:
        with pytest.raises(EmulatorError, match="no longer the active driver"):
            kernel.run(1, 1, 1, 0, kernel.function, None, None, None, None, x, x, out, 64, 64)
    finally:
        driver.set_active(before)


@triton.jit
def fill_kernel(x_ptr, value, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, value, offs < n)


X = torch.zeros(32)
WRONG = {(X, 1.0): "'?n'?$", (X,): "'?value'?.*'?n'?$", (X, 1.0, 32, 32, 5): "4 .* 5 were given"}


@pytest.mark.parametrize(("arguments", "text"), WRONG.items())
def test_a_wrong_number_of_arguments(arguments: tuple[object, ...], text: str) -> None:
    constants = {} if len(arguments) > 3 else {"BLOCK": 32}
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    with pytest.raises(TypeError, match=text):
        fill_kernel[(1,)](*arguments, **constants)
    with pytest.raises(TypeError, match=text):
        compiled[(1, 1, 1)](*arguments)
    with profscope.session(backend="emulator"), pytest.raises(TypeError, match=text):
        fill_kernel[(1,)](*arguments, **constants)


def test_a_binary_needs_no_constants_at_the_end() -> None:
    """Nor do Triton's launchers on GPUs, from 3.7 on."""
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    x = torch.zeros(32)
    for number, constants in enumerate([(), (32,)], 1):
        compiled[(1, 1, 1)](x, float(number), 32, *constants)
        assert (x == number).all()
