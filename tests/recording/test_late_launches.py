"""Launches that are held up for so long that others had their memory drained meanwhile."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from profscope.compat.programs import Program
from profscope.device.backend import Backend
from profscope.instrument_passes.records import BASE_ALIGNMENT
from profscope.instrument_passes.selection import ADDRESS_BITS
from profscope.options import Options
from profscope.recording.recorder import Recorder
from tests.support import standin, synth
from tests.support.synth import Work


def test_a_launch_that_a_hook_holds_up_is_lost_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.device.arena.ENQUEUE_TIMEOUT_S", 0.01)
    made = synth.launch([synth.Program((Work(2_000),))])
    kernel: Any = SimpleNamespace(metadata=SimpleNamespace(num_ctas=1), function=None, packed_metadata=None)
    held_up, go_on = threading.Event(), threading.Event()

    def call(pointer: int, *args: Any) -> None:
        """A hook, and then the kernel."""
        if threading.current_thread() is slow:
            held_up.set()
            go_on.wait()
        ctypes.memmove(
            pointer & (1 << ADDRESS_BITS) - BASE_ALIGNMENT, made.buffer.ctypes.data, made.buffer.nbytes
        )

    with standin.gpu():
        recorder = Recorder(Options(), Backend("cuda", lambda: {"backend": "gpu"}), {})
        record = recorder.launches.launcher(kernel, Program(made.manifest), call)
        launch = 1, 1, 1, 0, None, None, None, None, None
        slow = threading.Thread(target=record, args=launch)
        record(*launch)
        slow.start()
        held_up.wait()
        recorder.drain()
        record(*launch)
        go_on.set()
        slow.join()
        record(*launch)
        recorder.close()
        launches, notes = recorder.fetch()
    assert [each.index for each in launches] == [0, 1, 3]
    assert all(each.buffer.tobytes() == made.buffer.tobytes() for each in launches)
    assert notes == [
        "launch 2 (made_up) is lost: a hook or a full queue held it up until its memory had been drained"
    ]
