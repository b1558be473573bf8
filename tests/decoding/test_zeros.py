"""A clock whose low half is exactly 0 is told from code that did not run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding.decode import decode
from profscope.decoding.decoded import DecodedLaunch
from profscope.instrument_passes.records import CTA_HEADER, LAUNCH_HEADER
from tests.support.programs import BODY, bodies, launches, seen
from tests.support.synth import Branch, Launch, Loop, Node, Program, Return, Scope, Seen, Work, launch

WRAP = 1 << 32


def at_zero(programs: list[Program], pick: int, **options: Any) -> tuple[Launch, int]:
    """The launch in which the clock that is the `pick`-th of those that spans have, in order of time, is a
    multiple of 2^32; and this clock."""
    found = launch(programs, **options)
    clocks = sorted({clock for span in found.happened for clock in (span.start, span.end)})
    start = options["start_clock"] - clocks[pick % len(clocks)] % WRAP + WRAP
    zero = clocks[pick % len(clocks)] // WRAP * WRAP + WRAP
    return launch(programs, **{**options, "start_clock": start}, skip_zero=False), zero


def expected(made: Launch, zero: int) -> tuple[list[Seen], bool]:
    """The spans to be found in a launch one of whose clocks is `zero`, and whether some are missing."""
    kinds = [span.kind for section in made.manifest.sections for span in section.spans]
    base = np.cumsum([0, *(len(section.spans) for section in made.manifest.sections)])

    def is_told(span: Seen) -> bool:
        """Whether it has another clock, or is sure to have run."""
        return span.start != span.end or kinds[base[span.section] + span.span] == "iteration"

    read = [span for span in made.spans if zero in (span.start, span.end)]
    # What one warp reads is one word: of several warps each counts by itself.
    told = {(span.cta, span.warp, span.section) for span in read if is_told(span)}
    missing = [span for span in read if (span.cta, span.warp, span.section) not in told]
    kept = [moved(span, zero) for span in made.spans if span not in missing]
    return sorted(kept, key=repr), bool(missing)


def moved(span: Seen, zero: int) -> Seen:
    """The span with a cycle more where its clock is `zero`."""
    above = None if span.parent is None else moved(span.parent, zero)
    start, end = (clock + (clock == zero) for clock in (span.start, span.end))
    return span._replace(start=start, end=end, parent=above)


def check(made: Launch, zero: int) -> DecodedLaunch:
    decoded = decode(made.buffer, made.manifest)
    spans, some_missing = expected(made, zero)
    assert seen(decoded, made.manifest) == spans
    assert (decoded.unmatched, decoded.dropped) == (0, made.dropped)
    assert len(decoded.anomalies) <= 1
    if some_missing:
        assert "a mark may be missing" in decoded.anomalies[0]
    return decoded


@given(body=bodies, warps=st.integers(1, 3), options=launches, pick=st.integers(0, 500))
def test_any_clock_of_any_program_may_be_zero(
    body: tuple[Node, ...], warps: int, options: dict[str, int], pick: int
) -> None:
    check(*at_zero([Program(body, warps)], pick, **options))


@given(
    body=bodies,
    partition=bodies,
    entries=st.none() | st.integers(1, 20),
    options=launches,
    pick=st.integers(0, 500),
)
def test_any_clock_of_a_warp_specialised_program_may_be_zero(
    body: tuple[Node, ...],
    partition: tuple[Node, ...],
    entries: int | None,
    options: dict[str, int],
    pick: int,
) -> None:
    check(*at_zero([Program(body), Program(partition, 2, 1, entries)], pick, **options))


EVERYTHING = (
    Scope((Work(30),)),
    Branch((True, False), (Scope((Work(5),)),), (Scope((Work(6),)),)),
    Loop((20,), (Scope((Work(9),)), Branch((False, True), (Work(3), Scope((Work(4),)))))),
    Return((False, True)),
    *BODY,
)


def test_each_clock_of_a_program_in_turn() -> None:
    options: dict[str, int] = {"ctas": 2, "start_clock": 5 << 30}
    clocks = {clock for span in launch([Program(EVERYTHING)], **options).happened for clock in span[5:7]}
    assert len(clocks) > 100
    for pick in range(len(clocks)):
        made, zero = at_zero([Program(EVERYTHING)], pick, **options)
        decoded = check(made, zero)
        assert decoded.anomalies == ()
        if any(zero in (span.start, span.end) for span in made.spans):
            assert decoded.records == made.records + 1  # the word that is there all the same


def test_a_mark_is_missed_with_a_note_and_not_silently() -> None:
    mark = Scope()  # begin and end share a clock
    made, zero = at_zero([Program((Work(5), mark, Work(5), *BODY))], 1, start_clock=5 << 30)
    assert [span for span in made.spans if span.start == zero] != []
    decoded = check(made, zero)
    assert len(decoded.span) == len(made.spans) - 1
    (said,) = decoded.anomalies
    assert said.startswith("in 1 warps of kernel made_up a mark may be missing")


def test_code_that_did_not_run_stays_that_where_the_clock_wraps() -> None:
    """The wrap falls into the time between two records, with a branch that was not taken between them."""
    skipped = Branch((False,), (Scope((Work(5),)), Loop((3,), BODY)))
    made = launch([Program((Scope((Work(9),)), skipped, *BODY))], start_clock=5 << 30)
    first = made.spans[1].end
    again = launch([Program((Scope((Work(9),)), skipped, *BODY))], start_clock=(5 << 30) - first % WRAP - 1)
    assert again.spans[1].end % WRAP == WRAP - 1
    decoded = check(again, -1)
    assert decoded.anomalies == ()
    assert len(decoded.span) == len(again.spans)


def test_a_mark_that_did_not_run_is_not_doubted_if_the_clock_wraps_before_the_clock_in_front_of_it() -> None:
    mark = Branch((False,), (Scope(),))
    made = launch([Program((Scope((Work(9),)), mark, *BODY))], start_clock=(7 << 32) + 100)
    assert check(made, -1).anomalies == ()


@pytest.mark.parametrize("start", [5 << 30, (7 << 32) + (1 << 25)])
def test_where_no_clock_wraps_a_span_without_end_is_left_out(start: int) -> None:
    made = launch([Program(BODY)], start_clock=start)
    words = made.buffer.view("<u4")
    last = made.manifest.sections[0].spans[1].ends[0]
    words[(LAUNCH_HEADER.itemsize + CTA_HEADER.itemsize) // 4 + last] = 0
    assert decode(made.buffer, made.manifest).unmatched == 1


def test_a_buffer_is_not_written_to() -> None:
    made, zero = at_zero([Program(BODY)], 1, start_clock=5 << 30)
    made.buffer.flags.writeable = False
    check(made, zero)
