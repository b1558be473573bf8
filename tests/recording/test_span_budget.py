"""Spans beside sums are bounded: first fewer CTAs, then fewer launches."""

from __future__ import annotations

import itertools

import pytest

import profscope
from profscope.recording import routes
from profscope.recording.programs import PROGRAMS
from profscope.recording.span_budget import MOST_CTAS, SpanBudget
from tests.support.sessions import count, launch_add, session

SIZE, LIMIT = 1000, 160_000


def kept(turns: int) -> tuple[SpanBudget, list[int]]:
    """Of so many launches of one configuration, each of SIZE bytes, those that keep spans."""
    spans, due = SpanBudget(LIMIT), []
    for turn in range(turns):
        if spans.is_due(turn):
            due.append(turn)
            spans.add(SIZE)
    return spans, due


def test_launches_keep_spans_ever_more_rarely_and_never_more_than_the_limit() -> None:
    spans, due = kept(100_000)
    assert due[:80] == list(range(80))  # half of the limit
    steps = [after - before for before, after in itertools.pairwise(due)]
    assert steps == sorted(steps)
    assert steps[-1] == 128  # each sixteenth of the limit doubled it
    assert spans.bytes == LIMIT
    assert spans.is_due(0)  # another configuration's first launch
    assert not spans.is_due(1 << 20)


def test_from_the_half_on_launches_keep_fewer_ctas() -> None:
    spans = SpanBudget(LIMIT)
    assert not spans.add(LIMIT // 2)
    assert spans.most_ctas is None
    assert spans.notes(0) == []
    assert spans.add(1)
    assert spans.most_ctas == MOST_CTAS
    assert not spans.add(1)


class _Small(SpanBudget):
    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes >> 11)  # of a MiB 512 bytes


def test_a_session_keeps_to_it_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "SpanBudget", _Small)
    with session(keep="sums", spans_every=1, spans_memory=64) as prof:
        for _ in range(3):
            count(3, ctas=1000)
        launch_add()  # the first of its kernel
    launches = prof.launches
    spans = launches[launches["keeps"] == "spans"]
    assert spans[["kernel", "ctas"]].to_numpy().tolist() == [["count_kernel", 1000], ["add_kernel", 3]]
    assert launches["keeps"].tolist() == ["spans", "sums", "sums", "spans"]
    (note,) = (note for note in prof.metadata["notes"] if "spans_memory" in note)
    assert note.endswith("those of at most 256 of their CTAs, and 2 more that were to do so keep sums")
    counts = prof.metadata["keeping"]["kernels"]["count_kernel"]
    assert counts == {"spans": 1, "sums": 2}
    kernel = prof.summary().query("kind == 'kernel' and kernel == 'count_kernel'").iloc[0]
    assert kernel["count"] == 3 * 1000
    assert prof.profile.validate() == []


def test_a_large_grid_keeps_the_spans_of_some_ctas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "SpanBudget", _Small)
    with session(keep="sums", spans_every=1, spans_memory=64) as prof:
        launch_add()
        launch_add()
        prof._parts().recorder.routes.spans.bytes = 20 << 10  # type: ignore[union-attr]
        count(3, ctas=1000)
    assert prof.launches.query("kernel == 'count_kernel'")["ctas"].tolist() == [250]
    assert prof.summary().query("kind == 'kernel' and kernel == 'count_kernel'").iloc[0]["count"] == 1000


def test_it_is_no_option_of_sessions_that_keep_all_spans() -> None:
    with pytest.raises(profscope.OptionError, match="add keep='sums', or leave spans_memory= out"):
        profscope.session(spans_memory=8)


@pytest.mark.parametrize("keep", ["spans", "sums"])
def test_programs_that_share_a_tag_keep_no_rings_that_were_a_guess(
    keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of 50 programs share one as often as not. The first launch of one with a loop gets long rings."""
    of_tag = PROGRAMS.tagged
    monkeypatch.setattr(PROGRAMS, "tagged", lambda tag: of_tag(tag) * 2)
    with session(keep=keep) as prof:
        for _ in range(3):
            count(3, ctas=100)
    assert prof.launches["profile_bytes"].max() < 1 << 18
    assert not [note for note in prof.metadata["notes"] if "spans_memory" in note]
    assert prof.df.query("kind == 'kernel'").groupby("launch")["cta"].nunique().eq(100).all()
    assert prof.profile.validate() == []
