"""Two lowerings, one truth: what sums say of every warp and site is what its spans come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from instrument_passes.dialect import PROBED
from profscope.decoding.areas import header_times, packed_headers
from profscope.emulator.machine.batch import Batch
from tests.support import made_up_kernels as made_up
from tests.support.emulated import CTAS, RING_LOG2, run
from tests.support.made_up_kernels import (
    Call,
    Group,
    Join,
    Kernel,
    Repeat,
    Return,
    Scope,
    Side,
    Specialize,
    Step,
    While,
)
from tests.support.quick import quick
from tests.support.sessions import CASES, same_bits
from tests.support.two_lowerings import (
    counting_clock,
    kept_spans,
    kept_sums,
    numbers_of_spans,
    numbers_of_sums,
    record,
)
from tests.support.warp_sums import read_sums

PASSES = "kernel-span,loop-spans,iteration-spans,op-spans{classes=store},lower-records"
LEAVES = (Scope(on=True), Scope(numbers=("i32", "f32")))
EVERYTHING = Kernel(
    (
        Repeat((Specialize((Step(),), ((While((Step(),)), Side(LEAVES)),)),)),
        Call((Repeat(LEAVES), Return(), Side((Step(),), (Scope(),))), 2),
        Join((Repeat((Step(),), 2),), (Step(),)),
        Return(),
    )
)


@pytest.mark.parametrize(
    "name", quick(CASES, CASES.keys() - {"matmul", "matmul_tma", "attention", "layer_norm", "softmax"})
)
def test_sums_are_those_of_the_spans(name: str) -> None:
    """Counts, sums and the longest, of every warp and site, by a clock that records do not move."""
    with counting_clock():
        spans_out, with_spans = record(CASES[name], instrument="heavy")
        sums_out, with_sums = record(CASES[name], instrument="heavy", keep="sums", spans_every=0)
    assert same_bits(spans_out, sums_out)
    assert len(with_spans) == len(with_sums) > 0
    for spans, sums in zip(with_spans, with_sums, strict=True):
        assert kept_spans(*spans) == kept_sums(*sums)


# An example takes a second, most of it in compilers; what fails is small as it is.
@settings(max_examples=2, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
@given(made_up.kernels)
@example(EVERYTHING)
def test_sums_of_made_up_kernels(kernel: Kernel) -> None:
    with counting_clock():
        spans_out, *spans = run(kernel, f"{PASSES},allocate-buffer")
        sums_out, *sums = run(kernel, f"{PASSES}{{keep=sums}},allocate-buffer")
        chosen_out, *chosen = run(kernel, f"{PASSES}{{keep=sums ctas=1 twin=true}},allocate-buffer")
    assert spans_out.tolist() == sums_out.tolist() == chosen_out.tolist()
    assert kept_spans(*spans) == kept_sums(*sums)
    assert kept_sums(*chosen) == {key: kept for key, kept in kept_sums(*sums).items() if key[0] == 1}
    _same_numbers(numbers_of_spans(*spans), numbers_of_sums(*sums))


def test_sums_of_probed_values() -> None:
    probe = ["kernel-span", "loop-spans", "value-probe{classes=load;store}"]
    with counting_clock():
        _, [spans] = record(CASES["nested_loops"], instrument=probe)
        _, [sums] = record(CASES["nested_loops"], instrument=probe, keep="sums", spans_every=0)
    numbers = numbers_of_spans(*spans)
    assert {name for _, name in numbers} == set(PROBED)
    _same_numbers(numbers, numbers_of_sums(*sums))


def test_time_in_flight_that_is_not_known_is_left_out() -> None:
    """Of work that is never waited for, and of CTAs so long that the sum may not fit 32 bits."""
    copy = Group(("member", "close"))
    kernel = Kernel((Repeat((copy,), 3), Group(("wait",)), copy, Group(("wait 1",))))
    with counting_clock():
        _, buffer, manifest = run(kernel, "lower-records{keep=sums},allocate-buffer")
    (section,) = read_sums(buffer, manifest).sections
    first, second = (i for i, site in enumerate(section.sites) if site.kind == "async")
    assert section.sites[first].most == 0  # the loop may start any number
    assert section.left_out[[first, second]].tolist() == [0, len(section.warp)]
    assert (section.count[:, first] == 3).all()
    assert (section.total_cycles[:, first] > 0).all()
    assert not section.count[:, second].any()
    assert not section.total_cycles[:, second].any()
    headers = packed_headers(buffer, CTAS, manifest.cta_bytes(RING_LOG2))
    headers["end_clock"][0] += 1 << 31
    (section,) = read_sums(buffer, manifest).sections
    assert section.left_out[first] == (section.area == 0).sum() > 0
    assert (section.count[:, first] == 3 * (section.area > 0)).all()


def test_a_start_read_across_a_carry_is_still_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The halves of the start's time are read one after the other."""

    def lasted_ns() -> list[int]:
        _, buffer, manifest = run(Kernel((Step(),)), "kernel-span,lower-records{keep=totals},allocate-buffer")
        times = header_times(packed_headers(buffer, CTAS, manifest.cta_bytes(RING_LOG2)))
        return list((times.end_globaltimer - times.start_globaltimer).tolist())

    expected, high = lasted_ns(), Batch.globaltimer_high
    monkeypatch.setattr(Batch, "globaltimer_high", lambda self, cycles: high(self, cycles) + 1)
    assert lasted_ns() == expected


def _same_numbers(numbers: Mapping[Any, Sequence[float]], kept: Mapping[Any, tuple[float, ...]]) -> None:
    assert numbers.keys() == kept.keys()
    for key, values in numbers.items():
        ordered = [value for value in values if not math.isnan(value)]
        count, nans, total, least, greatest = kept[key]
        assert (count, count + nans) == (len(ordered), len(values))
        if ordered:
            assert (least, greatest) == (ordered[0], ordered[-1])
            assert math.isclose(total, math.fsum(ordered), rel_tol=1e-9, abs_tol=1e-9)
