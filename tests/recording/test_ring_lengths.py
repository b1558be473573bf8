"""How long rings are: learned from what launches did, and learned again once that was too little."""

from __future__ import annotations

import ctypes
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given

from profscope.compat.programs import Program
from profscope.device.backend import Backend
from profscope.errors import EmulatorError
from profscope.instrument_passes.records import BASE_ALIGNMENT, MIN_RING_LOG2, LaunchBits
from profscope.instrument_passes.selection import ADDRESS_BITS
from profscope.options import Options
from profscope.recording.recorder import Recorder
from profscope.recording.trimming import has_full_ring
from tests.support import standin, synth
from tests.support.programs import BODY, bodies, launches
from tests.support.sessions import count, parts_of_session, session
from tests.support.synth import Loop


@pytest.mark.parametrize(
    ("trips", "dropped"),
    [
        ((0, 500, 500), [0, 0, 0]),
        ((0, 0, 0, 500, 500), [0, 0, 0, 0, 0]),
        ((0, 0, 0, 0, 500, 500), [0, 0, 0, 0, 3 * 484, 0]),  # what is guessed for takes memory
        ((10, 500, 500, 1000, 1000), [0, 3 * 484, 0, 3 * 488, 0]),
    ],
)
def test_they_are_learned_again_after_drops(trips: tuple[int, ...], dropped: list[int]) -> None:
    with session(instrument="heavy") as prof:
        for n in trips:
            count(n)
    assert prof.launches["dropped"].tolist() == dropped
    iterations = prof.df[prof.df["kind"] == "iteration"].groupby("launch").size()
    lost = prof.launches["dropped"] // 3  # a begin, and the store's begin and end
    assert iterations.reindex(range(len(trips)), fill_value=0).tolist() == (np.array(trips) - lost).tolist()


@triton.jit
def walk_kernel(out_ptr, n):
    for i in range(n):
        tl.store(out_ptr + i * 32 + tl.arange(0, 32), i)


def test_a_first_launch_that_faults_shows_nothing() -> None:
    with session(instrument="heavy") as prof:
        with pytest.raises(EmulatorError):
            walk_kernel[(1,)](torch.zeros(32, dtype=torch.int32), 1000, num_warps=1)
        for _ in range(2):
            walk_kernel[(1,)](torch.zeros(32 * 1000, dtype=torch.int32), 1000, num_warps=1)
    assert prof.launches["dropped"].tolist()[-2:] == [0, 0]


def test_a_kernel_that_never_loops_is_not_guessed_for_for_ever() -> None:
    with parts_of_session() as parts:
        for _ in range(6):
            count(0)
        sizes = [each.size for each in parts.recorder.log.launches]
        assert parts.recorder.log.launches[-1].bits.ring_log2 == MIN_RING_LOG2
    assert sizes[4:] == [sizes[0]] * 2  # those before are trimmed to this


@given(body=bodies, options=launches)
def test_a_ring_that_dropped_rows_is_full(body: tuple[Any, ...], options: dict[str, int]) -> None:
    made = synth.launch([synth.Program(body, 2)], **options)
    assert has_full_ring(made.buffer, made.manifest) or not made.dropped


def test_they_are_learned_of_what_has_run_before_a_capture() -> None:
    with parts_of_session(instrument="heavy") as parts:
        count(100)
        assert parts.recorder.log.ring_log2 == {}  # the next launch would wait for the first one
        parts.recorder.routes.settle()
        assert list(parts.recorder.log.ring_log2.values()) == [7]  # 128 rows for 100


def test_on_a_gpu_they_are_learned_again_once_records_have_drained() -> None:
    """Nothing waits for it in the launch path."""
    short, long = (synth.Program((Loop((trips,), BODY),)) for trips in (10, 100))
    kernel: Any = SimpleNamespace(metadata=SimpleNamespace(num_ctas=1), function=None, packed_metadata=None)
    programs, lengths = [short], []

    def call(pointer: int, *args: Any) -> None:
        lengths.append(LaunchBits.decode(pointer).ring_log2)
        made = synth.launch([programs[-1]], ring_log2=lengths[-1])
        ctypes.memmove(
            pointer & (1 << ADDRESS_BITS) - BASE_ALIGNMENT, made.buffer.ctypes.data, made.buffer.nbytes
        )

    with standin.gpu():
        recorder = Recorder(Options(memory=1), Backend("cuda", lambda: {"backend": "gpu"}), {})
        record = recorder.launches.launcher(kernel, Program(synth.launch([short]).manifest), call)
        launch = 1, 1, 1, 0, None, None, None, None, None
        record(*launch)
        programs.append(long)
        for _ in range(2000):
            record(*launch)
            if lengths[-1] == 7:
                break
            time.sleep(0.001)
        recorder.close()
        launched, _ = recorder.fetch()
    assert set(lengths[1:-1]) == {MIN_RING_LOG2}
    assert lengths[-1] == 7  # 128 rows for 100
    assert len(launched) == len(lengths)
