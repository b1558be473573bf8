"""Every access is checked, and the message says where: on kernels that are wrong on purpose."""

import numpy as np
import pytest
import torch

from profscope.emulator.machine.memory import Allocation, GlobalMemory, MemoryViolationError
from profscope.errors import EmulatorError
from tests.kernels.add import add_kernel
from tests.kernels.debug import assert_kernel, misaligned_kernel, out_of_bounds_kernel, print_kernel
from tests.support.ptx_kernel import run


def test_out_of_bounds_load_names_tensor_thread_and_line() -> None:
    x, out = torch.randn(1000), torch.zeros(8)
    with pytest.raises(EmulatorError) as caught:
        out_of_bounds_kernel[(8,)](x, out, BLOCK=128)
    text = str(caught.value)
    assert "out_of_bounds_kernel: out of bounds: " in text
    assert "'x_ptr' byte offset 4000 (its memory: 0 to 4000)" in text
    assert "in CTA (7, 0, 0) warp 3 lane 8: ld.global" in text
    assert "debug.py:" in text


def test_a_view_may_use_its_whole_storage() -> None:
    storage = torch.randn(1024)
    out = torch.zeros(1)
    out_of_bounds_kernel[(1,)](storage[:10], out, BLOCK=128)
    torch.testing.assert_close(out[0], storage[:128].sum())


def test_neighbouring_tensor_does_not_excuse_an_access() -> None:
    """The address lies in another tensor that was passed, but was computed from `x_ptr`."""
    whole = np.zeros(64, np.float32)
    a = Allocation("a", whole.ctypes.data, 128, whole.ctypes.data)
    b = Allocation("b", whole.ctypes.data + 128, 128, whole.ctypes.data + 128)
    memory = GlobalMemory([a, b], [a, b])
    address = np.array([whole.ctypes.data + 128])
    assert memory.offsets(address, 0, 4) is not None
    with pytest.raises(MemoryViolationError, match="out of bounds: 4 bytes at 'a' byte offset 128"):
        memory.offsets(address, 0, 4, frozenset([0]))


def test_store_out_of_bounds_writes_nothing() -> None:
    x, y = torch.randn(256), torch.randn(256)
    out = torch.zeros(100)
    with pytest.raises(EmulatorError, match=r"'out_ptr' byte offset 400 .*st\.global"):
        add_kernel[(1,)](x, y, out, 256, BLOCK=256)
    assert not out.any()


def test_misaligned_address() -> None:
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with pytest.raises(EmulatorError, match=r"misaligned address: 4 bytes at 'x_ptr' byte offset 2"):
        misaligned_kernel[(1,)](x, out)


def test_null_pointer() -> None:
    out = np.zeros(32, np.int32)
    with pytest.raises(EmulatorError, match="out of bounds: 4 bytes at unallocated memory, nearest to 'out'"):
        run("ld.global.b32 %r1, [%a];", out)


def test_shared_memory_bounds() -> None:
    out = np.zeros(32, np.int32)
    with pytest.raises(
        EmulatorError, match=r"out of bounds: 4 bytes at offset 2000 of 1024 bytes of shared memory"
    ):
        run("mov.b32 %r1, 2000; ld.shared.b32 %r2, [%r1];", out)
    with pytest.raises(EmulatorError, match="misaligned address: 8 bytes of shared memory"):
        run("mov.b32 %r1, 4; ld.shared.b64 %q2, [%r1];", out)


def test_device_print(capsys: pytest.CaptureFixture[str]) -> None:
    print_kernel[(1,)](torch.arange(128.0), BLOCK=128)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 128
    assert lines[5] == "pid (0, 0, 0) idx (  5) x is: 5.000000"


def test_device_assert() -> None:
    assert_kernel[(1,)](torch.ones(128), BLOCK=128)
    x = torch.ones(128)
    x[77] = -1
    with pytest.raises(
        EmulatorError,
        match=r"assertion failed at .*debug.py:\d+: x must be positive, in CTA .* warp 2 lane 13",
    ):
        assert_kernel[(1,)](x, BLOCK=128)


def test_tensors_must_be_on_the_cpu() -> None:
    x = torch.zeros(16)
    with pytest.raises(EmulatorError, match="argument 'y_ptr' is on meta"):
        add_kernel[(1,)](x, torch.zeros(16, device="meta"), x, 16, BLOCK=16)


@pytest.mark.parametrize(("kind", "expected"), [("b32", 0xFFFFFFFE), ("u32", 0xFFFFFFFE), ("s32", -2)])
def test_a_wider_register_gets_zeros_or_the_sign(kind: str, expected: int) -> None:
    out = np.array([0xFFFFFFFE, 0], np.int64)
    run(f"ld.global.{kind} %q1, [%out]; st.global.b64 [%out+8], %q1;", out)
    assert out[1] == expected
