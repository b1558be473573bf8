"""Findings of kernels that an H200 has observed: recordings of kernels with one fault, and without any."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.diagnose import RECORDINGS, Judged, cases, judge, totals
from profscope.analysis.cause import Quantity
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.rules.diagnose import diagnose
from profscope.analysis.rules.kernel import Kernel, kernel_of
from profscope.analysis.rules.unused import masked_loop
from profscope.instrument_passes.kept_text import packed
from profscope.profiles import Profile, load
from profscope.schema import measured_frame, samples_frame
from tests.support.corpus_findings import (
    kept_findings,
    kept_places,
    recordings,
    shown_findings,
    shown_places,
)
from tests.support.kernel_of import kernel_in
from tests.support.profiles import regular_profile

DATA = Path(__file__).parents[1] / "data" / "diagnosis"
_CASES = {case["name"]: case for case in cases()}
_FAULTS = [name for name, case in _CASES.items() if case["causes"]]
_FAULTLESS = [name for name, case in _CASES.items() if not case["causes"]]
_ROOFS = {
    "good copy": "dram-bound",
    "good exponentials": "issue-bound",
    "good sum": "dram-bound",
    "good matmul, bfloat16": "tensor-bound",
}


@cache
def recorded(name: str) -> Profile:
    profile = load(RECORDINGS / _CASES[name]["file"])
    object.__setattr__(profile, "findings", cache(profile.findings))  # several tests ask for them
    return profile


@cache
def judged(name: str) -> Judged:
    return judge(_CASES[name], recorded(name))


def facts(profile: Profile) -> Kernel | None:
    (kernel,) = kernel_analyses(profile.tables)
    assert isinstance(kernel, KernelAnalysis)
    return kernel_of(kernel)


def with_ttgir(name: str, text: str | None) -> Profile:
    """Another TTGIR, or none, in the place of the kernel's."""
    profile = recorded(name)
    code: list[dict[str, Any]] = profile.metadata["code"]
    changed = [] if text is None else [each | {"ttgir": packed(text)} for each in code]
    return Profile.of(replace(profile.tables, metadata=profile.metadata | {"code": changed}))


def assert_sound(name: str) -> None:
    """A span waits for one of its own CTA. Gains are in their bounds, and a roof promises nothing; evidence
    cites its values. Asked together with what the findings are, since to find them takes the time."""
    df = recorded(name).df
    ended = df[df["wait"] >= 0]
    waited = df.iloc[ended["wait"]]
    assert (ended[["launch", "cta"]].to_numpy() == waited[["launch", "cta"]].to_numpy()).all()
    table = recorded(name).findings()
    low, gain, high = (table[column] for column in ("gain_low_pct", "gain_pct", "gain_high_pct"))
    is_roof = table["finding"].str.endswith("-bound")
    assert (table["line"] > 0).all()
    assert gain[is_roof].eq(0).all()
    is_open = gain.isna() & high.notna()  # too uncertain to be stated
    assert (is_open | ((low >= 0) & (low <= gain) & (gain <= high))).all()
    assert (high <= 100).all()
    assert (is_open | ((low < high) != is_roof)).all()
    for evidence, values in zip(table["evidence"], table["evidence_values"], strict=True):
        assert values
        assert all(str(Quantity(**each)) in evidence for each in values.values())


def test_of_several_grids_the_one_that_took_most_of_the_time_is_judged() -> None:
    tables = regular_profile(launches=4).tables
    took_ns = np.array([100, 500, 300, 100])
    launches = tables.launches.assign(grid_x=[8, 16, 8, 8], end_ns=tables.launches["start_ns"] + took_ns)
    kernel = kernel_in(replace(tables, launches=launches.astype(tables.launches.dtypes.to_dict())))
    assert kernel.grid == 8
    longer = launches.assign(end_ns=launches["end_ns"] + [0, 1, 0, 0])
    assert kernel_in(replace(tables, launches=longer.astype(tables.launches.dtypes.to_dict()))).grid == 16


def test_cold_launches_are_judged_if_there_are_no_others() -> None:
    tables = regular_profile(launches=3).tables
    for cold, judged in (([True, False, False], [1, 2]), ([True] * 3, [0, 1, 2])):
        (kernel,) = kernel_analyses(replace(tables, launches=tables.launches.assign(cold=cold)))
        assert isinstance(kernel, KernelAnalysis)
        assert kernel.launches["launch"].tolist() == judged


def test_a_kernel_is_named_with_its_variant_if_it_has_several() -> None:
    plain = regular_profile(launches=3)
    (kernel,) = set(plain.launches["kernel"])
    both = plain.launches.assign(variant=np.array([0, 1, 1], np.int32))
    for launches, names in ((plain.launches, {kernel}), (both, {f"{kernel} #0", f"{kernel} #1"})):
        attrs = Profile(plain.tables.df, launches, plain.metadata).findings().attrs
        assert {text.partition(": ")[0] for text in attrs["not_measured"]} == names
        assert set(attrs["clean"]) <= names


@pytest.mark.parametrize("name", _FAULTS)
def test_the_top_finding_is_the_fault(name: str) -> None:
    assert_sound(name)
    found = judged(name)
    assert (found.right_cause, found.right_line, found.listed_only) == (True, True, False), found.found


@pytest.mark.parametrize("name", recordings())
def test_findings_are_those_that_are_kept(name: str) -> None:
    profile = recorded(name) if name in _CASES else load(recordings()[name])
    assert shown_findings(profile) == kept_findings()[name]
    assert shown_places(profile.tables) == kept_places()[name]


@pytest.mark.parametrize("name", _FAULTLESS)
def test_a_kernel_without_a_fault_has_what_binds_it_alone(name: str) -> None:
    assert_sound(name)
    found = [finding for finding, _, _ in judged(name).found]
    assert all(finding.endswith("-bound") for finding in found)
    assert name not in _ROOFS or found == [_ROOFS[name]]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("gelu of rows by 32 warps", "less of this work, or what the findings above say"),
        ("rows padded to 1024", "less of this work, as the findings above say"),
        ("good matmul, bfloat16", "only less of this work is faster"),
        ("good forces", "less of this work, the busiest resource"),
    ],
)
def test_a_roof_refers_to_the_findings_that_take_from_it(name: str, advice: str) -> None:
    roof = recorded(name).findings().iloc[-1]
    assert roof["finding"].endswith("-bound")
    assert roof["advice"].startswith(advice)


def known_to(profile: Profile) -> frozenset[str]:
    known = facts(profile)
    assert known is not None
    return known.known


def test_without_the_hardwares_evidence_little_is_said() -> None:
    name = "chain of rows"
    bare = replace(
        recorded(name).tables,
        counters=measured_frame("counters"),
        counts=measured_frame("counts"),
        samples=samples_frame(),
    )
    profile = Profile.of(bare)
    assert known_to(profile) == {"ttgir", "ctas"}
    assert recorded(name).findings()["finding"].tolist() == ["exposed-latency", "low-occupancy"]
    told = profile.findings()
    assert told.empty
    assert len(told.attrs["not_measured"]) == 4, "traffic, use, counts and waits"
    assert all("session(evidence=True)" in text for text in told.attrs["not_measured"])


@pytest.mark.parametrize(
    ("name", "missing", "witness", "finding"),
    [
        ("good copy", "counts", "counts", "dram-bound"),
        ("softmax of columns", "counts", "counts", "uncoalesced-load"),
        ("pooled tokens read twice", "counters", "traffic", "tile-reread"),
    ],
)
def test_a_cause_without_its_evidence_says_nothing(
    name: str, missing: str, witness: str, finding: str
) -> None:
    tables = replace(recorded(name).tables, **{missing: measured_frame(missing)})
    assert known_to(recorded(name)) - known_to(Profile.of(tables)) == {witness}
    assert finding in recorded(name).findings()["finding"].tolist()
    assert finding not in Profile.of(tables).findings()["finding"].tolist()


def test_some_of_the_counters_are_no_evidence() -> None:
    """The kernel's own counts take their place, which say nothing of caches, or of DRAM, as it is not known
    how large the tensors are."""
    tables = recorded("good copy").tables
    left = tables.counters[tables.counters["counter"] != "issue_slots"]
    known = facts(Profile.of(replace(tables, counters=left)))
    assert known is not None
    assert "traffic" not in known.known
    assert known.counters["dram_read"] == 1 << 28
    assert not {"dram", "l2"} & set(known.used)


def test_a_grid_that_nobody_knows_is_no_evidence() -> None:
    tables = recorded("good copy").tables
    unknown = replace(tables, launches=tables.launches.assign(grid_x=0))
    assert facts(Profile.of(unknown)) is None


def test_a_grid_may_be_larger_than_an_int32() -> None:
    tables = recorded("good copy").tables
    large = replace(tables, launches=tables.launches.assign(grid_x=65536, grid_y=65535))
    known = facts(Profile.of(large))
    assert known is not None
    assert known.grid == 65536 * 65535
    assert "idle-sms" not in Profile.of(large).findings()["finding"].tolist()


@pytest.mark.parametrize("counter", ["dram_read", "dram_write", "time"])
def test_a_counter_that_is_no_number_is_no_evidence(counter: str) -> None:
    tables = recorded("field of a structure").tables
    counters = tables.counters.copy()
    counters.loc[counters["counter"] == counter, "value"] = float("nan")
    assert known_to(recorded("field of a structure")) - known_to(
        Profile.of(replace(tables, counters=counters))
    ) == {"traffic"}


@pytest.mark.parametrize("name", ["field of a structure", "squares turned by a gather"])
def test_an_access_of_no_line_has_no_finding(name: str) -> None:
    tables = recorded(name).tables
    nowhere = Profile.of(replace(tables, counts=tables.counts.assign(line=0)))
    told = nowhere.findings()
    assert recorded(name).findings()["finding"].iloc[0] in ("uncoalesced-load", "bank-conflict")
    assert not {"uncoalesced-load", "bank-conflict"} & set(told["finding"])
    assert (told["line"] > 0).all()


def test_lines_of_another_file_are_not_the_kernels() -> None:
    tables = recorded("ring buffer by remainder").tables
    moved = tables.counts.assign(file="helpers.py")
    told = Profile.of(replace(tables, counts=moved)).findings()
    assert "index-arithmetic" not in told["finding"].tolist()


def test_ctas_that_took_no_time_are_not_uneven() -> None:
    tables = recorded("ragged segments").tables
    still = replace(tables, ctas=tables.ctas.assign(duration_cycles=0))
    assert "load-imbalance" in recorded("ragged segments").findings()["finding"].tolist()
    assert "load-imbalance" not in Profile.of(still).findings()["finding"].tolist()


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "module {",
        'module { "far.away"() <{x = #far.thing<1>}> : () -> () }',
        "no module at all",
    ],
)
def test_what_needs_the_ttgir_is_left_out_without_it(text: str | None) -> None:
    name = "ring buffer by remainder"
    whole, without = facts(recorded(name)), facts(with_ttgir(name, text))
    assert whole is not None
    assert without is not None
    assert whole.graph.lines("arith.remsi")
    assert without.graph.lines("arith.remsi") == set()
    assert masked_loop(without.graph) is None
    found = set(with_ttgir(name, text).findings()["finding"])
    assert "index-arithmetic" not in found
    assert "issue-bound" in found  # rests on counters


@pytest.mark.parametrize(
    ("finding", "name", "busy"),
    [
        ("index-arithmetic", "ring buffer by remainder", {"dram": 1.0}),
        ("conversions", "depthwise bytes in float32", {"tensor": 1.0}),
    ],
)
def test_instructions_are_no_cause_if_memory_or_tensor_cores_are_busier(
    finding: str, name: str, busy: dict[str, float]
) -> None:
    kernel = kernel_in(recorded(name).tables)
    assert finding in [each.finding for each in diagnose(kernel)]
    busier = replace(kernel, balance=dict(kernel.balance) | busy)
    assert finding not in [each.finding for each in diagnose(busier)]


def test_products_that_work_beside_other_pipes_do_not_wait() -> None:
    kernel = kernel_in(recorded("product scaled each step").tables)
    for fma, is_found in ((0.3, True), (0.6, False)):
        used = dict(kernel.used) | {"tensor": 0.5, "fma": fma}
        shared = replace(kernel, resources=replace(kernel.resources, used=used))
        assert ("mma-not-overlapped" in [each.finding for each in diagnose(shared)]) is is_found


def test_totals_tell_right_from_wrong() -> None:
    right = judged("chain of rows")
    wrong = replace(right, right_cause=False)
    elsewhere = replace(right, right_line=False)
    false = replace(judged("good copy"), found=(("tail", 1, 30.0),))
    dear = replace(right, real_pct=10.0)
    small = replace(right, real_pct=9.0)
    found = list(totals([right, wrong, elsewhere, false, judged("good copy"), dear, small]).values())
    assert found == [(2, 4), (1, 2), (2, 3), (2, 3)]


def with_another_access(name: str, opcode: str, line: int, sectors: int) -> Profile:
    """The kernel has one more access, of which only a sector is needed."""
    profile = recorded(name)
    counts = profile.counts
    one = counts[counts["sectors"] > 0].iloc[:1].assign(
        pc=counts["pc"].max() + 16, opcode=opcode, line=line, sectors=sectors, sectors_ideal=1
    )  # fmt: skip
    added = measured_frame("counts", pd.concat([counts, one], ignore_index=True))
    return Profile.of(replace(profile.tables, counts=added))


def test_what_is_loaded_again_is_not_the_line_that_is_uncoalesced() -> None:
    name = "the same tile of all pairs"
    found = with_another_access(name, "LDG.E", 1, 1 << 26).findings().query("finding == 'tile-reread'")
    assert (
        found["line"].tolist() == recorded(name).findings().query("finding == 'tile-reread'")["line"].tolist()
    )
    assert len(found) == 1


def test_what_tma_copies_might_be_what_dram_sends() -> None:
    found = with_another_access("the same tile of all pairs", "UTMALDG.2D", 1, 0).findings()
    assert "tile-reread" not in set(found["finding"])


def test_fewer_samples_make_a_gain_less_certain() -> None:
    tables = recorded("softmax of columns").tables
    few = replace(
        tables, samples=tables.samples.assign(samples=(tables.samples["samples"] / 100).astype("int64"))
    )
    wide, narrow = (
        profile.findings().iloc[0] for profile in (Profile.of(few), recorded("softmax of columns"))
    )
    assert wide["finding"] == narrow["finding"] == "uncoalesced-load"
    assert wide["gain_low_pct"] < narrow["gain_low_pct"]
    assert wide["gain_high_pct"] > narrow["gain_high_pct"]


def without_hardware(name: str) -> Profile:
    """What a session without evidence=True has of it."""
    none = {"counters": measured_frame("counters"), "counts": measured_frame("counts")}
    return Profile.of(replace(recorded(name).tables, samples=samples_frame(), **none))


@pytest.mark.parametrize(
    ("name", "finding", "line"),
    [
        ("gate and up by 4 warps", "register-spills", 32),
        ("norm in float64", "fp64-arithmetic", 23),
        ("matmul by 2 warps", "small-mma", 37),
        ("bytes one by one", "unvectorized-access", 22),
    ],
)
def test_what_the_binary_shows_is_found_without_hardware(name: str, finding: str, line: int) -> None:
    rows = without_hardware(name).findings().query("finding == @finding")
    assert rows["line"].iloc[0] == line
    assert rows["gain_pct"].isna().all()
    assert rows["evidence"].str.contains("by the binary alone").all()
    with_evidence = recorded(name).findings().query("finding == @finding")
    assert with_evidence["gain_high_pct"].notna().all()


@pytest.mark.parametrize("name", _FAULTLESS)
def test_the_binary_of_a_kernel_without_a_fault_shows_none(name: str) -> None:
    assert without_hardware(name).findings()["gain_pct"].notna().all()


@pytest.mark.parametrize("name", ["good swiglu", "softmax of columns"])
def test_without_counters_waits_say_how_busy_memory_is(name: str) -> None:
    """They are bound by memory, which hides their exponentials and divisions."""
    tables = replace(recorded(name).tables, counters=measured_frame("counters"))
    assert known_to(Profile.of(tables)) == {"ttgir", "ctas", "use", "counts", "waits"}
    assert "slow-math" not in Profile.of(tables).findings()["finding"].tolist()


def test_a_loop_that_a_branch_or_a_loop_may_bound_by_the_program_is_no_masked_work() -> None:
    """Of packed sequences a `while` finds the program's own, and where it begins and ends."""
    walks = facts(load(DATA / "a-walk-over-lengths-before-each-tile.pftrace.gz"))
    future = facts(recorded("attention to the future"))
    assert walks is not None
    assert future is not None
    assert masked_loop(future.graph)
    assert not masked_loop(walks.graph)


def test_lanes_that_a_vector_leaves_to_the_compiler_are_no_masked_work() -> None:
    """64 peaks are copied by 256 threads in each step of a loop whose tiles are all used."""
    found = load(DATA / "good-value-gradients.pftrace.gz").findings()
    assert "masked-work" not in found["finding"].tolist()


def test_hits_of_l1_are_those_of_loads() -> None:
    """Its hit rate is of all sectors, and stores that touch each once do not hit."""
    streams = kernel_in(recorded("good swiglu").tables)
    loads, stores = streams.table.sectors("LDG", "LDGSTS"), streams.table.sectors("STG")
    assert stores > 0
    half = 100 * 0.5 * loads / (loads + stores)
    for rate, missed in ((half, 0.5), (0.0, 1.0), (100.0, 0.0)):
        resources = replace(streams.resources, counters={"l1_hit_rate": rate})
        assert resources.missed_by_l1 == pytest.approx(missed)


def test_ctas_of_alike_work_are_no_load_imbalance() -> None:
    """CTAs of "softmax of columns" all do the same, those of ragged segments what their segment has."""
    for name, is_uneven in (("softmax of columns", False), ("ragged segments", True)):
        found = kernel_in(recorded(name).tables)
        long = np.where(np.arange(len(found.cta_cycles)) % 8, 1e3, 1e5)
        idle = replace(found.resources, idle=0.5)
        causes = [each.finding for each in diagnose(replace(found, cta_cycles=long, resources=idle))]
        assert ("load-imbalance" in causes) is is_uneven


def test_only_a_division_by_one_number_leaves_the_xu_pipe() -> None:
    """A multiplication takes its place; of other divisions a fast one still takes the reciprocal there."""
    for name, is_full in (("division by a scalar", False), ("forces rounded exactly", True)):
        kernel = kernel_in(recorded(name).tables)
        busy = replace(kernel, resources=replace(kernel.resources, used={"issue": 0.6, "xu": 0.9}))
        (found,) = [each for each in diagnose(busy) if each.finding == "slow-math"] or [None]
        assert (found is None or found.weight < 10) is is_full
