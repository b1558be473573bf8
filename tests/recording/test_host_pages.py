"""Memory of the host is used again once nobody holds what was in it, and not before."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os

import numpy as np
import pytest

from profscope.recording.host_pages import HostPages

SIZE = 5000


def address(memory: np.ndarray) -> int:
    return int(memory.ctypes.data)


@pytest.mark.parametrize("shared", [0, 2])
def test_what_a_view_holds_is_not_used_again(shared: int) -> None:
    pages = HostPages(SIZE, shared)
    memory, is_new = pages.take(SIZE)
    assert (len(memory), is_new) == (SIZE, True)
    memory[:] = 7
    view, where = memory[100:200].view(np.uint16)[1:], address(memory)
    del memory
    other, is_new = pages.take(SIZE)
    assert is_new
    assert address(other) != where
    other[:] = 9
    assert (view == 7 * 257).all()
    del view
    again, is_new = pages.take(10)
    assert (address(again), is_new) == (where, False)


def test_shared_memory_is_where_its_file_has_it() -> None:
    pages = HostPages(SIZE, 2)
    taken = [pages.take(SIZE)[0] for _ in range(3)]
    for number, memory in enumerate(taken):
        memory[:] = number + 1
    places = [pages.place_of(memory[100:]) for memory in taken]
    assert sorted(places[:2]) == [(0, 100), (1, 100)]  # type: ignore[type-var]
    assert places[2] is None  # no more are shared than was asked for
    for place, memory in zip(places[:2], taken, strict=False):
        assert place is not None
        file, size = pages.files[place[0]]
        with mmap.mmap(file, size, prot=mmap.PROT_READ) as other:
            assert other[place[1]] == memory[0]
    pages.close()
    assert pages.files == []


def test_other_memory_is_in_no_area_wherever_it_is() -> None:
    """Also at higher addresses, and where it ends behind an area or begins in front of one."""
    pages, around = HostPages(SIZE, 1), HostPages(SIZE, 1)
    taken = sorted((each.take(SIZE)[0] for each in (pages, around)), key=address)
    for mine in taken:
        owner = next(each for each in (pages, around) if each.place_of(mine) is not None)
        assert owner.place_of(mine) == (0, 0)
        assert owner.place_of(mine[SIZE - 8 :]) == (0, SIZE - 8)
        for other in taken:
            if other is not mine:
                assert owner.place_of(other) is None
        for begin in (-8, 8):
            beyond = (ctypes.c_uint8 * SIZE).from_address(address(mine) + begin)  # nobody reads it
            assert owner.place_of(np.frombuffer(memoryview(beyond), np.uint8)) is None
    pages.close()
    around.close()


def test_shared_memory_comes_back_also_where_more_was_in_use() -> None:
    """What is not shared comes back first, and must not take its place."""
    pages = HostPages(SIZE, 2)
    taken = [pages.take(SIZE)[0] for _ in range(4)]
    while taken:
        taken.pop()
    again = [pages.take(SIZE)[0] for _ in range(2)]
    places = [place for memory in again if (place := pages.place_of(memory)) is not None]
    assert sorted(places) == [(0, 0), (1, 0)]
    pages.close()


def test_files_are_closed_also_where_nobody_closes_them() -> None:
    pages = HostPages(SIZE, 2)
    files = [file for file, _ in pages.files]
    assert [os.fstat(file).st_size for file in files] == [SIZE, SIZE]
    del pages
    gc.collect()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_without_shared_memory_there_is_memory_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create")
    pages = HostPages(SIZE, 2)
    memory, _ = pages.take(SIZE)
    assert (len(memory), pages.place_of(memory), pages.files) == (SIZE, None, [])


@pytest.mark.parametrize("shared", [0, 2])
def test_no_more_is_kept_than_there_are_arenas_and_nothing_once_closed(shared: int) -> None:
    pages = HostPages(SIZE, shared)
    taken = [pages.take(SIZE)[0] for _ in range(4)]
    taken.clear()
    assert [pages.take(SIZE)[1] for _ in range(3)] == [False, False, False]  # each goes back at once
    held = [pages.take(SIZE) for _ in range(3)]
    assert [is_new for _, is_new in held] == [False, False, True]
    pages.close()
    held.clear()
    assert pages.take(SIZE)[1]
