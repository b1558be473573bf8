"""Memory of the host is used again once nobody holds what was in it, and not before."""

from __future__ import annotations

import numpy as np

from profscope.recording.host_pages import HostPages

SIZE = 5000


def address(memory: np.ndarray) -> int:
    return int(memory.ctypes.data)


def test_what_a_view_holds_is_not_used_again() -> None:
    pages = HostPages(SIZE)
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


def test_no_more_is_kept_than_there_are_arenas_and_nothing_once_closed() -> None:
    pages = HostPages(SIZE)
    taken = [pages.take(SIZE)[0] for _ in range(4)]
    taken.clear()
    assert [pages.take(SIZE)[1] for _ in range(3)] == [False, False, False]  # each goes back at once
    held = [pages.take(SIZE) for _ in range(3)]
    assert [is_new for _, is_new in held] == [False, False, True]
    pages.close()
    held.clear()
    assert pages.take(SIZE)[1]
