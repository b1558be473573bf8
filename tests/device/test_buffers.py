"""Device arenas, on memory of the host that stands in for a GPU's: what a drain copies, who may fill what."""

from __future__ import annotations

import ctypes
import gc
import random
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from profscope.device.arena import DeviceBuffers
from profscope.device.arena_memory import pin
from profscope.device.buffers import HostBuffers, Lane
from profscope.device.sizing import Blocks
from profscope.instrument_passes.records import BASE_ALIGNMENT
from tests.support import standin

LIMIT = 64 * BASE_ALIGNMENT


class Slice(NamedTuple):
    """The memory of a launch."""

    filling: Any
    offset: int
    size: int

    @property
    def extent(self) -> tuple[int, int]:
        return self.filling.address + self.offset, self.size

    @property
    def cold(self) -> bool:
        return bool(self.filling.is_cold(self.offset))

    def fetch(self) -> Any:
        return self.filling.fetch(self.offset, self.size)


@pytest.fixture
def arenas(monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceBuffers]:
    monkeypatch.setattr("profscope.device.arena_memory.PINNED_BYTES", LIMIT // 5 + 24)  # several pieces
    with standin.gpu():
        opened = DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None)
        yield opened
        opened.close()  # what still drains would count as memory of the next test's


def fill_up(arenas: DeviceBuffers) -> None:
    """Fill the arenas several times over; everything must come back."""
    lane = Lane()
    slices = [launch(arenas, lane, LIMIT // 7, 0, index % 251 + 1) for index in range(100)]
    arenas.close()
    for index, slice_ in enumerate(slices):
        assert holds_only(slice_, index % 251 + 1)


def launch(arenas: DeviceBuffers, lane: Lane, size: int, stream: int, value: int) -> Slice:
    """A launch: is given memory, finds it zeroed, writes, and is in its stream."""
    arenas.place(lane, size, stream, 1)
    slice_ = Slice(lane.filling, lane.offset, size)
    address, size = slice_.extent
    assert ctypes.string_at(address, size) == bytes(size)
    ctypes.memset(address, value, size)
    lane.enqueued()
    return slice_


def holds_only(slice_: Slice, value: int) -> bool:
    fetched = slice_.fetch()
    return len(fetched) > 0 and bool((fetched == value).all())


def test_an_address_carries_the_bits_and_is_aligned(arenas: DeviceBuffers) -> None:
    lane = Lane()
    for stream in (0, 1):
        pointer = arenas.place(lane, 100, stream, 0b1011)
        address, size = Slice(lane.filling, lane.offset, 100).extent
        assert pointer == address | 0b1011
        assert (address % BASE_ALIGNMENT, size) == (0, 100)
        lane.enqueued()
    arenas.close()


def test_what_was_written_comes_back_through_any_number_of_rotations(arenas: DeviceBuffers) -> None:
    slices, lane = [], Lane()
    for index in range(200):
        slices.append(launch(arenas, lane, LIMIT // 7, index % 3, index % 251 + 1))
        if index % 97 == 0:
            slices[-1].fetch()  # in the middle of a filling
    arenas.close()
    for index, slice_ in enumerate(slices):
        assert holds_only(slice_, index % 251 + 1)


def test_threads_that_fill_the_arenas_together_lose_nothing(arenas: DeviceBuffers) -> None:
    kept: list[tuple[int, Slice]] = []
    ready = threading.Barrier(4)

    def work(number: int) -> None:
        sizes, lane = random.Random(number), Lane()
        ready.wait()
        for index in range(100):
            value = (number * 100 + index) % 255 + 1
            size = sizes.randrange(1, LIMIT // 3)
            kept.append((value, launch(arenas, lane, size, number, value)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    arenas.close()
    assert len(kept) == 400
    assert all(holds_only(slice_, value) for value, slice_ in kept)


def test_closing_gives_the_device_memory_back() -> None:
    with standin.gpu() as gpu:
        arenas = DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None)
        slice_ = launch(arenas, Lane(), 1000, 0, 7)
        assert gpu.held_bytes >= LIMIT
        arenas.close()
        assert gpu.held_bytes == 0
    assert slice_.fetch().tolist() == [7] * 1000


def test_a_drain_waits_for_a_launch_that_another_thread_has_begun(arenas: DeviceBuffers) -> None:
    begun = Lane()
    arenas.place(begun, 1000, 0, 1)
    slice_ = Slice(begun.filling, begun.offset, 1000)
    fetched: list[bytes] = []
    reader = threading.Thread(target=lambda: fetched.append(slice_.fetch().tobytes()))
    reader.start()
    while not (begun.filling and begun.filling.awaited):
        threading.Event().wait(0.001)
    other = launch(arenas, Lane(), 500, 0, 3)  # meanwhile others go on
    ctypes.memset(slice_.extent[0], 9, 1000)
    begun.enqueued()
    reader.join()
    assert fetched == [b"\x09" * 1000]
    assert other.fetch().tolist() == [3] * 500
    arenas.close()


def test_a_launch_that_comes_too_late_is_lost_and_spoils_no_other(
    arenas: DeviceBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is nobody else's, before it is in its stream and after."""
    monkeypatch.setattr("profscope.device.arena.ENQUEUE_TIMEOUT_S", 0.01)
    before, lane = launch(arenas, Lane(), 500, 0, 1), Lane()
    arenas.place(lane, 1000, 0, 1)
    late = Slice(lane.filling, lane.offset, 1000)
    assert before.fetch().tolist() == [1] * 500  # drains
    values = [index % 251 + 1 for index in range(60)]
    others = [launch(arenas, Lane(), LIMIT // 7, 0, value) for value in values]
    ctypes.memset(late.extent[0], 9, 1000)
    lane.enqueued()
    others += [launch(arenas, lane, LIMIT // 7, 0, value) for value in values]
    arenas.close()
    assert late.filling.is_late(late.offset)
    assert not late.fetch().any()
    assert not any(each.filling.late for each in (before, *others) if each.filling is not late.filling)
    assert all(holds_only(each, value) for each, value in zip(others, [*values, *values], strict=True))


def test_the_memory_of_a_late_launch_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.device.arena.ENQUEUE_TIMEOUT_S", 0.01)
    with standin.gpu() as gpu:
        arenas, lane = DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None), Lane()
        arenas.place(lane, 1000, 0, 1)
        arenas.close()
        address, size = Slice(lane.filling, lane.offset, 1000).extent
        ctypes.memset(address, 9, size)
        assert gpu.held_bytes >= LIMIT
        lane.enqueued()
        del arenas
        gc.collect()
        assert gpu.held_bytes == 0


def test_without_memory_in_place_of_a_late_launchs_nothing_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("profscope.device.arena.ENQUEUE_TIMEOUT_S", 0.01)
    with standin.gpu() as gpu:
        arenas, lane, other = DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None), Lane(), Lane()
        arenas.place(lane, 1000, 0, 1)
        gpu.full = True
        assert not Slice(lane.filling, lane.offset, 1000).fetch().any()
        assert arenas.place(other, 1000, 0, 1) is None
        assert other.filling is None
        arenas.close()


def test_one_arena_does_where_there_is_no_memory_for_two() -> None:
    with standin.gpu() as gpu:
        arenas = DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None)
        gpu.full = True
        fill_up(arenas)


def test_draining_goes_on_where_no_memory_can_be_pinned() -> None:
    with standin.gpu() as gpu:
        gpu.page_locked_out = True
        fill_up(DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None))


def test_without_memory_for_an_arena_there_are_no_buffers() -> None:
    with standin.gpu() as gpu:
        gpu.full = True
        with pytest.raises(torch.OutOfMemoryError):
            DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None)


def place(arenas: DeviceBuffers, size: int, zero: tuple[Blocks, ...] | None = None) -> Slice:
    """A launch that writes nothing."""
    lane = Lane()
    arenas.place(lane, size, 0, 1, zero)
    filling = lane.filling
    lane.enqueued()
    assert filling is not None
    return Slice(filling, lane.offset, size)


def test_only_a_small_piece_is_zeroed_ahead(arenas: DeviceBuffers) -> None:
    address, _ = place(arenas, 100).extent
    memory = np.frombuffer(ctypes.string_at(address, LIMIT), np.uint8)
    assert np.flatnonzero(memory)[0] == standin.L2_BYTES // 16


def test_launches_behind_much_zeroing_are_cold(arenas: DeviceBuffers) -> None:
    quarter = standin.L2_BYTES // 4
    sizes = [100, quarter, 100, quarter + BASE_ALIGNMENT + 1, 100]
    cold = [place(arenas, size).cold for size in sizes]
    assert cold == [False, False, False, True, False]


def test_a_launch_that_needs_little_zeroed_is_not_cold(arenas: DeviceBuffers) -> None:
    blocks = (Blocks(0, 1, 0, 1, 0, 64), Blocks(96, 10, 3000, 4, 500, 32))
    slice_ = place(arenas, standin.L2_BYTES, blocks)
    assert not slice_.cold
    address, size = slice_.extent
    found = np.frombuffer(ctypes.string_at(address, size), np.uint8)
    zero = {*range(64)}
    zero |= {96 + 3000 * i + 500 * j + k for i in range(10) for j in range(4) for k in range(32)}
    assert set(np.flatnonzero(found == 0).tolist()) == zero
    after = place(arenas, 1000)  # what follows is zero as ever
    assert ctypes.string_at(*after.extent) == bytes(1000)


def test_every_stream_waits_for_what_was_zeroed_last(arenas: DeviceBuffers) -> None:
    """A piece has room for two of these launches."""
    waits: list[list[int]] = []
    now: list[tuple[int, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standin._Stream, "__init__", lambda stream, *at: setattr(stream, "at", at))
        patch.setattr(
            standin._Stream, "wait_event", lambda stream, event: now.append(getattr(stream, "at", ()))
        )
        lane = Lane()
        for stream in (7, 8, 7, 8, 8, 8, 7):
            now.clear()
            arenas.place(lane, 100, stream, 1)
            lane.enqueued()
            waits.append([at[0] for at in now if at])
    assert waits == [[7], [8], [7], [8], [8], [], [7]]


def test_a_launch_on_another_stream_stays_in_the_claim_of_its_thread(arenas: DeviceBuffers) -> None:
    """And waits there for what was zeroed, as a launch behind another thread's claim does."""
    now: list[int] = []
    waits: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standin._Stream, "__init__", lambda stream, *at: setattr(stream, "at", at))
        patch.setattr(standin._Stream, "at", (), raising=False)
        patch.setattr(standin._Stream, "wait_event", lambda stream, event: now.extend(stream.at[:1]))
        patch.setattr("profscope.device.arena.CLAIM_BYTES", 3 * BASE_ALIGNMENT)
        arenas.piece_bytes = 16 * BASE_ALIGNMENT
        one, other = Lane(), Lane()
        offsets = []
        for lane, stream in (
            (one, 7),
            (other, 7),
            (one, 8),
            (one, 8),
            (one, 8),
            (other, 7),
            (other, 7),
            (one, 8),
        ):
            arenas.place(lane, 100, stream, 1)
            lane.enqueued()
            assert lane.claimant.at[0] == stream  # the next one's needs no lock
            offsets.append(lane.offset // BASE_ALIGNMENT)
            waits.append(now.copy())
            now.clear()
    assert offsets == [0, 3, 1, 2, 6, 4, 5, 7]
    assert waits == [[7], [], [8], [], [], [], [], []]


def test_what_a_thread_has_not_used_of_its_claim_is_the_next_ones(arenas: DeviceBuffers) -> None:
    lane, offsets = Lane(), []
    arenas.piece_bytes = LIMIT
    for size in (BASE_ALIGNMENT, 10 * BASE_ALIGNMENT, 40 * BASE_ALIGNMENT, BASE_ALIGNMENT):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("profscope.device.arena.CLAIM_BYTES", 4 * BASE_ALIGNMENT)
            arenas.place(lane, size, 0, 1)
        lane.enqueued()
        offsets.append(lane.offset // BASE_ALIGNMENT)
    assert offsets == [0, 1, 11, 51]


def test_a_claim_is_zero_also_where_a_launch_wants_little_zeroed(arenas: DeviceBuffers) -> None:
    """It takes what is zero as it comes, and nothing is claimed of what it has left as it was."""
    lane, blocks = Lane(), (Blocks(0, 1, 0, 1, 0, 8),)
    launch(arenas, lane, 100, 0, 1)  # zeroes, and claims, a piece of two
    for offset in range(1, 8):
        size, zero = (100, None) if offset % 3 == 0 else (100, blocks)
        arenas.place(lane, size, 0, 1, zero)
        assert lane.offset == offset * BASE_ALIGNMENT
        address = Slice(lane.filling, lane.offset, size).extent[0]
        found = ctypes.string_at(address, size)
        assert found == bytes(size) if zero is None else found[:8] == bytes(8)
        lane.enqueued()


def test_a_thread_that_launches_on_two_devices_in_turn_leaves_no_gaps(arenas: DeviceBuffers) -> None:
    lane, other = Lane(), DeviceBuffers(1, 2 * LIMIT, lambda drained_bytes: None)
    offsets = []
    for buffers in (arenas, other) * 3:
        buffers.piece_bytes = 16 * BASE_ALIGNMENT
        launch(buffers, lane, 100, 0, 1)
        offsets.append(lane.offset // BASE_ALIGNMENT)
    assert offsets == [0, 0, 1, 1, 2, 2]
    launch(arenas, lane, 100, 0, 1)
    with arenas.lock:  # as while it is drained: the launch waits for the other's memory alone
        launch(other, lane, 100, 0, 1)
    assert lane.offset == 3 * BASE_ALIGNMENT


def test_a_launch_on_another_device_holds_up_no_drain(
    arenas: DeviceBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread has a claim on this one, and waits for memory of the other."""
    monkeypatch.setattr("profscope.device.arena.ENQUEUE_TIMEOUT_S", None)
    lane, other = Lane(), DeviceBuffers(1, 2 * LIMIT, lambda drained_bytes: None)
    slice_ = launch(arenas, lane, 100, 0, 5)

    class DrainedMeanwhile:
        def __enter__(self) -> None:
            draining = threading.Thread(target=slice_.fetch, daemon=True)
            draining.start()
            draining.join(20)
            assert not draining.is_alive()

        def __exit__(self, *error: object) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other, "lock", DrainedMeanwhile())
        other.place(lane, 100, 0, 1)
    lane.enqueued()
    assert holds_only(slice_, 5)


def test_a_launch_that_waits_while_the_buffers_close_gets_no_memory() -> None:
    with standin.gpu() as gpu:
        wait_while_closing(DeviceBuffers(0, 2 * LIMIT, lambda drained_bytes: None))
        assert gpu.held_bytes == 0


def wait_while_closing(arenas: DeviceBuffers) -> None:
    begun, waiting = Lane(), Lane()
    arenas.place(begun, LIMIT, 0, 1)
    full = begun.filling
    assert full is not None
    with ThreadPoolExecutor(2) as pool:
        placed = pool.submit(arenas.place, waiting, 100, 0, 1)
        while not full.awaited:
            threading.Event().wait(0.001)
        closed = pool.submit(arenas.close)
        while not arenas.closed:
            threading.Event().wait(0.001)
        begun.enqueued()
        closed.result()
        assert placed.result() is None
    assert waiting.filling is None


def test_no_claim_outlives_a_drain(arenas: DeviceBuffers) -> None:
    """It would keep the drained bytes on the host, where its thread launches no more."""
    lanes = Lane(), Lane()
    slices = [launch(arenas, lane, 100, 0, number) for number, lane in enumerate(lanes)]
    for number, slice_ in enumerate(slices):
        assert slice_.fetch().tolist() == [number] * 100
    assert [(lane.claim, lane.end) for lane in lanes] == [(None, -1)] * 2
    assert launch(arenas, lanes[0], 100, 0, 6).fetch().tolist() == [6] * 100


class _Operators(TorchDispatchMode):
    """Notes which of torch's operators run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__.partition(".")[0])
        return func(*args, **(kwargs or {}))


def test_memory_is_prepared_without_operators_that_a_library_may_have_replaced(arenas: DeviceBuffers) -> None:
    """With a Triton kernel, say, whose launch would ask for memory in the middle of this one."""
    with _Operators() as operators:
        slices = [place(arenas, LIMIT // 2) for _ in range(5)]  # rotates
        slices[-1].fetch()
    assert operators.names  # those that make memory, and views of it
    assert not {name for name in operators.names if name.endswith("_") or "copy" in name}


def test_a_small_launch_on_the_host_keeps_its_records_and_no_padding() -> None:
    """`memory=` counts what launches keep; the memory of a launch is aligned, and far larger."""
    full: list[int] = []
    buffers, lane, size, launches = HostBuffers(1 << 20, full.append), Lane(), 1000, 2000
    tracemalloc.start()
    try:
        slices = []
        for index in range(launches):
            slice_ = buffers.place(lane, size, 0, 1)
            assert slice_ is not None
            address, length = slice_.extent
            assert slice_.data_ptr() == address | 1
            assert address % BASE_ALIGNMENT == 0
            ctypes.memset(address, index % 251 + 1, length)
            slice_.ended()
            slices.append(slice_)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * launches * size
    assert len(full) == launches * size // (1 << 19)
    assert all(holds_only(Slice(each, 0, size), index % 251 + 1) for index, each in enumerate(slices))


def test_pinned_memory_is_the_hosts_whatever_torchs_default_device_is() -> None:
    with torch.device("meta"):
        pieces = pin(5 << 20)
    assert {piece.device.type for piece in pieces} == {"cpu"}
    assert sum(map(len, pieces)) == 5 << 20
