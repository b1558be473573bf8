"""What rings overwrote is a span of its own, and nobody else's time."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.spans.rows import self_times
from profscope.analysis.summary import summary
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.decoding.decode import decode
from profscope.schema import Tables
from tests.support.programs import bodies, gaps, launches, nodes, seen
from tests.support.synth import Branch, Launch, Loop, Node, Program, Scope, Seen, Work, launch
from tests.support.validation import validate


def check(made: Launch) -> None:
    """Gaps are all of the time that no record covers, and nothing else."""
    decoded = decode(made.buffer, made.manifest)
    kept, missing = set(made.spans), gaps(decoded, made.manifest)
    assert seen(decoded, made.manifest) == sorted(kept, key=repr)
    inside: dict[Seen, list[Seen]] = defaultdict(list)
    for gap in missing:
        assert gap.parent is not None
        inside[gap.parent].append(gap)
    happened: dict[Seen, list[Seen]] = defaultdict(list)
    for span in made.happened:
        if span.parent is not None:
            happened[span.parent].append(span)
    for span in kept:
        of_span = [child for child in happened[span] if child in kept]
        lost = [child for child in happened[span] if child not in kept]
        for child in lost:
            assert any(gap.start <= child.start and child.end <= gap.end for gap in inside[span])
        # A gap lasts from one record to the next.
        for gap in inside[span]:
            assert gap.start in {span.start, *(child.end for child in of_span)}
            assert gap.end in {span.end, *(child.start for child in of_span)}
            assert (gap.iteration, gap.depth) == (span.iteration, span.depth + 1)
        own = _duration(span) - sum(map(_duration, [*of_span, *inside[span]]))
        true = _duration(span) - sum(map(_duration, happened[span]))
        assert own == true if not inside[span] else 0 <= own <= true


def _duration(span: Seen) -> int:
    return span.end - span.start


def tables(made: Launch) -> Tables:
    ctas = decode(made.buffer, made.manifest).grid_x
    return assemble([RawLaunch(0, made.manifest, 0, 0, ctas, made.buffer)], {"backend": "gpu"})


@given(body=bodies, warps=st.integers(1, 3), options=launches)
def test_gaps_of_any_program(body: tuple[Node, ...], warps: int, options: dict[str, int]) -> None:
    check(launch([Program(body, warps)], **options))


@given(body=bodies, partition=bodies, entries=st.none() | st.integers(0, 20), options=launches)
def test_gaps_of_any_warp_specialised_program(
    body: tuple[Node, ...], partition: tuple[Node, ...], entries: int | None, options: dict[str, int]
) -> None:
    check(launch([Program(body), Program(partition, 2, 1, entries)], **options))


@given(inner=st.lists(nodes, max_size=2).map(tuple), body=bodies, warps=st.integers(1, 3), options=launches)
def test_self_times_add_up_to_the_warps_time(
    inner: tuple[Node, ...], body: tuple[Node, ...], warps: int, options: dict[str, int]
) -> None:
    every_cta = options | {"stride_log2": 0}  # or the summary would scale up what was recorded
    made = launch([Program((Loop((40, 3), inner), *body), warps)], **every_cta)
    found = tables(made)
    assert validate(found) == []
    own = self_times(found.df, "duration_cycles")
    assert (own >= 0).all()
    roots = sum(_duration(span) for span in made.happened if span.parent is None)
    assert own.sum() == roots
    assert summary(found)["self_cycles"].sum() == roots


LONG = Loop((100,), (Scope((Work(500),)), Work(3)))


def test_a_loop_that_lost_most_of_its_iterations_is_not_charged_for_them() -> None:
    made = launch([Program((Work(50), LONG, Scope((Work(70),))))], ring_log2=4)
    rows = summary(tables(made)).set_index("kind")
    true = dict.fromkeys(("kernel", "loop", "iteration", "op"), 0)
    kinds = {span.id: span.kind for span in made.manifest.sections[0].spans}
    inside: dict[Seen | None, int] = defaultdict(int)
    for span in made.happened:
        inside[span.parent] += _duration(span)
    for span in made.happened:
        true[kinds[span.span]] += _duration(span) - inside[span]
    warp = int(rows.loc["kernel", "total_cycles"])
    assert rows.loc["loop", "self_cycles"] <= true["loop"] < 0.01 * warp
    assert rows.loc["kernel", "self_cycles"] == true["kernel"]
    gap = rows.loc["gap"]
    assert (gap["scope"], gap["count"], gap["line"]) == ("not recorded", 1, rows.loc["loop", "line"])
    assert gap["self_cycles"] == pytest.approx(0.84 * rows.loc["loop", "total_cycles"], rel=0.02)
    assert gap["share"] > 0.8


def test_outer_iterations_and_inner_loops_that_are_gone() -> None:
    """Of 30 outer iterations the ring keeps 16; of their 120 inner ones 16, those of the last four."""
    inner = Loop((4,), (Scope((Work(30),)),))
    made = launch([Program((Loop((30,), (Work(5), inner)),))], ring_log2=4)
    check(made)
    found = gaps(decode(made.buffer, made.manifest), made.manifest)
    assert [gap.iteration for gap in found] == [-1, *range(14, 26)]
    for gap in found[1:]:  # the whole of the loop
        assert gap.parent is not None
        assert (gap.start, gap.end) == (gap.parent.start, gap.parent.end)


def test_loops_without_spans_share_a_gap_up_to_the_next_record() -> None:
    """Time that is not recorded belongs to what is around the loops, as far as it is that."""
    plain = Loop((50,), (Scope((Work(20),)),), span=False)
    made = launch([Program((Scope((Work(9),)), plain, Branch((False,), (plain,)), Scope((Work(9),))))])
    check(made)
    (gap,) = gaps(decode(made.buffer, made.manifest), made.manifest)
    assert gap.start == made.spans[1].end
