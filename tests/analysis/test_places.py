"""Rows of two profiles that are one another's, through edits, moves and calls."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profscope.analysis.comparing.places import Lines, matched

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
