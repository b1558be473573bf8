"""Lines are found again after an edit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.comparing.places import aligned

KERNEL = """\
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
LINES = st.lists(st.sampled_from(KERNEL) | st.text(max_size=6), max_size=12)


def test_lines_below_an_insertion_have_moved() -> None:
    after = [*KERNEL[:2], "    x = 1", "", *KERNEL[2:]]
    assert aligned(KERNEL, after) == [0, 1, *range(4, 12)]


def test_equal_lines_are_told_apart_by_order() -> None:
    after = [*KERNEL[:4], "        # why", *KERNEL[4:]]
    assert aligned(KERNEL, after)[-3:] == [8, 9, 10]  # the two barriers around the store


def test_indentation_does_not_count() -> None:
    after = [*KERNEL[:3], "    if n > 0:", *(f"    {line}" for line in KERNEL[3:8]), *KERNEL[8:]]
    assert aligned(KERNEL, after) == [0, 1, 2, *range(4, 11)]


def test_an_edited_line_is_the_one_in_its_place() -> None:
    after = [line.replace("a_ptr + k", "a_ptr + k, mask=k < n") for line in KERNEL]
    assert aligned(KERNEL, after) == list(range(10))


def test_a_line_that_stands_elsewhere_is_found() -> None:
    after = [*KERNEL[:4], KERNEL[5], KERNEL[6], KERNEL[4], *KERNEL[7:]]
    assert aligned(KERNEL, after) == [0, 1, 2, 3, 6, 4, 5, 7, 8, 9]


def test_what_has_gone_has_no_line() -> None:
    after = [*KERNEL[:5], *KERNEL[6:]]
    assert aligned(KERNEL, after) == [0, 1, 2, 3, 4, None, 5, 6, 7, 8]
    assert aligned(KERNEL, []) == [None] * 10


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


@given(LINES)
def test_a_text_is_itself(lines: list[str]) -> None:
    assert aligned(lines, lines) == list(range(len(lines)))
