"""Findings beside experiments at their lines."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.analysis.cause import UNKNOWN_GAIN, Finding, Gain, cited
from profscope.analysis.rules.intervals import of_repair
from profscope.analysis.rules.tested import Outcome, with_experiments
from profscope.instrument_passes.ablation.groups import GROUPS, SCATTERED
from profscope.profiles import Profile
from profscope.schema import measured_frame
from tests.support.counted import counted
from tests.support.experiments import experiment

GATHER = Path(__file__).parents[1] / "data" / "evidence" / "gather.pftrace.gz"


def found(name: str, gain: Gain = Gain(50.0, 40.0, 60.0)) -> list[Finding]:  # noqa: B008  it cannot change
    """A finding at line 7, and one of no line."""
    none = cited("something")
    tail = Finding("tail", "", 0, none, "", Gain(20.0, 10.0, 30.0), "medium", 20.0)
    return [Finding(name, "k.py", 7, none, "", gain, "medium", 50.0), tail]


UNKNOWN = measured_frame("counts")


def on_gpu(
    findings: list[Finding],
    *experiments: pd.DataFrame,
    counts: pd.DataFrame = UNKNOWN,
    sampled: bool = True,
) -> Outcome:
    table = pd.concat(experiments, ignore_index=True)
    return with_experiments(findings, table, counts, sampled=sampled, emulated=False)


def names(told: Outcome) -> list[str]:
    return [each.finding for each in told.findings]


def test_what_a_repair_would_do_is_the_gain() -> None:
    told = on_gpu(found("uncoalesced-store"), experiment("store", "contiguous"))
    first, tail = told.findings
    assert first.gain[:3] == of_repair(81.0, 80.0, 82.0)[:3]
    assert (first.basis, first.confidence, first.weight) == ("measured", "high", 81.0)
    assert tail == found("")[1], "no experiment tests a tail"
    little = on_gpu(found("uncoalesced-store"), experiment("store", "contiguous", (4.0, 3.0, 5.0)))
    assert little.findings[0].confidence == "low", "it may be less than noise"


def test_a_repair_may_save_a_little_more_or_less_than_its_experiment() -> None:
    expected, low, high = of_repair(81.0, 80.0, 82.0)[:3]
    assert expected == 81.0
    assert 65 < low < 75
    assert 86 < high < 95
    assert of_repair(-0.5, -1.0, 0.5)[:2] == (0.0, 0.0)


def test_what_leaves_a_thing_out_is_an_upper_bound() -> None:
    left_out = experiment("atomic", "off", (45.0, 44.0, 46.0))
    first = on_gpu(found("atomics"), left_out).findings[0]
    assert first.gain[:3] == (46.0, 40.0, 46.0)
    assert (first.basis, first.confidence, first.weight) == ("modelled", "medium", 46.0)
    unknown = on_gpu(found("atomics", UNKNOWN_GAIN), left_out).findings[0]
    assert math.isnan(unknown.gain.expected)
    assert unknown.gain.high == 46.0


def test_several_atomics_are_bounded_by_all_of_global_memory() -> None:
    """While one is left out the others are still in the way."""
    one, other = (experiment("atomic add", "off", (6.0, 5.0, 7.0), place=("k.py", line)) for line in (7, 8))
    memory = experiment(GROUPS["memory"], "off", (55.0, 54.0, 56.0), place=("", 0))
    assert on_gpu(found("atomics"), one, memory).findings[0].gain.high == 7.0
    assert on_gpu(found("atomics"), one, other, memory).findings[0].gain.high == 56.0


def test_slow_math_is_bounded_only_if_all_of_its_ops_were_left_out() -> None:
    exp, div = experiment("exp", "off", (20.0, 19.0, 21.0)), experiment("div", "off", (8.0, 7.0, 9.0))
    assert on_gpu(found("slow-math"), exp, div).findings[0].gain.high == 21.0
    stays = experiment("div", "off", None)
    assert on_gpu(found("slow-math"), exp, stays).findings[0] == found("slow-math")[0]


def test_a_finding_that_its_experiment_refutes_goes() -> None:
    nothing = (0.1, -0.5, 0.7)
    told = on_gpu(found("uncoalesced-load"), experiment("load x", "contiguous", nothing))
    assert names(told) == ["tail"]
    assert told.refuted == ["uncoalesced-load at line 7: contiguous saves 0.1 %"]


def test_a_bound_below_what_code_placement_moves_refutes() -> None:
    below, above = (experiment("atomic", "off", (4.0, 3.0, high)) for high in (4.9, 5.1))
    told = on_gpu(found("atomics"), below)
    assert names(told) == ["tail"]
    assert told.refuted == ["atomics at line 7: off saves at most 4.9 %"]
    assert names(on_gpu(found("atomics"), above)) == ["atomics", "tail"]
    conversion = experiment("convert layout", "off", (0.0, 0.0, 0.0))
    assert names(on_gpu(found("layout-conversion"), conversion)) == ["layout-conversion", "tail"]


_OTHERS = {
    "another line": experiment("store", "contiguous", (3.0, 2.0, 4.0), place=("k.py", 8)),
    "another file": experiment("store", "contiguous", (3.0, 2.0, 4.0), place=("other.py", 7)),
    "not valid": experiment("store", "contiguous", valid=False),
    "not timed": experiment("store", "contiguous", None),
    "another op": experiment("load x", "contiguous", (3.0, 2.0, 4.0)),
    "another experiment": experiment("store", "off"),
}


@pytest.mark.parametrize("other", _OTHERS.values(), ids=_OTHERS)
def test_other_experiments_say_nothing_of_what_was_sampled(other: pd.DataFrame) -> None:
    assert on_gpu(found("uncoalesced-store"), other) == (found("uncoalesced-store"), [])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("not valid", "other spills"),
        ("not timed", "other spills"),
        ("another line", "no experiment with neighbouring addresses tests it"),
        ("another experiment", "no experiment with neighbouring addresses tests it"),
    ],
)
def test_without_samples_scattered_accesses_need_their_experiment(name: str, why: str) -> None:
    told = on_gpu(found("uncoalesced-store"), _OTHERS[name], sampled=False)
    assert names(told) == ["tail"]
    assert told.refuted == [f"uncoalesced-store at line 7: {why}"]
    assert names(on_gpu(found("atomics"), _OTHERS[name], sampled=False)) == ["atomics", "tail"]


def test_cycles_are_no_gain() -> None:
    cycles = experiment("store", "contiguous", (81.0, 81.0, 81.0), emulated=True)
    unknown = found("uncoalesced-store", UNKNOWN_GAIN)
    told = with_experiments(unknown, cycles, UNKNOWN, sampled=True, emulated=True)
    assert told == (unknown, [])
    few = with_experiments(found("few-stages"), cycles, UNKNOWN, sampled=True, emulated=True)
    *_, scattered = few.findings
    assert (scattered.finding, scattered.basis, scattered.weight) == ("uncoalesced-store", "modelled", 81.0)
    assert math.isnan(scattered.gain.high)


def test_scattered_addresses_are_a_finding_of_their_own() -> None:
    told = on_gpu(found("few-stages"), experiment("load x", "contiguous", place=("k.py", 9)))
    assert names(told) == ["few-stages", "tail", "uncoalesced-load"]
    last = told.findings[-1]
    assert (last.file, last.line, last.basis) == ("k.py", 9, "measured")
    assert last.gain[:3] == of_repair(81.0, 80.0, 82.0)[:3]


@pytest.mark.parametrize(("touched", "is_scattered"), [(130, False), (150, True)])
def test_other_addresses_that_hit_caches_are_no_scattered_ones(touched: int, is_scattered: bool) -> None:
    """Of an access that touches no more sectors than its bytes need, time is saved by what DRAM sends."""
    faster = experiment("load x", "contiguous", place=("k.py", 9))
    load = counted(("LDG.E", 9, 100), sectors=touched, sectors_ideal=100)
    told = on_gpu(found("few-stages"), faster, counts=load)
    assert ("uncoalesced-load" in names(told)) is is_scattered


def test_all_scattered_accesses_together_are_the_gain_of_each() -> None:
    """Who mends one mends the others: alone each of them saves little."""
    load = experiment("load x", "contiguous", (10.0, 9.0, 11.0), place=("k.py", 9))
    store = experiment("store", "contiguous", (12.0, 11.0, 13.0))
    both = experiment(SCATTERED, "contiguous", (70.0, 69.0, 71.0), place=("", 0))
    told = on_gpu(found("uncoalesced-store"), store, load, both)
    assert names(told) == ["uncoalesced-store", "tail", "uncoalesced-load"]
    first, tail, last = told.findings
    assert first.gain[:3] == last.gain[:3] == of_repair(70.0, 69.0, 71.0)[:3]
    assert all("neighbouring addresses 70 % of the time less" in each.evidence.text for each in (first, last))
    assert tail == found("")[1]


@pytest.mark.parametrize(("touched", "is_named"), [(100, False), (400, True)])
def test_lines_that_cost_something_together_need_more_sectors_than_their_bytes(
    touched: int, is_named: bool
) -> None:
    """Alone none saves anything: the sectors of one are those of the others."""
    store = experiment("store", "contiguous", (-6.0, -7.0, -5.0), place=("k.py", 9))
    both = experiment(SCATTERED, "contiguous", (70.0, 69.0, 71.0), place=("", 0))
    counts = counted(("STG.E", 9, 100), sectors=touched, sectors_ideal=100)
    told = on_gpu(found("few-stages"), store, both, counts=counts)
    assert ("uncoalesced-store" in names(told)) is is_named
    if is_named:
        last = told.findings[-1]
        assert last.gain[:3] == of_repair(70.0, 69.0, 71.0)[:3]
        assert "400 sectors where 100 sectors would do" in last.evidence.text
    rule = on_gpu(found("uncoalesced-store"), experiment("store", "contiguous", (-6.0, -7.0, -5.0)), both)
    assert names(rule)[0] == "uncoalesced-store", "what all save refutes no line"


def test_lines_that_were_not_tried_together_are_added_up_to_all_of_global_memory() -> None:
    load = experiment("load x", "contiguous", (40.0, 39.0, 41.0), place=("k.py", 9))
    store = experiment("store", "contiguous", (50.0, 49.0, 51.0))
    memory = experiment(GROUPS["memory"], "off", (80.0, 79.0, 81.0), place=("", 0))
    both = experiment(SCATTERED, "contiguous", (70.0, 69.0, 71.0), place=("", 0), valid=False)
    first = on_gpu(found("uncoalesced-store"), store, load, memory, both).findings[0]
    assert (first.gain.expected, first.gain.high) == (81.0, 81.0)
    assert first.gain.low == of_repair(50.0, 49.0, 51.0)[1]
    assert first.basis == "modelled"
    assert "so would 1 line beside it" in first.evidence.text


@pytest.mark.parametrize("name", ["uncoalesced-store", "unvectorized-access"])
def test_a_place_is_named_once(name: str) -> None:
    assert names(on_gpu(found(name), experiment("store", "contiguous"))) == [name, "tail"]


def test_what_saves_no_more_than_noise_is_no_finding() -> None:
    told = on_gpu(found("few-stages"), experiment("load x", "contiguous", (9.0, 4.9, 14.0)))
    assert names(told) == ["few-stages", "tail"]


@pytest.fixture(scope="module")
def gather() -> Profile:
    """Of an H200: a load whose lanes are far apart, and the L2 cache at its peak."""
    return profscope.load(GATHER)


def explained(profile: Profile, *experiments: pd.DataFrame) -> Profile:
    table = pd.concat(experiments, ignore_index=True)
    return Profile.of(replace(profile.tables, experiments=table))


def test_a_profile_with_experiments_has_their_gains(gather: Profile) -> None:
    before = gather.findings()
    load = before.iloc[0]
    assert (load["finding"], load["basis"]) == ("uncoalesced-load", "modelled")
    place, kernel = (load["file"], load["line"]), load["kernel"]
    own = experiment("load", "contiguous", place=place, kernel=kernel)
    other = experiment("load", "contiguous", (0.0, 0.0, 0.0), place=place, kernel="another")
    prof = explained(gather, own, other)
    table = prof.findings()
    first = table.iloc[0]
    gain = of_repair(81.0, 80.0, 82.0)
    assert first[["gain_pct", "gain_low_pct", "gain_high_pct"]].tolist() == list(gain[:3])
    assert (first["basis"], first["program_pct"]) == ("measured", 81.0)
    assert first["evidence"] == load["evidence"]
    assert table.attrs["refuted"] == []
    assert f"{gain.low:.0f} to {gain.high:.0f} % measured, confidence: high" in repr(table)
    assert "measured" not in repr(before)
    assert table.iloc[1:].equals(before.iloc[1:])
    assert table.dtypes.equals(before.dtypes)


def test_without_evidence_of_the_hardware_experiments_are_findings_of_a_profile(gather: Profile) -> None:
    """As on a GPU that nobody may count on, and of a kernel whose TTGIR is not known."""
    bare = replace(gather.tables, samples=gather.samples[:0], counts=gather.counts[:0])
    bare = replace(bare, counters=gather.counters[:0], metadata={**gather.metadata, "code": []})
    kernel = gather.launches["kernel"].iloc[0]
    before = Profile.of(bare).findings()
    assert "uncoalesced-load" not in set(before["finding"])
    table = explained(Profile.of(bare), experiment("load", "contiguous", kernel=kernel)).findings()
    assert (table["finding"].iloc[0], table["basis"].iloc[0]) == ("uncoalesced-load", "measured")
    assert kernel not in table.attrs["clean"]
