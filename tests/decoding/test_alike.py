"""Launches that are alike, put together: the same launches come out, whatever they were put together from."""

from __future__ import annotations

from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.decoding.alike import Alike, alike, united
from profscope.decoding.raw import ORDINARY, Mark, RawLaunch
from profscope.recording.grouping import Group, grouped
from tests.support.examples import examples
from tests.support.synth.sums import site, sum_manifest

MANIFESTS = [sum_manifest([[site()]], kernel=name) for name in ("one", "other")]
MARKS = (ORDINARY, Mark(trial=True), Mark(graph=1, replay=2))

launches = st.lists(
    st.tuples(
        st.sampled_from(MANIFESTS), st.sampled_from([3, 8, 64]), st.sampled_from(MARKS), st.integers(0, 2)
    ),
    max_size=12,
)


def raw_launches(drawn: list[tuple[object, int, Mark, int]]) -> list[RawLaunch]:
    noise = np.random.default_rng(len(drawn))
    return [
        RawLaunch(index, manifest, 0, stream, size, noise.integers(0, 255, size).astype(np.uint8), mark)
        for index, (manifest, size, mark, stream) in enumerate(drawn)
    ]  # type: ignore[arg-type]


def one_by_one(groups: list[Alike]) -> list[tuple[object, ...]]:
    """In the order of their numbers, and comparable."""
    raws = sorted((raw for group in groups for raw in group.launches()), key=lambda raw: raw.index)
    return [seen(raw) for raw in raws]


def seen(raw: RawLaunch) -> tuple[object, ...]:
    return raw.index, id(raw.manifest), raw.stream, raw.ctas, raw.mark, raw.buffer.tobytes()


@settings(max_examples=examples(40))
@given(launches, st.integers(1, 200), st.integers(0, 12))
def test_what_goes_in_comes_out(drawn: list[tuple[object, int, Mark, int]], limit: int, cut: int) -> None:
    raws = raw_launches(drawn)
    groups = united([*alike(raws[:cut]), *alike(raws[cut:])])
    assert one_by_one(groups) == [seen(raw) for raw in raws]
    assert len({(id(group.manifest), group.size, group.trial) for group in groups}) == len(groups)
    parts = [part for group in groups for part in group.parts(limit)]
    assert one_by_one(parts) == [seen(raw) for raw in raws]
    assert all(len(part) == 1 or len(part) * part.size <= limit for part in parts)
    odd = [part for group in groups for part in [group.where(group.indices % 2 == 1)] if len(part)]
    assert one_by_one(odd) == [seen(raw) for raw in raws if raw.index % 2]


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.sampled_from(MARKS)), min_size=1
    )
)
def test_entries_of_a_log_are_grouped_by_all_that_they_share(
    drawn: list[tuple[int, int, int, Mark]],
) -> None:
    things = [[object() for _ in range(3)] for _ in range(3)]
    offsets = count(0, 32)
    entries = [
        (things[0][program], things[1][route], things[2][filling], next(offsets), mark)
        for program, route, filling, mark in drawn
    ]
    groups = list(grouped(entries, 100))
    back = sorted((index, *rest) for group in groups for index, *rest in rows(group))
    assert back == [(100 + at, *map(id, entry[:3]), *entry[3:]) for at, entry in enumerate(entries)]
    kinds = {
        (id(group.program), id(group.route), id(group.filling), group.marks[0].trial) for group in groups
    }
    assert len(kinds) == len(groups)
    assert all(len({mark.trial for mark in group.marks}) == 1 for group in groups)


def rows(group: Group) -> list[tuple[object, ...]]:
    shared = id(group.program), id(group.route), id(group.filling)
    each = zip(group.indices.tolist(), group.offsets.tolist(), group.marks, strict=True)
    return [(index, *shared, offset, mark) for index, offset, mark in each]


def test_rows_of_words_and_of_bytes_are_the_same() -> None:
    """Buffers that begin at odd addresses are copied by another way than those that do not."""
    memory = np.arange(4096, dtype=np.uint64).view(np.uint8)
    for offsets in ([0, 64, 320], [1, 64, 321]):
        group = Alike(
            MANIFESTS[0], None, 0, 1, 48, np.arange(3), np.zeros(3, np.int64), [ORDINARY] * 3,
            [(memory, np.array(offsets))],
        )  # fmt: skip
        assert [row.tolist() for row in group.buffers()] == [memory[at : at + 48].tolist() for at in offsets]
