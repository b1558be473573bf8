"""Launches by functions that are written out as text, in device arenas on memory of the host."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from instrument_passes.records import BASE_ALIGNMENT, LaunchBits
from profscope.options import Options
from profscope.recording.arenas import DeviceBuffers
from profscope.recording.backend import Backend, Machine
from profscope.recording.direct_launches import POINTER, DirectCall, OthersTurns
from profscope.recording.launch_log import Plan, Route
from profscope.recording.programs import Program
from profscope.recording.recorder import Recorder, recorder
from tests.support import standin
from tests.support.synth.sums import site, sum_manifest

STREAMS = (7, 8)
SIZES = (96, 3 * BASE_ALIGNMENT, BASE_ALIGNMENT + 8)  # of launches with so many CTAs, and one more
BITS = LaunchBits().encode()


class Launches:
    """Of one program. values: what each has written, all over its memory; bare: how many had none."""

    def __init__(self, records: Recorder, kernel: str, buffers: DeviceBuffers) -> None:
        self.values: list[int] = []
        self.bare = 0
        self._buffers = buffers
        self.during: Callable[[], object] = int  # called while one is launched
        self.program = Program(sum_manifest([[site()]], kernel=kernel), "")
        manifest = self.program.manifest
        for stream, (ctas, size) in itertools.product(STREAMS, enumerate(SIZES, 1)):
            plan = Plan(size, BITS, LaunchBits(), ctas)
            route = Route.of(buffers, plan, stream, 0, (manifest,))
            records.routes.settled[ctas, ~manifest.digest, stream, 0] = route
        turns = OthersTurns((), None, itertools.count(1), 1 << 60, 0, int)
        call = DirectCall(_text, {"our_call": self._write})
        self._launch = records.path.direct(_Launcher(), self.program, call, turns)

    def launch(self, value: int, ctas: int, stream: int) -> None:
        self._launch(ctas, 1, 1, stream, None, None, None, None, None, value)

    def _write(self, pointer: int | None, ctas: int, *args: Any) -> None:
        self.during()
        if pointer is None:
            self.bare += 1
            threading.Event().wait(0.001)
            return
        address, size, value = pointer & -BASE_ALIGNMENT, SIZES[ctas - 1], args[-1]
        assert pointer == address | BITS
        begins = [arena.address for arena in self._buffers._arenas]
        assert any(0 <= address - begin <= self._buffers.limit_bytes - size for begin in begins)
        assert ctypes.string_at(address, size) == bytes(size)
        memory = memoryview((ctypes.c_uint8 * size).from_address(address))
        np.frombuffer(memory, np.uint64)[:] = value
        self.values.append(value)


class _Launcher:
    num_ctas = 1

    def __call__(self, *args: Any) -> None:
        raise AssertionError("all routes are settled")


def _text(arguments: Sequence[str]) -> str:
    return f"our_call({', '.join([POINTER, *arguments])})"


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Of a session whose launches nobody folds: all of them stay in the log."""
    monkeypatch.setattr("profscope.recording.arenas._CLAIM_BYTES", 8 * BASE_ALIGNMENT)
    monkeypatch.setattr(standin, "L2_BYTES", 16 * 24 * BASE_ALIGNMENT)
    backend = Backend("cuda", lambda: {"backend": "gpu"}, lambda: Machine(132, 64))
    with standin.gpu():
        made = recorder(Options(memory=1, keep="sums"), backend, {})
        assert made.folder is not None
        made.folder.fold = lambda: None  # type: ignore[method-assign]
        made.routes.left_out = lambda: None  # type: ignore[method-assign]  # it would plan anew
        made.path.capturing = bool
        yield made
        made.close()


def arenas(records: Recorder) -> DeviceBuffers:
    buffers = records.routes.buffers(0)
    assert isinstance(buffers, DeviceBuffers)
    return buffers


def found(records: Recorder) -> list[tuple[Program, int]]:
    """Program and value of each entry of the log, whose memory holds nothing else, and whose stream has
    waited until that memory was zero, as draining waits for the stream."""
    values = []
    for entry in records.log.entries:
        assert entry is not None
        program, route, filling, offset, _ = entry
        assert isinstance(route.buffers, DeviceBuffers)
        words = route.buffers.memory(filling)[offset : offset + route.needed].view(np.uint64)
        assert (words == words[0]).all()
        assert route.stream in filling.streams
        values.append((program, int(words[0])))
    return values


def test_each_launch_has_memory_of_its_own_whatever_threads_streams_and_drains_do(records: Recorder) -> None:
    buffers, many = arenas(records), 400
    threads = [Launches(records, kernel, buffers) for kernel in ("one", "other")]
    done = threading.Event()

    def launch(number: int) -> None:
        mine = threads[number]
        for index in range(many):
            stream = STREAMS[index // 5 % 2]
            while len(mine.values) == index and mine.bare < 20 * many:  # it waits for no memory
                mine.launch(1 + number * many + index, 1 + index % len(SIZES), stream)

    def drain() -> None:
        while not done.wait(0.0005):
            for entry in records.log.entries[-1:]:
                assert entry is not None
                buffers.memory(entry[2])

    with ThreadPoolExecutor(3) as pool:
        draining = pool.submit(drain)
        launching = [pool.submit(launch, number) for number in range(2)]
        errors = [each.exception() for each in launching]
        done.set()
        assert [*errors, draining.exception()] == [None] * 3
    written = [(mine.program, value) for mine in threads for value in mine.values]
    assert len({id(entry[2]) for entry in records.log.entries if entry is not None}) > 4
    assert sorted(found(records), key=lambda each: each[1]) == written
    assert sum(records.journal.left_out.values()) == sum(mine.bare for mine in threads)


def test_a_launch_on_another_stream_waits_for_what_was_zeroed(records: Recorder) -> None:
    mine = Launches(records, "one", arenas(records))
    for value, stream in enumerate((7, 7, 8, 8, 7), 1):
        mine.launch(value, 1, stream)
    offsets = [entry[3] // BASE_ALIGNMENT for entry in records.log.entries if entry is not None]
    assert offsets == [0, 1, 2, 3, 4]
    assert [value for _, value in found(records)] == [1, 2, 3, 4, 5]


def in_another_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def ends(thread: threading.Thread) -> bool:
    thread.join(20)
    return not thread.is_alive()


def test_a_drain_that_waits_for_a_launch_is_told_of_it(
    records: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profscope.recording.arenas._ENQUEUE_TIMEOUT_S", None)
    mine, draining = Launches(records, "one", arenas(records)), []
    mine.launch(1, 1, 7)
    ((_, _, filling, *_),) = (entry for entry in records.log.entries if entry is not None)

    def drain() -> None:
        draining.append(in_another_thread(lambda: arenas(records).memory(filling)))
        while not filling.awaited:
            threading.Event().wait(0.001)

    mine.during = drain
    mine.launch(2, 1, 7)
    assert ends(draining[0])
    assert [value for _, value in found(records)] == [1, 2]


def test_a_launch_that_finds_no_room_in_its_claim_holds_up_no_drain_of_it(
    records: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it asks for memory it looks like one that has some."""
    monkeypatch.setattr("profscope.recording.arenas._ENQUEUE_TIMEOUT_S", None)
    mine, buffers = Launches(records, "one", arenas(records)), arenas(records)
    mine.launch(1, 1, 7)
    ((_, _, filling, *_),) = (entry for entry in records.log.entries if entry is not None)
    key = 1, ~mine.program.manifest.digest, 8, 0  # on another stream
    route = records.routes.settled[key]

    def place(*args: Any) -> Any:
        assert ends(in_another_thread(lambda: buffers.memory(filling)))
        return route.place(*args)

    records.routes.settled[key] = route._replace(place=place)
    mine.launch(2, 1, 8)
    assert records.journal.unrecorded == {}
    assert [value for _, value in found(records)] == [1, 2]
