"""Findings of tables that no planted kernel gives, and of profiles of any shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profscope.analysis.cause import Confidence, Finding
from profscope.analysis.findings import FINDING_DTYPES, merged
from profscope.analysis.launch_shape import shape_of
from profscope.analysis.roof_rows import roof_table
from profscope.analysis.source_loads import loads_of
from profscope.analysis.stalls import stalled_on
from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.captured import captured
from tests.support.examples import examples
from tests.support.made_up_spans import Row, made_up
from tests.support.profiles import launch_table, profiles, regular_profile


def found(name: str, gain_pct: float, line: int = 1, also: tuple[int, ...] = ()) -> Finding:
    sure: Confidence = "high"
    return Finding(name, "k.py", line, "", "", gain_pct, sure, also)


def names(*findings: Finding) -> list[str]:
    return [each.finding for each in merged(findings)]


def test_what_is_one_cause_is_one_finding() -> None:
    assert names(found("tail", 30), found("load-imbalance", 40)) == ["load-imbalance"]
    assert names(found("exposed-load", 40), found("redundant-load", 35)) == ["redundant-load"]
    assert names(found("exposed-load", 40), found("serial-stage", 30)) == ["exposed-load"]
    # Another line, or a gain of less than half: another cause.
    assert names(found("exposed-load", 40, 7), found("redundant-load", 35)) == [
        "exposed-load",
        "redundant-load",
    ]
    assert names(found("exposed-load", 40, 7, (1,)), found("redundant-load", 35)) == ["redundant-load"]
    assert names(found("tail", 30), found("load-imbalance", 14)) == ["tail", "load-imbalance"]
    # Where a wait has a reason, that it is long is none besides, whatever the gains.
    assert names(found("dominant-span", 42), found("few-stages", 21)) == ["few-stages"]
    assert names(found("dominant-span", 42), found("few-stages", 20, 7)) == ["dominant-span", "few-stages"]
    assert names(found("dominant-span", 42), found("tail", 20)) == ["dominant-span", "tail"]


def test_gains_below_noise_are_none_and_wrong_values_always_are() -> None:
    assert names(found("tail", 4.9), found("nan", 0), found("atomics", 5)) == ["atomics", "nan"]


def ctas(lengths: list[int], sms: int, per_sm: int = 1) -> pd.DataFrame:
    """CTAs of one launch, each on the slot that is free first."""
    free = np.zeros(sms * per_sm, np.int64)
    rows = []
    for number, length in enumerate(lengths):
        slot = int(free.argmin())
        rows.append((0, number, slot % sms, free[slot], free[slot] + length, free[slot], length))
        free[slot] += length
    columns = ["launch", "cta", "sm", "start_ns", "end_ns", "start_cycle", "cycles"]
    return pd.DataFrame(rows, columns=columns)


def test_the_shape_of_launches() -> None:
    tail = shape_of(ctas([100] * 9, sms=4, per_sm=2), 4)
    assert (tail.ctas, tail.per_sm, tail.slots, tail.waves) == (9, 2, 8, 1.125)
    assert tail.tail_pct == pytest.approx(100 * 7 / 16)
    assert tail.imbalance_pct == 0
    skewed = shape_of(ctas([400, 100, 100, 100], sms=4), 4)
    assert skewed.imbalance_pct == pytest.approx(100 * (1 - 175 / 400))
    assert skewed.tail_pct == pytest.approx(0)
    even = shape_of(ctas([100] * 8, sms=4), 4)
    assert (even.tail_pct, even.imbalance_pct) == (0, 0)


def test_ctas_that_all_fit_at_once_have_a_tail_only_where_sms_stand_empty() -> None:
    """17 on 16 SMs with room for 16 each: what else would fit brings nothing, SMs that are idle would."""
    free = ctas([100] * 17, sms=16, per_sm=16)
    assert (seen := shape_of(free, 16)).tail_pct == pytest.approx(100 * 15 / 32)
    assert (seen.room, seen.slots) == (0, 32)
    known = shape_of(free, 16, room=16)
    assert (known.per_sm, known.slots, known.waves) == (2, 256, 17 / 256)
    assert (known.tail_pct, known.imbalance_pct, known.at_once) == (0, 0, True)
    shared = free.assign(end_ns=[200, *[100] * 15, 200], cycles=[200, *[100] * 15, 200])  # they take turns
    for shape, sms in ((shape_of(shared, 16, room=16), 16), (shape_of(shared, 20, room=16), 20)):
        assert shape.tail_pct == pytest.approx(min(100 * (1 - 17 / sms), 100) if sms == 20 else 100 * 15 / 32)
        assert shape.imbalance_pct == 0
    uneven = free.assign(end_ns=[100, 300, *[100] * 15], cycles=[100, 300, *[100] * 15])
    shape = shape_of(uneven, 16, room=16)
    assert (shape.tail_pct, shape.imbalance_pct) == (0, pytest.approx(100 * 2 / 3))


def test_the_shape_of_grids_that_differ_is_that_of_one_of_them() -> None:
    """Not of 12 CTAs on 12 SMs, where some launches had 8 and others 17."""
    lengths = ([100] * 8, [100] * 8, [100] * 17, [100] * 17)
    each = [ctas(of_launch, sms=16).assign(launch=index) for index, of_launch in enumerate(lengths)]
    shape = shape_of(pd.concat(each), 16)
    assert (shape.ctas, shape.sms, shape.waves) == (17, 16, 17 / 16)


def test_a_clean_kernel_is_told_so() -> None:
    clean = regular_profile(launches=1, ctas=264, iterations=60, sms=132)
    table = clean.findings()
    assert table.empty
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == FINDING_DTYPES
    assert table.attrs["clean"]["matmul_kernel"].startswith("no finding: nothing above 5 % of the time")
    launch = clean.launches.iloc[0]
    took = int(launch["end_ns"] - launch["start_ns"])
    work: dict[str, Any] = {
        "scope": "load A",
        "kind": "op",
        "file": "",
        "line": 23,
        "call_path": "",
        "measures": "issue",
    }
    entry = {"variant": 0, "launches": 1, "ns": took}
    entry["scopes"] = [work | {"bytes": int(0.94 * 4800 * took), "flops": 0}]
    told = clean.metadata | {"kernels": {"matmul_kernel": {"work": [entry]}}}
    near = Profile(clean.df, clean.launches, told).findings()
    assert "94 % of the peak bandwidth of DRAM" in near.attrs["clean"]["matmul_kernel"]
    assert "NVIDIA H200 data sheet" in near.attrs["clean"]["matmul_kernel"]


def test_at_the_peak_there_is_nothing_to_gain() -> None:
    """A roof caps every gain: here 60 % are exposed, and 4 % are left."""
    slow = captured("liger_swiglu-heavy-0")
    assert slow.findings()["finding"].iloc[0] == "exposed-load"
    about = slow.metadata["kernels"]["_swiglu_forward_kernel"]
    took = about["work"][0]["ns"]
    total = sum(row["bytes"] for row in about["work"][0]["scopes"])
    scopes = [
        row | {"bytes": int(row["bytes"] * 0.96 * 4800 * took / total)} for row in about["work"][0]["scopes"]
    ]
    work = [about["work"][0] | {"scopes": scopes}]
    told = slow.metadata | {
        "device": {"name": "NVIDIA H200", "sm_count": 3},
        "kernels": {"_swiglu_forward_kernel": about | {"work": work}},
    }
    assert Profile(slow.df, slow.launches, told).findings().empty


def test_partitions_that_wait_for_each_other() -> None:
    top = captured("matmul_ws-heavy-0").findings().iloc[0]
    assert top["finding"] == "starving-partition"
    assert "partition0 waits 27 % of the CTA's time at barrier wait" in top["evidence"]


def test_waits_of_a_pipelined_loop() -> None:
    top = captured("softmax-heavy-0").findings().iloc[0]
    assert (top["finding"], top["line"]) == ("few-stages", 21)
    assert top["confidence"] == "high"  # copies are paired with their waits
    assert "copies are in flight for" in top["evidence"]


def test_values_stand_without_a_gain() -> None:
    clean = regular_profile(launches=1, ctas=264, iterations=60, sms=132)
    scopes = clean.df["scope"].cat.rename_categories({"load A": "values of load A"})
    rows = len(clean.df)
    seen = pd.array([0] * rows, "Int32")
    seen[28] = 5
    columns = {"nans": seen, "infs": pd.array([0] * rows, "Int32"), "min": [0.0] * rows, "max": [1.0] * rows}
    table = Profile(clean.df.assign(scope=scopes, **columns), clean.launches, clean.metadata).findings()
    (row,) = table.to_dict("records")
    assert (row["finding"], row["gain_pct"]) == ("nan", 0.0)
    assert row["line"] == clean.df["line"].iloc[28]
    assert "has 5 in CTA 0" in row["evidence"]


def test_what_was_left_out_is_not_judged() -> None:
    lost = regular_profile(launches=1, ctas=4)
    table = Profile(lost.df, lost.launches.assign(dropped=7), lost.metadata).findings()
    assert table.empty
    assert table.attrs["not_measured"] == [
        "matmul_kernel: all: all its launches lost records, or CTAs that did not come to their end"
    ]
    some = Profile(lost.df, lost.launches.assign(grid_x=400), lost.metadata).findings()
    assert (
        "matmul_kernel: tail, idle-sms, load-imbalance: only some of the CTAs were recorded"
        in some.attrs["not_measured"]
    )


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(20))
@given(profiles())
def test_any_profile_is_judged(profile: Profile) -> None:
    table = profile.findings()
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == FINDING_DTYPES
    assert table["gain_pct"].between(0, 100).all()
    assert table["gain_pct"].is_monotonic_decreasing
    assert table["confidence"].isin(["high", "medium", "low"]).all()
    assert (table["evidence"] != "").all()
    assert (table["advice"] != "").all()
    path = profile.timeline.critical_path()
    assert path["share"].between(0, 1).all()


def test_samples_are_evidence_too() -> None:
    gpu = captured("softmax-heavy-0")
    (row,) = gpu.findings().query("finding == 'few-stages'").to_dict("records")
    assert "hardware samples" not in row["evidence"]
    same = {"kernel": "softmax_kernel", "variant": 0, "blamed_file": row["file"]}
    samples = pd.DataFrame(
        [
            same | {"binary": "bare", "stall": "long_scoreboard", "blamed_line": row["line"], "samples": 400},
            same | {"binary": "bare", "stall": "wait", "blamed_line": row["line"], "samples": 20},
            same | {"binary": "bare", "stall": "selected", "blamed_line": row["line"], "samples": 80},
            same | {"binary": "bare", "stall": "barrier", "blamed_line": 1, "samples": 500},
            same | {"binary": "spans", "stall": "barrier", "blamed_line": row["line"], "samples": 9000},
        ]
    )
    sampled = replace(gpu)
    object.__setattr__(sampled, "samples", samples)
    evidence = sampled.findings().query("finding == 'few-stages'")["evidence"].iloc[0]
    assert evidence == row["evidence"] + (
        "; 42 % of 1,000 hardware samples are stalls that this line is to blame for, most of them "
        "long_scoreboard"
    )
    several = stalled_on(sampled.tables, "softmax_kernel", 0, row["file"], (row["line"], 1))
    assert several.startswith(
        f"; 92 % of 1,000 hardware samples are stalls that lines 1 and {row['line']} are"
    )


def test_an_emulated_profile_says_so() -> None:
    gpu = captured("softmax-heavy-0")
    emulated = replace(gpu, metadata=gpu.metadata | {"backend": "emulator"})
    assert emulated.findings()["evidence"].str.endswith("(cycles of the emulator's cost model)").all()


SOURCE = """def k(x, n, B):
    x += n
    for i in range(0, n, B):
        cols = i + arange(B)
        a = tl.load(x + cols, mask=cols < n)
    for i in range(0, n, B):
        cols = i + arange(B)
        b = tl.load(x + cols, mask=cols < n, other=1.0)
"""


@pytest.mark.parametrize(
    ("source", "again"),
    [
        (SOURCE, True),
        (SOURCE.replace("        b", "        x += 1\n        b"), False),
        (SOURCE.replace("b = tl.load(x + cols", "b = tl.load(y + cols"), False),
        ("range(1, n".join(SOURCE.rsplit("range(0, n", 1)), False),
        (SOURCE.replace("        a = tl.load(x + cols", "        a = tl.load(x"), False),
    ],
    ids=["the same", "a pointer that moved", "another pointer", "another loop", "another expression"],
)  # fmt: skip
def test_loads_that_read_the_same(source: str, again: bool) -> None:
    loads = [at for at, text in enumerate(source.splitlines(), 1) if "tl.load" in text]
    loops = [at for at, text in enumerate(source.splitlines(), 1) if "for i in" in text]
    rows: list[tuple[Any, ...]] = [("k", "kernel", 1, -1, 0, -1, 0, 4000)]
    for number, (loop, line) in enumerate(zip(loops, loads, strict=True)):
        rows.append((f"loop {number}", "loop", loop, -1, 1, 0, 1900 * number, 1900))
        rows.append((f"load {number}", "op", line, 0, 2, len(rows) - 1, 1900 * number, 1000))
    names = ("scope", "kind", "line", "iteration", "depth", "parent", "start_cycle", "duration_cycles")
    columns: dict[str, Any] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    columns |= {"start_ns": columns["start_cycle"], "duration_ns": columns["duration_cycles"]}
    columns |= {name: [0] * len(rows) for name in ("launch", "cta", "sm", "warp")}
    columns |= {"kernel": ["k"] * len(rows), "file": ["k.py"] * len(rows)}
    told = {"sources": [{"name": "k", "file": "k.py", "line": 1, "text": source, "sha256": ""}]}
    table = Profile(spans_frame(columns), launch_table([0], ["k"], grid_x=[1], ctas=[1]), told).findings()
    assert ("redundant-load" in set(table["finding"])) == again
    if again:
        assert table["line"][table["finding"] == "redundant-load"].tolist() == [8]


def test_a_load_that_reads_the_same_in_each_step() -> None:
    source = """def k(x, w, n, B):
    for i in range(0, n, B):
        a = tl.load(
            x + i + arange(B),
            mask=i < n,
        )
        b = tl.load(w + arange(B))
"""
    first, second = loads_of(dict(enumerate(source.splitlines(), 1)))
    assert (first.line, first.pointer, first.invariant) == (3, "x+i+arange(B)", False)
    assert (second.line, second.invariant) == (7, True)
    assert first.loop is not None
    assert first.loop.header == "range(0, n, B)"
    rows: list[Row] = [("k", "kernel", 1, -1, -1, 0, 4000), ("loop L2", "loop", 2, -1, 0, 0, 4000)]
    for at in range(4):
        rows += [("load b", "op", 7, at, 1, 1000 * at, 530), ("store", "op", 9, at, 1, 1000 * at + 530, 20)]
    told = {"sources": [{"name": "k", "file": "k.py", "line": 1, "text": source, "sha256": ""}]}
    table = made_up(rows, **told).findings().set_index("finding")
    assert table.loc["redundant-load", "gain_pct"] == pytest.approx(100 * 3 * 500 / 4000)
    assert "reads the same in each step" in table.loc["redundant-load", "evidence"]
    # The source of a binary that was built in another copy of the program.
    elsewhere = [told["sources"][0] | {"file": "/another/copy/k.py"}]
    assert "redundant-load" in set(made_up(rows, sources=elsewhere).findings()["finding"])
    two = [*elsewhere, told["sources"][0] | {"file": "/a/third/k.py"}]
    assert "redundant-load" not in set(made_up(rows, sources=two).findings()["finding"])


OPS = st.sampled_from([
    "load x", "load x latency", "store", "async copy a", "async wait a", "tma load", "barrier wait a",
    "dot issue acc", "dot wait acc", "dot acc", "atomic x", "convert layout", "local load y", "barrier",
    "reduce x", "exp2 p", "k", "loop L3",
])  # fmt: skip


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    """Metadata of any shape that causes look at."""
    number = st.integers(0, 300_000)
    some = st.none() | st.integers(0, 64)
    build = {"build": draw(st.sampled_from(["bare", "instrumented"])), "registers": draw(some)}
    build |= {"spills": draw(some), "ctas_per_sm": draw(some), "shared_bytes": draw(st.none() | number)}
    configuration = {"variant": 0, "num_warps": draw(some), "num_stages": draw(some), "builds": [build]}
    names = ["smsp__thread_inst_executed_pred_on_per_inst_executed.ratio", "dram__bytes_read.sum",
             "dram__bytes_write.sum"]  # fmt: skip
    metrics = {name: [draw(st.floats(0, 1e12)), ""] for name in names if draw(st.booleans())}
    scopes = [
        {"scope": draw(OPS), "kind": "op", "file": "", "line": draw(st.integers(0, 3)), "call_path": ""}
        | {"measures": "issue", "bytes": draw(number), "flops": draw(number)}
        for _ in range(draw(st.integers(0, 3)))
    ]
    work = {"variant": 0, "launches": draw(st.integers(0, 2)), "ns": 100, "scopes": scopes}
    source = draw(st.sampled_from([SOURCE, "def k(", "", "x = tl.load()"]))
    device = {"name": draw(st.sampled_from(["NVIDIA H200", "?"])), "sm_count": draw(some), "arch": "sm_90"}
    return {
        "device": device,
        "options": {"instrument": draw(st.sampled_from(["default", "heavy"]))},
        "sources": [{"name": "k", "file": "", "line": 1, "text": source, "sha256": ""}],
        "configuration": configuration,
        "work": [work],
        "metrics": metrics,
    }


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(15), deadline=None)
@given(profiles(names=OPS), told())
def test_no_cause_raises_on_any_profile_of_ops(profile: Profile, told: dict[str, Any]) -> None:
    kernels = profile.launches["kernel"].unique().tolist()
    metadata = profile.metadata | {name: told[name] for name in ("device", "options", "sources")}
    metadata["variants"] = {kernel: [told["configuration"]] for kernel in kernels}
    metadata["kernels"] = {kernel: {"work": told["work"]} for kernel in kernels}
    asked = Profile(profile.df, profile.launches, metadata)
    table = asked.findings()
    assert table["gain_pct"].between(0, 100).all()
    assert table["gain_pct"].is_monotonic_decreasing
    assert (table["evidence"] != "").all()
    parts = asked.timeline.overlap()[["copies", "dots", "other", "none"]]
    assert (((parts >= 0) & (parts <= 1)) | parts.isna()).all(axis=None)
    assert roof_table(asked.tables)["peak_pct"].dropna().between(0, 100).all()
    assert asked.timeline.critical_path()["share"].between(0, 1).all()
