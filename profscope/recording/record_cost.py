"""What a record costs on a device, measured once in a process.

A kernel of one warp does what records do and nothing else: clock reads, four of which go out with one 16-byte
store by one lane. The time from one read to the next is the least that lies between two records, and what
every span is too long by for each of the reads in it. Where a warp waits for something anyway, records hide
in that and cost less; where they keep the assembler from moving instructions they cost more.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import statistics
from typing import Final, NamedTuple

import torch

from profscope.recording import cuda_driver

__all__ = ["RecordCost", "record_cost"]

_STORES: Final = 64
_READS: Final = 4  # clocks in one store
_LAUNCHES: Final = 3  # the first ones find no instructions in the cache
_NAME: Final = "profscope_record_cost"


class RecordCost(NamedTuple):
    """Cycles of the SM. read: from one clock read to the next; store: what one store adds to that."""

    read: float
    store: float


@functools.cache
def record_cost(device: int) -> RecordCost | None:
    """Of a CUDA device; None where the driver does not tell."""
    try:
        with torch.cuda.device(device):
            clocks = _clocks()
    except (OSError, RuntimeError):
        return None
    steps = [(end - begin) % (1 << 32) for begin, end in itertools.pairwise(clocks)]
    with_store = steps[_READS - 1 :: _READS]
    read = statistics.median(step for at, step in enumerate(steps, 1) if at % _READS)
    return RecordCost(float(read), float(statistics.median(with_store)) - read)


def _clocks() -> list[int]:
    """What the kernel reads, in its order, of the last launch. Raises RuntimeError where it cannot be run."""
    torch.cuda.current_stream()  # makes torch's context this thread's
    cuda_driver.allow_capture()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        out = torch.empty(_STORES * _READS, dtype=torch.int32, device="cuda")
    module = cuda_driver.load_module(_ptx())
    try:
        address = ctypes.c_uint64(out.data_ptr())
        for _ in range(_LAUNCHES):
            cuda_driver.launch_warp(module, _NAME, address, stream.cuda_stream)
        stream.synchronize()
        with torch.cuda.stream(stream):
            clocks: list[int] = out.tolist()
    finally:
        cuda_driver.unload_module(module)
    return clocks


def _ptx() -> str:
    """The kernel; any GPU from compute capability 7.0 on runs it."""
    names = [f"%c{i}" for i in range(_READS)]
    reads = " ".join(f"mov.u32 {name}, %clock;" for name in names)
    store = "@%lane st.global.cs.v4.b32 [%out+{}], {{" + ", ".join(names) + "}};"
    steps = "\n".join(f"{reads} {store.format(4 * _READS * at)}" for at in range(_STORES))
    return f"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry {_NAME}(.param .u64 target)
{{
.reg .b64 %out; .reg .b32 %c<{_READS}>; .reg .b32 %thread; .reg .pred %lane;
ld.param.u64 %out, [target];
cvta.to.global.u64 %out, %out;
mov.u32 %thread, %tid.x;
setp.eq.u32 %lane, %thread, 0;
{steps}
ret;
}}
"""
