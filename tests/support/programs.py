"""Strategies for programs as `synth` runs them, and what a decoder found in one."""

from __future__ import annotations

from hypothesis import strategies as st

from profscope.decoding.decoded import DecodedLaunch
from profscope.instrument_passes.manifest import Manifest
from tests.support.synth import Branch, Loop, Node, Return, Scope, Seen, Work

BODY = (Work(100), Scope((Work(50),)))

trips = st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple)
conditions = st.lists(st.booleans(), min_size=1, max_size=3).map(tuple)


def _bodies(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[Node, ...]]:
    return st.lists(nodes, max_size=3).map(tuple)


nodes: st.SearchStrategy[Node] = st.recursive(
    st.one_of(
        st.builds(Work, st.integers(1, 5000)),
        st.just(Scope()),
        st.builds(Scope, st.just(()), conditions),
        st.builds(Loop, trips, st.just((Scope(),)), st.booleans(), st.booleans()),
    ),
    lambda inner: st.one_of(
        st.builds(Scope, _bodies(inner)),
        st.builds(Loop, trips, _bodies(inner), st.booleans(), st.booleans()),
        st.builds(Branch, conditions, _bodies(inner), _bodies(inner)),
    ),
    max_leaves=6,
)
bodies = _bodies(nodes | st.builds(Return, conditions))
launches = st.fixed_dictionaries(
    {
        "ctas": st.integers(1, 5),
        "ring_log2": st.integers(0, 4),
        "stride_log2": st.integers(0, 2),
        "start_clock": st.integers(1 << 25, 1 << 62),
        "seed": st.integers(0, 99),
    }
)


def seen(decoded: DecodedLaunch, manifest: Manifest) -> list[Seen]:
    """Every decoded span but gaps, with the spans above it, sorted."""
    return sorted((found for found, is_gap in _all(decoded, manifest) if not is_gap), key=repr)


def gaps(decoded: DecodedLaunch, manifest: Manifest) -> list[Seen]:
    """The spans of what is not recorded; `span` says nothing."""
    return [found for found, is_gap in _all(decoded, manifest) if is_gap]


def _all(decoded: DecodedLaunch, manifest: Manifest) -> list[tuple[Seen, bool]]:
    """Every decoded span, with the spans above it, and whether it is a gap."""
    recorded = iter([(s, span.id) for s, section in enumerate(manifest.sections) for span in section.spans])
    site = [(-1, -1) if site.kind == "gap" else next(recorded) for site in decoded.sites]
    assert not list(recorded)
    found: list[Seen] = []
    columns = (decoded.cta, decoded.warp, decoded.sm, decoded.start_cycle, decoded.end_cycle)
    for index in range(len(decoded.span)):  # a span comes before those in it
        numbers = (int(column[index]) for column in (*columns, decoded.iteration, decoded.depth))
        above = int(decoded.parent[index])
        found.append(Seen(*site[decoded.span[index]], *numbers, None if above < 0 else found[above]))
    return [(each, each.span < 0) for each in found]
