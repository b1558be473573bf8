"""The cost of a record on a device, measured once in a process.

A kernel of one warp runs a loop of dependent additions, once as it is and once with the instructions of
records: two clock reads and, as each iteration of a loop does, a row that goes out with one store, whose
address follows from the iteration. The extra time of the second is their cost if nothing hides it. A wait of
the warp may hide records; they cost more if they keep the assembler from moving instructions.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Final, NamedTuple

import torch

from profscope.device import cuda_driver

__all__ = ["RecordCost", "cost_of", "kernel_ptx", "record_cost"]

_TRIPS: Final = 256
_ADDITIONS: Final = 8
_LAUNCHES: Final = 3  # the first ones find no instructions in the cache
_NAME: Final = "profscope_record_cost"
_ROWS: Final = 64  # bytes before them are for the times
_ROOM: Final = 4096


class RecordCost(NamedTuple):
    """Cycles of the SM. read: from one clock read to the next; row: what the store of an iteration's row
    adds to the reads in it."""

    read: float
    row: float


@functools.cache
def record_cost(device: int) -> RecordCost | None:
    """The cost on a CUDA device; None if the driver does not report it."""
    try:
        bare, recorded, read = cuda_driver.aside(_times, device)
    except (OSError, RuntimeError):
        return None
    return cost_of(bare, recorded, read)


def cost_of(bare: int, recorded: int, read: int) -> RecordCost:
    """From the cycles of the bare loop, of the other one, and from one clock read to the next."""
    each = (recorded - bare) / _TRIPS
    return RecordCost(float(read), max(0.0, each - 2 * read))


def _times(device: int) -> list[int]:
    """Cycles of the bare loop, of the other one, and from one clock read to the next, of the last launch.

    Raises RuntimeError if the kernel cannot be run.
    """
    torch.cuda.set_device(device)
    torch.cuda.current_stream()  # makes torch's context this thread's
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out = torch.zeros(_ROOM // 4, dtype=torch.int32, device="cuda")
    module = cuda_driver.load_module(kernel_ptx().encode())
    try:
        address = ctypes.c_uint64(out.data_ptr())
        for _ in range(_LAUNCHES):
            cuda_driver.launch_warp(module, _NAME, address, stream.cuda_stream)
        stream.synchronize()
        with torch.cuda.stream(stream):
            times: list[int] = out[:3].tolist()
    finally:
        cuda_driver.unload_module(module)
    return times


def kernel_ptx() -> str:
    """The kernel; any GPU from compute capability 7.0 on runs it.

    The number of trips, the mask of the rows' ring and their base come from memory, so that the assembler
    does not know them. As in instrumented kernels, an iteration stores its row to the address that the
    previous one computed.
    """
    work = "add.rn.f32 %f, %f, %f; " * _ADDITIONS
    next_row = (
        "and.b32 %slot, %n, %mask; cvt.u64.u32 %offset, %slot; shl.b64 %offset, %offset, 3; "
        "add.s64 %at, %rows, %offset;"
    )
    return f"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry {_NAME}(.param .u64 target)
{{
.reg .b64 %out, %rows, %at, %offset;
.reg .b32 %a, %b, %c, %d, %n, %trips, %slot, %mask, %thread, %bare, %with;
.reg .f32 %f; .reg .pred %lane, %on;
ld.param.u64 %out, [target];
cvta.to.global.u64 %out, %out;
add.s64 %rows, %out, {_ROWS};
mov.u32 %thread, %tid.x;
setp.eq.u32 %lane, %thread, 0;
ld.volatile.global.b32 %trips, [%out+16];
cvt.u64.u32 %offset, %trips;
add.s64 %rows, %rows, %offset;
add.u32 %mask, %trips, 63;
add.u32 %trips, %trips, {_TRIPS};
cvt.rn.f32.u32 %f, %trips;
mov.u32 %n, 0;
mov.u32 %c, %clock;
bare:
{work}
add.u32 %n, %n, 1;
setp.lt.u32 %on, %n, %trips;
@%on bra bare;
mov.u32 %d, %clock;
sub.u32 %bare, %d, %c;
mov.u32 %n, 0;
mov.u64 %at, %rows;
mov.u32 %c, %clock;
recorded:
mov.u32 %a, %clock;
{work}
mov.u32 %b, %clock;
@%lane st.global.cs.v2.b32 [%at], {{%a, %b}};
add.u32 %n, %n, 1;
{next_row}
setp.lt.u32 %on, %n, %trips;
@%on bra recorded;
mov.u32 %d, %clock;
sub.u32 %with, %d, %c;
mov.u32 %a, %clock;
mov.u32 %b, %clock;
sub.u32 %b, %b, %a;
@%lane st.global.b32 [%out], %bare;
@%lane st.global.b32 [%out+4], %with;
@%lane st.global.b32 [%out+8], %b;
@%lane st.global.f32 [%out+12], %f;
ret;
}}
"""
