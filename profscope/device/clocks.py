"""The relation of the host's clock to a GPU's timer, with its error.

    host    asks (10:00:00.000 000 000)          hears (10:00:00.000 002 100)
    GPU                     reads its timer: 1732298400000000640

A kernel of one warp answers the host: it waits for a number in the host's memory, and writes the GPU's timer
(`globaltimer`, also that of records) next to it. It reads the timer after the host asked and before the host
heard, so each answer bounds the difference of the two clocks; many answers narrow the bounds. Both clocks go
on at rates of their own, so this is done when a session first records on a device and whenever its profile is
read.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch

from profscope.device import cuda_driver
from profscope.threads import daemon

__all__ = ["Anchor", "Answer", "HostClocks", "anchor", "anchor_of", "kernel_ptx"]

_NAME: Final = "profscope_host_clock"
_ROUNDS: Final = 200
_TRIES: Final = 5  # to read two clocks of the host's at once
_WAIT_NS: Final = 20_000_000  # for the kernel to begin, where the GPU is busy
_IDLE_NS: Final = 50_000_000  # after so long without a question the kernel ends


class Answer(NamedTuple):
    """asked_ns, heard_ns: by the host's clock; timer_ns: by the GPU's, some time between the two."""

    asked_ns: int
    timer_ns: int
    heard_ns: int


class Anchor(NamedTuple):
    """One moment by three clocks: the GPU's timer, time.perf_counter_ns() and time.time_ns(). error_ns: by so
    much it may be off between the GPU's and the host's."""

    timer_ns: int
    perf_counter_ns: int
    unix_ns: int
    error_ns: int


class HostClocks:
    """The anchors of the devices that a session records on. Thread-safe."""

    def __init__(self) -> None:
        self._anchors: dict[int, list[Anchor]] = {}
        self._lock = threading.Lock()

    def meet(self, device: int) -> None:
        """Note what the clocks of a device and of the host say now."""
        now = anchor(device)
        with self._lock:
            met = self._anchors.setdefault(device, [])
            if now is not None:
                met.append(now)

    def describe(self) -> dict[str, Any]:
        """The metadata's entry "host_clock": by device its anchors, one of now among them."""
        with self._lock:
            devices = sorted(self._anchors)
        for device in devices:
            self.meet(device)
        with self._lock:
            known = {str(device): met for device, met in self._anchors.items() if met}
            by_device = {device: [each._asdict() for each in met] for device, met in sorted(known.items())}
        return {"host_clock": {"devices": by_device}} if by_device else {}


def anchor(device: int) -> Anchor | None:
    """The current anchor of a CUDA device; None if the driver refuses, or the GPU is too busy to answer."""
    try:
        answers = cuda_driver.aside(_answers, device)
    except (OSError, RuntimeError):
        return None
    tries = [(time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()) for _ in range(_TRIES)]
    before, unix, after = min(tries, key=lambda each: each[2] - each[0])
    found = anchor_of(answers)
    if found is None:
        return None
    timer_ns, perf_counter_ns, error_ns = found
    unix_ns = perf_counter_ns + unix - (before + after) // 2
    return Anchor(timer_ns, perf_counter_ns, unix_ns, error_ns + (after - before) // 2)


def anchor_of(answers: Sequence[Answer]) -> tuple[int, int, int] | None:
    """A moment by the GPU's timer and the host's clock, and by how much it may be off; None of no answers.

    A timer that goes in steps has read up to one of them too little: what all differences of answers are
    multiples of.
    """
    if not answers:
        return None
    step = math.gcd(*(each.timer_ns - answers[0].timer_ns for each in answers))
    lowest = max(each.asked_ns - each.timer_ns - step for each in answers)
    highest = min(each.heard_ns - each.timer_ns for each in answers)
    if lowest > highest:  # a clock was set while they were asked; the quickest answer stands for itself
        quickest = min(answers, key=lambda each: each.heard_ns - each.asked_ns)
        lowest, highest = quickest.asked_ns - quickest.timer_ns - step, quickest.heard_ns - quickest.timer_ns
    timer_ns = answers[-1].timer_ns
    return timer_ns, timer_ns + (lowest + highest) // 2, -((lowest - highest) // 2)


def _answers(device: int) -> list[Answer]:
    """Raises RuntimeError if the kernel cannot be run."""
    torch.cuda.set_device(device)
    torch.cuda.current_stream()  # makes torch's context this thread's
    stream = torch.cuda.Stream()
    shared = torch.zeros(_ROUNDS + 1, dtype=torch.int64, device="cpu").pin_memory()
    words = (ctypes.c_int64 * (_ROUNDS + 1)).from_address(shared.data_ptr())
    module = cuda_driver.load_module(kernel_ptx().encode())
    answers = []
    try:
        cuda_driver.launch_warp(module, _NAME, ctypes.c_uint64(shared.data_ptr()), stream.cuda_stream)
        now = time.perf_counter_ns
        for number in range(1, _ROUNDS + 1):
            asked_ns = now()
            words[0] = number
            while not words[number] and now() - asked_ns < _WAIT_NS:
                pass
            heard_ns = now()
            if not words[number]:
                break
            answers.append(Answer(asked_ns, words[number], heard_ns))
    finally:
        words[0] = _ROUNDS  # whatever it still waits for
        if answers:
            _end(stream, module, shared)
        else:  # it has not begun, and who launches must not wait for what is running, which may wait for him
            daemon("clock", _end, stream, module, shared)
    return answers


def _end(stream: torch.cuda.Stream, module: ctypes.c_void_p, shared: torch.Tensor) -> None:
    """Give back what the kernel has needed once it has ended. shared: kept until then."""
    stream.synchronize()
    with torch.cuda.device(stream.device), contextlib.suppress(RuntimeError):  # where the device has faulted
        cuda_driver.unload_module(module)
    del shared


def kernel_ptx() -> str:
    """The kernel; any GPU from compute capability 7.0 on runs it.

    An answer's timer is read behind a branch that needs the question: a load does not stop a warp, but what
    waits for its value does.
    """
    return f"""
.version 6.0
.target sm_70
.address_size 64
.visible .entry {_NAME}(.param .u64 target)
{{
.reg .b64 %words, %at, %number, %asked, %timer, %since, %idle;
.reg .b32 %thread; .reg .pred %other, %answer, %late, %more;
ld.param.u64 %words, [target];
cvta.to.global.u64 %words, %words;
mov.u32 %thread, %tid.x;
setp.ne.u32 %other, %thread, 0;
@%other ret;
mov.u64 %number, 1;
mov.u64 %at, %words;
next:
mov.u64 %since, %globaltimer;
ask:
ld.volatile.global.u64 %asked, [%words];
setp.ge.u64 %answer, %asked, %number;
@%answer bra answer;
mov.u64 %timer, %globaltimer;
sub.u64 %idle, %timer, %since;
setp.gt.u64 %late, %idle, {_IDLE_NS};
@%late ret;
bra ask;
answer:
mov.u64 %timer, %globaltimer;
add.u64 %at, %at, 8;
st.volatile.global.u64 [%at], %timer;
add.u64 %number, %number, 1;
setp.le.u64 %more, %number, {_ROUNDS};
@%more bra next;
ret;
}}
"""
