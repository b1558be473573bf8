"""Findings of kernels that an H200 ran with own counts and experiments, without counters and samples."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd
import pytest

from bench.diagnose import RECORDINGS, WITHOUT_COUNTERS, cases, judge
from profscope.analysis.cause import RESULT
from profscope.profiles import Profile, load
from profscope.schema import Tables, ctas_frame, measured_frame, samples_frame
from tests.support.kernel_of import kernel_in

_CASES = {case["name"]: case for case in cases(WITHOUT_COUNTERS)}
_WRONG = ("chances of hidden states step by step",)
"""A reduction in each step is named before what each step loads again."""


@cache
def recorded(name: str) -> Profile:
    profile = load(WITHOUT_COUNTERS / _CASES[name]["file"])
    object.__setattr__(profile, "findings", cache(profile.findings))  # several tests ask for them
    return profile


@cache
def found(name: str) -> pd.DataFrame:
    return recorded(name).findings()


@pytest.mark.parametrize("name", _CASES)
def test_the_top_finding_is_the_fault_and_good_kernels_have_none(name: str) -> None:
    tables = recorded(name).tables
    assert (len(tables.counters), len(tables.samples)) == (0, 0)
    judged = judge(_CASES[name], recorded(name))
    if not _CASES[name]["causes"]:
        assert not judged.false, judged.found
    else:
        assert (judged.right_cause and judged.right_line) is (name not in _WRONG), judged.found
    if name in _WRONG:
        assert set(judged.causes) & set(found(name)["finding"])


@pytest.mark.parametrize("name", _CASES)
def test_sentences_name_experiments_and_no_samples(name: str) -> None:
    for row in found(name).to_dict("records"):
        units = {each["unit"] for each in row["evidence_values"].values()}
        assert "sample" not in row["evidence"] + row["advice"] + " ".join(units)
        assert "`" not in row["evidence"], "no stall has a name"
        assert "scoreboard" not in row["evidence"]
    assert all("counters" in text for text in found(name).attrs["not_measured"])


def test_faults_are_shown_by_the_time_that_experiments_saved() -> None:
    faults = [name for name, case in _CASES.items() if case["causes"]]
    evidence = [found(name)["evidence"].iloc[0] for name in faults]
    assert all("by experiment" in said or "at neighbouring addresses" in said for said in evidence)


def test_a_kernel_without_a_finding_says_what_it_was_judged_by() -> None:
    clean = found("good attention").attrs["clean"]["attention_kernel"]
    assert clean == "no finding: no known cause costs 5 % of the time, by own counts and experiments"


def test_refuted_findings_name_why() -> None:
    said = [text for name in _CASES for text in found(name).attrs["refuted"]]
    assert said == [
        "pose_scores_kernel: uncoalesced-load at line 332: it is one element",
        "causal_taps_kernel: slow-math at line 30: off saves at most 3.4 %",
    ]
    assert "uncoalesced-load" not in found("good scores of poses")["finding"].tolist()


@pytest.mark.parametrize("name", [name for name, case in _CASES.items() if case["causes"]])
def test_without_experiments_nobody_is_accused_of_waits(name: str) -> None:
    """Counts alone show float64, by the binary, and what a kernel is bound by."""
    tables = replace(recorded(name).tables, experiments=measured_frame("experiments"))
    assert kernel_in(tables).waits_basis == ""
    told = Profile.of(tables).findings()
    assert told["gain_pct"].fillna(0.0).eq(0.0).all()
    accused = told[~told["finding"].str.endswith(RESULT)]
    assert accused["evidence"].str.contains("by the binary alone").all()
    assert any("waits: " in text for text in told.attrs["not_measured"])


_OF_SAMPLES = ("chain of rows", "softmax of columns", "columns summed each step", "bins in global memory")


@pytest.mark.parametrize("name", _OF_SAMPLES)
def test_what_only_samples_showed_is_not_said_without_them(name: str) -> None:
    """No experiments take their place."""
    case: dict[str, Any] = next(case for case in cases(RECORDINGS) if case["name"] == name)
    tables = load(RECORDINGS / case["file"]).tables
    assert Profile.of(tables).findings()["finding"].iloc[0] in case["causes"]
    told = Profile.of(replace(tables, samples=samples_frame())).findings()
    assert told["finding"].str.endswith(RESULT).all()


def waves_of(tables: Tables, last_ns: int) -> pd.DataFrame:
    """150 CTAs on 132 SMs: a wave that takes 1000 ns, and a last one."""
    first = tables.launches.iloc[0]
    is_last = [cta >= 132 for cta in range(150)]
    lengths = [last_ns if last else 1000 for last in is_last]
    starts = [int(first["start_ns"]) + 1000 * last for last in is_last]
    alike = {"kernel": first["kernel"], "variant": 0, "launch": first["launch"], "recorded": True}
    columns: dict[str, Any] = {name: [value] * 150 for name, value in alike.items()}
    columns |= {"cta": range(150), "sm": [cta % 132 for cta in range(150)], "start_ns": starts}
    columns |= {"end_ns": [start + length for start, length in zip(starts, lengths, strict=True)]}
    return ctas_frame(columns | {"start_cycle": [0] * 150, "duration_cycles": lengths})


def test_a_tail_needs_samples_or_the_times_of_all_ctas() -> None:
    """That the last wave is not full does not say that SMs wait for it."""
    case = next(case for case in cases(RECORDINGS) if case["name"] == "nonces in 1.14 waves")
    tables = load(RECORDINGS / case["file"]).tables
    none = {"counters": measured_frame("counters"), "counts": measured_frame("counts")}
    plain = replace(tables, samples=samples_frame(), **none)
    assert kernel_in(plain).waves == pytest.approx(150 / 132)
    assert "tail" in Profile.of(tables).findings()["finding"].tolist()
    assert "tail" not in Profile.of(plain).findings()["finding"].tolist()
    for length, is_tail in ((1000, True), (20, False)):
        timed = replace(plain, ctas=waves_of(tables, length))
        assert ("tail" in Profile.of(timed).findings()["finding"].tolist()) is is_tail
