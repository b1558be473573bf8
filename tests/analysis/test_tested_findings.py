"""Findings beside experiments at their lines."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.analysis.cause import UNKNOWN_GAIN, Finding, Gain, cited
from profscope.analysis.rules.tested import Outcome, with_experiments
from profscope.profiles import Profile
from tests.support.experiments import experiment

NAN = math.nan
GATHER = Path(__file__).parents[1] / "data" / "evidence" / "gather.pftrace.gz"


def found(name: str, gain: Gain = Gain(50.0, 40.0, 60.0)) -> list[Finding]:  # noqa: B008  it cannot change
    """A finding at line 7, and one of no line."""
    none = cited("something")
    tail = Finding("tail", "", 0, none, "", Gain(20.0, 10.0, 30.0), "medium", 20.0)
    return [Finding(name, "k.py", 7, none, "", gain, "medium", 50.0), tail]


def on_gpu(findings: list[Finding], experiments: pd.DataFrame) -> Outcome:
    return with_experiments(findings, experiments, emulated=False)


def names(told: Outcome) -> list[str]:
    return [each.finding for each in told.findings]


def test_what_a_repair_would_do_is_the_gain() -> None:
    told = on_gpu(found("uncoalesced-store"), experiment("store", "contiguous"))
    first, tail = told.findings
    assert first.gain[:3] == (81.0, 80.0, 82.0)
    assert (first.basis, first.confidence, first.weight) == ("measured", "high", 81.0)
    assert tail == found("")[1], "no experiment tests a tail"
    little = on_gpu(found("uncoalesced-store"), experiment("store", "contiguous", (4.0, 3.0, 5.0)))
    assert little.findings[0].confidence == "low", "it may be less than noise"


def test_what_leaves_a_thing_out_is_an_upper_bound() -> None:
    left_out = experiment("atomic", "off", (45.0, 44.0, 46.0))
    first = on_gpu(found("atomics"), left_out).findings[0]
    assert first.gain[:3] == (46.0, 40.0, 46.0)
    assert (first.basis, first.confidence, first.weight) == ("modelled", "medium", 46.0)
    unknown = on_gpu(found("atomics", UNKNOWN_GAIN), left_out).findings[0]
    assert math.isnan(unknown.gain.expected)
    assert unknown.gain.high == 46.0


def test_a_finding_that_its_experiment_refutes_goes() -> None:
    nothing = (0.1, -0.5, 0.7)
    told = on_gpu(found("uncoalesced-load"), experiment("load x", "contiguous", nothing))
    assert names(told) == ["tail"]
    assert told.refuted == ["uncoalesced-load at line 7: contiguous saves 0.1 %"]
    kept = on_gpu(found("atomics"), experiment("atomic", "off", nothing))
    assert names(kept) == ["atomics", "tail"], "what overlaps may cost nothing alone"


@pytest.mark.parametrize(
    "other",
    [
        experiment("store", "contiguous", (3.0, 2.0, 4.0), place=("k.py", 8)),
        experiment("store", "contiguous", (3.0, 2.0, 4.0), place=("other.py", 7)),
        experiment("store", "contiguous", valid=False),
        experiment("store", "contiguous", None),
        experiment("load x", "contiguous", (3.0, 2.0, 4.0)),
        experiment("store", "off"),
    ],
    ids=["another line", "another file", "not valid", "not timed", "another op", "another experiment"],
)
def test_other_experiments_say_nothing(other: pd.DataFrame) -> None:
    assert on_gpu(found("uncoalesced-store"), other) == (found("uncoalesced-store"), [])


def test_cycles_are_no_gain() -> None:
    cycles = experiment("store", "contiguous", (81.0, 81.0, 81.0), emulated=True)
    unknown = found("uncoalesced-store", UNKNOWN_GAIN)
    assert with_experiments(unknown, cycles, emulated=True) == (unknown, [])
    *_, scattered = with_experiments(found("few-stages"), cycles, emulated=True).findings
    assert (scattered.finding, scattered.basis, scattered.weight) == ("uncoalesced-store", "modelled", 81.0)
    assert math.isnan(scattered.gain.high)


def test_scattered_addresses_are_a_finding_of_their_own() -> None:
    told = on_gpu(found("few-stages"), experiment("load x", "contiguous", place=("k.py", 9)))
    assert names(told) == ["few-stages", "tail", "uncoalesced-load"]
    last = told.findings[-1]
    assert (last.file, last.line, last.gain[:3], last.basis) == ("k.py", 9, (81.0, 80.0, 82.0), "measured")


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
    assert first[["gain_pct", "gain_low_pct", "gain_high_pct"]].tolist() == [81.0, 80.0, 82.0]
    assert (first["basis"], first["program_pct"]) == ("measured", 81.0)
    assert first["evidence"] == load["evidence"]
    assert table.attrs["refuted"] == []
    assert "80 to 82 % measured, confidence: high" in repr(table)
    assert "measured" not in repr(before)
    assert table.iloc[1:].equals(before.iloc[1:])
    assert table.dtypes.equals(before.dtypes)


def test_a_profile_whose_experiment_refutes_a_finding_says_so(gather: Profile) -> None:
    load = gather.findings().iloc[0]
    place, kernel = (load["file"], load["line"]), load["kernel"]
    nothing = experiment("load", "contiguous", (0.1, -0.5, 0.7), place=place, kernel=kernel)
    table = explained(gather, nothing).findings()
    assert "uncoalesced-load" not in set(table["finding"])
    said = f"{kernel}: uncoalesced-load at line {load['line']}: contiguous saves 0.1 %"
    assert table.attrs["refuted"] == [said]


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
