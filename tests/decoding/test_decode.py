"""Decoding: exactly the spans that ran, whatever the program, and clear errors for what is no such buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.decoding import columns, shapes
from profscope.decoding.areas import CTA
from profscope.decoding.decode import decode, ring_rows
from profscope.decoding.decoded import DecodedLaunch, time_order
from profscope.errors import RecordError
from profscope.instrument_passes.records import CTA_HEADER, LAUNCH_HEADER
from tests.support.examples import examples
from tests.support.programs import BODY, bodies, launches, seen
from tests.support.synth import Launch, Loop, Node, Program, Scope, Work, launch


def check(made: Launch) -> DecodedLaunch:
    decoded = decode(made.buffer, made.manifest)
    assert seen(decoded, made.manifest) == sorted(made.spans, key=repr)
    assert (decoded.records, decoded.dropped, decoded.unmatched) == (made.records, made.dropped, 0)
    assert decoded.anomalies == ()
    order = np.lexsort((decoded.start_cycle, decoded.warp, decoded.cta))  # stable
    assert (order == np.arange(len(decoded.span))).all()
    return decoded


# Whole programs.


@settings(max_examples=examples(150))
@given(body=bodies, warps=st.integers(1, 3), options=launches)
def test_any_program(body: tuple[Node, ...], warps: int, options: dict[str, int]) -> None:
    check(launch([Program(body, warps)], **options))


@given(
    body=bodies,
    partitions=st.lists(
        st.builds(
            Program,
            bodies,
            st.integers(1, 2),
            st.integers(1, 2),
            st.none() | st.integers(0, 20),
        ),
        max_size=3,
    ),
    options=launches,
)
def test_any_warp_specialised_program(
    body: tuple[Node, ...], partitions: list[Program], options: dict[str, int]
) -> None:
    partitions.sort(key=lambda program: program.group)
    groups = sorted({program.group for program in partitions})
    renumbered = [replace(p, group=groups.index(p.group) + 1) for p in partitions]
    check(launch([Program(body, 2), *renumbered], **options))


@settings(max_examples=examples(100))
@given(
    body=bodies,
    warps=st.integers(1, 3),
    options=launches,
    block=st.integers(1, 40),
    alike=st.sampled_from([1, 10, 8192]),
    short=st.sampled_from([0, 3, 100]),
)
def test_any_program_in_blocks_of_any_size(
    body: tuple[Node, ...], warps: int, options: dict[str, int], block: int, alike: int, short: int
) -> None:
    """Blocks and how warps are put together change the speed and nothing else."""
    made = launch([Program(body, warps), Program(BODY, 1, 1)], **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "BLOCK_WORDS", 8 * block)
        patch.setattr(columns, "BLOCK_SPANS", block)
        patch.setattr(columns, "MIN_ALIKE_SPANS", alike)
        patch.setattr(columns, "SHORT_PATTERN", short)
        check(made)


@settings(max_examples=examples(25))  # each makes up as many launches as it has CTAs
@given(trips=st.lists(st.integers(9, 40), min_size=2, max_size=4), ring_log2=st.integers(4, 5))
def test_ctas_of_one_launch_may_loop_differently(trips: list[int], ring_log2: int) -> None:
    """Those that lost rows beside those that did not, each with the spans that it has alone."""
    made = [
        launch(
            [Program((Loop((n,), (Scope(), Loop((1, 3), BODY))), *BODY), 2)], len(trips), ring_log2=ring_log2
        )
        for n in trips
    ]
    manifest = made[0].manifest
    assert all(each.manifest == manifest for each in made)
    begin = LAUNCH_HEADER.itemsize
    areas = [each.buffer[begin:].reshape(len(trips), -1)[cta] for cta, each in enumerate(made)]
    expected = [span for cta, each in enumerate(made) for span in each.spans if span.cta == cta]
    buffer = np.concatenate([made[0].buffer[:begin], *areas])
    decoded = decode(buffer, manifest)
    assert seen(decoded, manifest) == sorted(expected, key=repr)
    assert ring_rows(buffer, manifest) >= max(trips)


def test_a_partition_that_is_entered_often_keeps_its_newest_entries() -> None:
    partition = Program((Loop((2, 0, 1), (Scope(),)),), 2, 1, 20)
    decoded = check(launch([Program(BODY), partition], ring_log2=4))
    roots = decoded.depth == 0
    for warp in (1, 2):
        assert decoded.iteration[roots & (decoded.warp == warp)].tolist() == list(range(4, 20))
    assert decoded.dropped > 0


@given(before=st.integers(0, 1 << 20), cycles=st.integers(1, 2 * columns.WRAP_NS - (1 << 26)))
def test_the_low_half_of_the_clock_may_wrap_inside_a_cta(before: int, cycles: int) -> None:
    body = (Scope((Work(cycles),)), *BODY)
    made = launch([Program(body)], start_clock=(7 << 32) - before)
    decoded = check(made)
    assert int(decoded.end_cycle.max() - decoded.start_cycle.min()) >= cycles


def test_a_cta_of_more_than_2_32_cycles_is_reported() -> None:
    made = launch([Program((Scope((Work(1 << 32),)),))])
    (said,) = decode(made.buffer, made.manifest).anomalies
    assert "more than 2^32 cycles" in said


def test_a_wrapped_ring_keeps_the_newest_iterations_in_order() -> None:
    made = launch([Program((Loop((100,), BODY),))], ring_log2=4)
    decoded = check(made)
    iterations = decoded.iteration[np.argsort(decoded.start_cycle, kind="stable")]
    assert sorted(set(iterations.tolist())) == [-1, *range(84, 100)]
    assert decoded.dropped == 84 * 3  # clocks per iteration: its begin, a scope's begin and end
    assert ring_rows(made.buffer, made.manifest) == 100


@pytest.mark.parametrize("of_begin", [False, True])
def test_a_span_with_one_clock_is_counted_and_left_out(of_begin: bool) -> None:
    made = launch([Program(BODY)], start_clock=5 << 30)
    span = made.manifest.sections[0].spans[1]
    _words(made)[span.begin if of_begin else span.ends[0]] = 0
    decoded = decode(made.buffer, made.manifest)
    assert decoded.unmatched == 1
    assert len(decoded.span) == len(made.spans) - 1


def test_an_iteration_whose_clock_read_zero_leaves_the_others_as_they_are() -> None:
    """Without its beginning nobody knows the end of the one before, either."""
    made = launch([Program((Loop((4,), (Work(9),)),))])
    section = made.manifest.sections[0]
    (loop,) = (frame for frame in section.frames if frame.parent >= 0)
    (iteration,) = (span for span in section.spans if not span.ends)
    row = made.manifest.start(loop, 4) // 4 + 2 * len(loop.columns)
    _words(made)[row + iteration.begin] = 0
    decoded = decode(made.buffer, made.manifest)
    assert decoded.unmatched == 2
    left_out = [span for span in made.spans if span.iteration in (1, 2)]
    assert seen(decoded, made.manifest) == sorted((s for s in made.spans if s not in left_out), key=repr)


def _words(made: Launch) -> npt.NDArray[np.uint32]:
    """Of the first warp's segment."""
    return made.buffer.view("<u4")[(LAUNCH_HEADER.itemsize + CTA_HEADER.itemsize) // 4 :]


def test_buffers_need_not_be_contiguous() -> None:
    made = launch([Program(BODY)])
    spread = np.zeros((len(made.buffer), 2), np.uint8)
    spread[:, 0] = made.buffer
    assert seen(decode(spread[:, 0], made.manifest), made.manifest) == sorted(made.spans, key=repr)


# Buffers that are none.


def _set(name: str, value: int) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]]:
    def change(buffer: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        changed = buffer.copy()
        begin, header = 0, LAUNCH_HEADER
        if name in (CTA_HEADER.names or ()):
            begin, header = LAUNCH_HEADER.itemsize, CTA_HEADER
        changed[begin : begin + header.itemsize].view(header)[name] = value
        return changed

    return change


def _repeated(buffer: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The first of two CTAs twice."""
    header, areas = np.split(buffer, [LAUNCH_HEADER.itemsize])
    return np.concatenate([header, *[areas[: len(areas) // 2]] * 2])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: b[:0], "truncated profile buffer of kernel made_up: 0 bytes"),
        (lambda b: b[:50], "truncated profile buffer of kernel made_up: 50 bytes"),
        (lambda b: b[:-4], "truncated"),
        (np.zeros_like, "not written by this build of kernel made_up: it carries digest 0x0"),
        (_set("digest", 0xDEAD), "not written by this build of kernel made_up: it carries digest 0xdead"),
        (_set("cta", 3), "damaged profile buffer of kernel made_up: it holds CTA 3 where CTA 0 is due"),
        (_repeated, "it holds CTA 0 where CTA 1 is due"),
    ],
)
def test_what_is_no_such_buffer_is_named(
    change: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]], said: str
) -> None:
    made = launch([Program(BODY)], ctas=2)
    with pytest.raises(RecordError, match=said):
        decode(change(made.buffer), made.manifest)


@given(data=st.binary(max_size=600))
def test_random_bytes_are_refused(data: bytes) -> None:
    made = launch([Program(BODY)])
    with pytest.raises(RecordError):
        decode(np.frombuffer(data, np.uint8), made.manifest)


# The order of the span table.


# (CTA, warp, start), from few values each, so that there are ties.
rows = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1 << 40) | st.integers(0, 3))


def spans_of(spans: list[tuple[int, int, int]]) -> DecodedLaunch:
    cta, warp, start = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    zeros = np.zeros(len(spans), np.int32)
    columns = (zeros, cta.astype(np.int32), warp.astype(np.int32), zeros, start, start + 1)
    return DecodedLaunch(*columns, zeros, zeros - 1, zeros, (), np.zeros(1, CTA), 0, 0, 0)


@given(spans=st.lists(rows, min_size=1, max_size=60), block=st.integers(1, 70), ordered=st.booleans())
def test_spans_are_ordered_by_cta_warp_and_time(
    spans: list[tuple[int, int, int]], block: int, ordered: bool
) -> None:
    found = sorted(spans) if ordered else spans
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profscope.decoding.decoded.BLOCK_SPANS", block)
        order = time_order(spans_of(found))
    assert isinstance(order, slice) == (found == sorted(found))
    positions = np.arange(len(found))  # ties stay as they are
    assert positions[order].tolist() == sorted(positions.tolist(), key=lambda at: found[at])


def test_times_too_far_apart_for_one_key_are_ordered_too() -> None:
    order = time_order(spans_of([(3, 1, 1 << 62), (3, 1, 5), (3, 0, 1 << 61), (0, 1, 7)]))
    assert np.arange(4)[order].tolist() == [3, 2, 1, 0]
