"""Rows and lines of two profiles that are one another's, through edits, moves and calls."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.comparing.places import Lines, aligned, matched

KERNEL = """\
@triton.jit
def kernel(a_ptr):
    a = tl.load(a_ptr)
    b = helper(a)
    for k in range(4):
        b += helper(b)
    tl.store(a_ptr, b)
"""
HELPER = """\
@triton.jit
def helper(x):
    return tl.load(x)
"""


def source(name: str, text: str, line: int, file: str = "/one/work.py") -> dict[str, Any]:
    return {"name": name, "file": file, "line": line, "text": text}


BEFORE = [source("kernel", KERNEL, 10), source("helper", HELPER, 1)]
# A line more in the kernel, the helper behind it, and all of it in another file.
AFTER = [
    source("kernel", KERNEL.replace("    b =", "    # now\n    b ="), 30, "/two/new.py"),
    source("helper", HELPER, 50, "/two/new.py"),
]


def places(*rows: tuple[str, str, str, int, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["scope", "kind", "file", "line", "call_path"])


def test_rows_are_found_in_another_file() -> None:
    a = places(
        ("kernel", "kernel", "/one/work.py", 11, ""),
        ("load a", "op", "/one/work.py", 12, ""),
        ("load x", "op", "/one/work.py", 13, "kernel work.py:13 > helper work.py:3"),
        ("load x", "op", "/one/work.py", 15, "kernel work.py:15 > helper work.py:3"),
        ("loop L14", "loop", "/one/work.py", 14, ""),
        ("store", "op", "/one/work.py", 16, ""),
    )
    b = places(
        ("loop L35", "loop", "/cached/new.py", 35, ""),  # the folder of when it was compiled
        ("load x", "op", "/cached/new.py", 36, "kernel new.py:36 > helper new.py:52"),
        ("load x", "op", "/cached/new.py", 34, "kernel new.py:34 > helper new.py:52"),
        ("load a", "op", "/cached/new.py", 32, ""),
        ("kernel", "kernel", "/cached/new.py", 31, ""),
        ("store masked", "op", "/cached/new.py", 37, ""),
    )
    assert sorted(matched(a, b, Lines(BEFORE, AFTER)), key=str) == sorted(
        [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0), (5, None), (None, 5)], key=str
    )


def test_of_what_is_left_those_that_are_alone_go_together() -> None:
    """A call that stands in another column, or goes through another function, now."""
    a = places(
        ("load x", "op", "w.py", 13, "kernel w.py:13:4 > helper w.py:3"), ("dot", "op", "w.py", 14, "f")
    )
    b = places(
        ("load x", "op", "w.py", 13, "kernel w.py:13:9 > helper w.py:3"), ("dot", "op", "w.py", 14, "g")
    )
    assert matched(a, b, Lines([], [])) == [(0, 0), (1, 1)]
    twice = pd.concat([b, b.assign(call_path=["x", "y"])], ignore_index=True)
    assert matched(a, twice, Lines([], [])) == [(0, None), (1, None), *((None, at) for at in range(4))]


def test_a_line_that_has_gone_is_not_the_one_in_its_place() -> None:
    after = [source("kernel", KERNEL.replace("    a = tl.load(a_ptr)\n", ""), 10)]
    row = ("load", "op", "/one/work.py", 12, "")
    assert matched(places(row), places(row), Lines(BEFORE, after)) == [(0, None), (None, 0)]


def test_of_several_texts_of_a_name_equal_ones_go_together() -> None:
    edited = source("kernel", KERNEL.replace("range(4)", "range(8)"), 100)
    lines = Lines([edited, BEFORE[0]], [source("kernel", KERNEL, 210), source("kernel", edited["text"], 300)])
    assert lines.place("work.py", 12) == ("work.py", 212)
    assert lines.place("work.py", 102) == ("work.py", 302)
    assert lines.place("other.py", 7) == ("other.py", 7)


# Which line of a text is which after an edit.

TEXT = """\
def kernel(a_ptr, b_ptr, n):
    pid = tl.program_id(0)
    acc = tl.zeros((64,), tl.float32)
    for k in range(n):
        a = tl.load(a_ptr + k)
        b = tl.load(b_ptr + k)
        acc += a * b
        tl.debug_barrier()
    tl.store(c_ptr, acc)
    tl.debug_barrier()
""".splitlines()
LINES = st.lists(st.sampled_from(TEXT) | st.text(max_size=6), max_size=12)


EDITS: dict[str, tuple[list[str], list[int | None]]] = {
    "lines below an insertion have moved": ([*TEXT[:2], "    x = 1", "", *TEXT[2:]], [0, 1, *range(4, 12)]),
    "equal lines are told apart by order": (
        [*TEXT[:4], "        # why", *TEXT[4:]],
        [*range(4), *range(5, 11)],
    ),
    "indentation does not count": (
        [*TEXT[:3], "    if n > 0:", *(f"    {line}" for line in TEXT[3:8]), *TEXT[8:]],
        [0, 1, 2, *range(4, 11)],
    ),
    "an edited line is the one in its place": (
        [line.replace("a_ptr + k", "a_ptr + k, mask=k < n") for line in TEXT],
        [*range(10)],
    ),
    "a line that stands elsewhere is found": (
        [*TEXT[:4], TEXT[5], TEXT[6], TEXT[4], *TEXT[7:]],
        [0, 1, 2, 3, 6, 4, 5, 7, 8, 9],
    ),
    "what has gone has no line": ([*TEXT[:5], *TEXT[6:]], [0, 1, 2, 3, 4, None, 5, 6, 7, 8]),
    "of nothing": ([], [None] * 10),
}


@pytest.mark.parametrize("shown", EDITS)
def test_lines_after_an_edit(shown: str) -> None:
    after, expected = EDITS[shown]
    assert aligned(TEXT, after) == expected


@given(LINES, LINES)
def test_each_line_is_one_line_at_most(before: list[str], after: list[str]) -> None:
    result = aligned(before, after)
    assert len(result) == len(before)
    lines = [at for at in result if at is not None]
    assert len(set(lines)) == len(lines)
    assert set(lines) <= set(range(len(after)))


@given(LINES, LINES, LINES)
def test_of_what_was_not_touched_nothing_is_lost(head: list[str], tail: list[str], more: list[str]) -> None:
    """Lines that nothing else reads like keep theirs, whatever is put between them."""
    head = [f"head {at} {line}" for at, line in enumerate(head)]
    tail = [f"tail {at} {line}" for at, line in enumerate(tail)]
    shift = len(head) + len(more)
    expected = [*range(len(head)), *range(shift, shift + len(tail))]
    assert aligned([*head, *tail], [*head, *more, *tail]) == expected
