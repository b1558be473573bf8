"""Time in flight by two registers: against queues of groups, simulated in plain Python."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from instrument_passes.analyses.walk import kernel_of, loop_body
from instrument_passes.attributes import SpanAttributes
from instrument_passes.dialect import BEGIN, attributes_of, record_id
from instrument_passes.ir import Block, parse
from instrument_passes.lowering.flights import find_flights
from tests.support.examples import examples
from tests.support.made_up_kernels import Group, Kernel, Node, Repeat, Side, While, text_of

COPIES = Group(("member", "close")), Group(("member", "member", "close"))
WAITS = Group(("wait",)), Group(("wait 1",)), Group(("wait 2",))
ISSUES = (Group(("issue",)),)
LOADS = Group(("open", "member", "member")), Group(("open", "member")), Group(("phase",))
CHANNELS = ((*COPIES, *WAITS), (*ISSUES, *WAITS), LOADS[:1] + LOADS[2:], LOADS)


def nests(leaves: tuple[Group, ...]) -> st.SearchStrategy[Kernel]:
    def bodies(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[Node, ...]]:
        return st.lists(nodes, min_size=1, max_size=4).map(tuple)

    nodes = st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            st.builds(Repeat, bodies(inner)),
            st.builds(While, bodies(inner)),
            st.builds(Side, bodies(inner), st.none() | bodies(inner)),
        ),
        max_leaves=8,
    )
    return st.builds(Kernel, bodies(nodes))


def executed(block: Block, noise: random.Random) -> Iterator[tuple[int, SpanAttributes]]:
    """The records of a block as they come, where loops run and branches go by chance."""
    for op in block.ops:
        if op.name == BEGIN:
            yield record_id(op), attributes_of(op)
        elif op.name in ("scf.for", "scf.while"):
            for _ in range(noise.randrange(4)):
                yield from executed(loop_body(op), noise)
        elif op.name == "scf.if":
            taken = noise.randrange(2)
            if taken < len(op.regions):
                yield from executed(op.regions[taken].entry, noise)


def simulated(events: list[tuple[int, SpanAttributes]]) -> Counter[int]:
    """By start the time in flight of what was waited for; the n-th event begins at 10 n and ends 5 later."""
    flying: deque[list[tuple[int, int]]] = deque()
    open_group: list[tuple[int, int]] = []
    lasted: Counter[int] = Counter()

    def land(now: int) -> None:
        for span, start in flying.popleft():
            lasted[span] += now - start

    for number, (span, said) in enumerate(events):
        start = span, 10 * number
        if said.part == "issue":
            flying.append([start])
        elif said.part == "open":
            flying.append([])
        elif said.part == "member":
            (flying[-1] if any(one.part == "open" for _, one in events) else open_group).append(start)
        elif said.part == "close":
            flying.append(open_group)
            open_group = []
        elif said.part == "wait":
            while len(flying) > said.pending:
                land(10 * number + 5)
        elif said.part == "phase":
            assume(flying)  # else it would wait for ever
            land(10 * number + 5)
    assume(not flying and not open_group)  # what is left is left out
    return lasted


@pytest.mark.exhaustive
@settings(max_examples=examples(30))
@given(st.sampled_from(CHANNELS).flatmap(nests), st.randoms(use_true_random=False))
def test_two_registers_tell_the_time_in_flight(kernel: Kernel, noise: random.Random) -> None:
    drain = Group(()) if "phase" in str(kernel) else WAITS[0]
    module = parse(text_of(Kernel((*kernel.body, drain))), "made_up.ttgir")
    region = kernel_of(module).regions[0]
    (flights,) = find_flights([region], {})
    events = list(executed(region.entry, noise))
    assume(events)
    expected = simulated(events)
    total: Counter[int] = Counter()
    left: Counter[int] = Counter()
    for number, (span, _) in enumerate(events):
        if span in flights.started:
            flight = flights.flights.index(flights.started[span])
            total[flight] -= 10 * number
            left[flight] += 1
            most = flights.flights[flight].most
            assert not most or left[flight] <= most
        for landing in flights.landed.get(span, ()):
            flight = flights.flights.index(landing.flight)
            least = min(left[flight], landing.number)
            ended = least if landing.each else left[flight] - least
            total[flight] += ended * (10 * number + 5)
            left[flight] -= ended
    event("kept" if flights.flights else "refused" if flights.notes else "nothing to keep")
    assert not any(left.values())
    for number, flight_of in enumerate(flights.flights):
        assert total[number] == sum(expected[span] for span in flight_of.starts)
