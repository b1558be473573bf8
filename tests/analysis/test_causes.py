"""What spans alone tell: findings of any profile, roofs, and what a CTA and an SM do at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profscope.analysis.findings import FINDING_DTYPES
from profscope.analysis.kernels.roof_rows import roof_table
from profscope.analysis.spans.ctas import shape_of
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.made_up_spans import ROWS, Row, made_up, worked
from tests.support.profiles import profiles, regular_profile


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
    assert (tail.ctas, tail.sms, tail.waves) == (9, 4, 1.125)
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
    assert shape_of(free, 16)[2:] == (17 / 32, 0, pytest.approx(100 * 15 / 32))
    assert shape_of(free, 16, room=16)[2:] == (17 / 256, 0, 0)
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
    assert "session(evidence=True) looks for them" in table.attrs["clean"]["matmul_kernel"]
    assert [text.partition(":")[0] for text in table.attrs["not_measured"]] == ["matmul_kernel"] * 6


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
    device = {"name": draw(st.sampled_from(["NVIDIA H200", "?"])), "sm_count": draw(some), "arch": "sm_90"}
    return {
        "device": device,
        "options": {"instrument": draw(st.sampled_from(["default", "heavy"]))},
        "sources": [{"name": "k", "file": "", "line": 1, "text": "", "sha256": ""}],
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
    gains = table.get("gain_pct", pd.Series(dtype="float64")).dropna()
    assert gains.between(0, 100).all()
    assert gains.is_monotonic_decreasing
    assert (table["evidence"] != "").all()
    parts = asked.timeline.overlap().reindex(columns=["copies", "dots", "other", "none"])
    assert (((parts >= 0) & (parts <= 1)) | parts.isna()).all(axis=None)
    assert asked.timeline.critical_path()["share"].between(0, 1).all()


# Kernels against the roof of their device, and what a CTA and an SM do at once.


def test_a_kernel_is_set_against_the_roof() -> None:
    table = roof_table(worked({("load x", 6): (9.6e6, 0), ("store", 9): (2.4e6, 0)}).tables)
    (row,) = table.to_dict("records")
    assert (row["kernel"], row["ns"], row["bound"]) == ("k", 10_000, "memory")
    assert row["gb_per_s"] == pytest.approx(1200)
    assert row["peak_pct"] == pytest.approx(25)  # of 4,800 GB/s


def test_a_device_that_is_in_no_table_has_the_peaks_that_were_measured() -> None:
    work = {("load x", 6): (9.6e6, 0)}
    peaks = {"dram_gb_s": 1600.0, "dot_fp16_tflops": 200.0}
    measured = roof_table(worked(work, device={"name": "NVIDIA Z1", "peaks": peaks}).tables)
    assert measured["peak_pct"].tolist() == pytest.approx([60])  # of 1,600 GB/s
    named = roof_table(worked(work, device={"name": "NVIDIA H200", "peaks": peaks}).tables)
    assert named["peak_pct"].tolist() == pytest.approx([20])  # of the 4,800 of its data sheet
    for damaged in (peaks | {"dram_gb_s": "1600"}, peaks | {"dot_fp16_tflops": float("nan")}, [1600.0], None):
        unknown = roof_table(worked(work, device={"name": "NVIDIA Z1", "peaks": damaged}).tables)
        assert unknown["peak_pct"].isna().all()


def test_bytes_that_dots_read_again_are_no_roof() -> None:
    rows = [*ROWS, ("dot acc", "op", 7, 1, 1, 7000, 500)]
    work = {("load x", 6): (9.6e6, 0), ("dot acc", 7): (0, 9.894e8)}
    kernel = roof_table(worked(work, rows).tables).iloc[0]
    assert (kernel["bound"], kernel["peak_pct"]) == ("tensor cores", pytest.approx(10.0))
    assert (kernel["bytes"], kernel["flops"]) == (9.6e6, 9.894e8)


def test_without_peaks_or_all_ctas_nothing_is_made_up() -> None:
    work = {("load x", 6): (9.6e6, 0)}
    unknown = roof_table(worked(work, device={"name": "NVIDIA Z1", "sm_count": 4}).tables)
    assert unknown["peak_pct"].isna().all()
    assert unknown.attrs["not_measured"] == [
        "k: no peaks of its device are known (`profscope doctor --measure`)"
    ]
    assert roof_table(worked(work, backend="emulator").tables)["bound"].eq("").all()
    profile = worked(work)
    some = roof_table(Profile(profile.df, profile.launches.assign(grid_x=400), profile.metadata).tables)
    assert some.empty
    assert "only some of the CTAs" in some.attrs["not_measured"][0]
    assert "are unknown" in roof_table(made_up(ROWS).tables).attrs["not_measured"][0]
    assert roof_table(Profile().tables).empty


def test_what_a_cta_does_at_once() -> None:
    rows: list[Row] = [
        ("k", "kernel", 1, -1, -1, 0, 1000),
        ("dot acc", "op", 2, -1, 0, 100, 300),
        ("exp2 p", "op", 3, -1, 0, 400, 200),
        ("barrier", "op", 4, -1, 0, 600, 400),
    ]
    cta, sm = made_up(rows).timeline.overlap().to_dict("records")
    assert (cta["of"], cta["count"], cta["cycles"], sm["of"], sm["count"]) == ("cta", 4, 1000, "sm", 4)
    expected = {"copies": 0, "dots": 0.3, "other": 0.3, "dots_and_other": 0, "none": 0.4}
    assert {name: cta[name] for name in expected} == pytest.approx(expected)
    some = made_up(rows)
    part = Profile(some.df, some.launches.assign(grid_x=400), some.metadata).timeline.overlap()
    assert part["of"].tolist() == ["cta"]
    assert Profile().timeline.overlap().empty


WAITS: list[Row] = [
    ("k", "kernel", 1, -1, -1, 0, 10_000),
    ("loop L5", "loop", 5, -1, 0, 0, 8000),
    ("async wait x", "op", 6, 0, 1, 0, 3000),
    ("async wait x", "op", 6, 1, 1, 4000, 3000),
    ("store", "op", 9, -1, 0, 8000, 2000),
]


def test_what_copies_have_a_part_in_is_not_made_up_where_they_were_not_recorded() -> None:
    """As at the default level, where their waits are, and not the copies."""
    profile = worked({("store", 9): (2.4e6, 0)}, WAITS)
    table = roof_table(profile.tables)
    assert table["bytes"].isna().tolist() == table["gb_per_s"].isna().tolist() == [True]
    assert any(said.startswith("k: bytes of copies") for said in table.attrs["not_measured"])
    overlap = profile.timeline.overlap()
    of_copies = ["copies", "copies_and_dots", "copies_and_other", "none"]
    assert overlap[of_copies].isna().all(axis=None)
    assert overlap["other"].tolist() == pytest.approx([0.4, 0.4])
    (said,) = overlap.attrs["not_measured"]
    assert said.startswith("k: copies")
    assert "instrument='heavy'" in said
    told = profile.report()
    assert told["kernels"][0]["overlap"]["sm"]["none"] is None
    assert any(text.startswith("work.bytes_by_op: copies were not recorded") for text in told["not_measured"])


def test_waits_tell_what_copies_move_that_were_not_recorded() -> None:
    profile = worked({("async wait x", 6): (9.6e6, 0), ("store", 9): (2.4e6, 0)}, WAITS)
    table = roof_table(profile.tables)
    assert table["bytes"].tolist() == [1.2e7]
    assert table["peak_pct"].iloc[0] == pytest.approx(25.0)
    assert profile.timeline.overlap()["copies"].isna().all()  # when they were in flight waits do not tell
    # Where some waits do not tell, nobody knows all bytes.
    rows = [*WAITS, ("barrier wait y", "op", 7, -1, 0, 8500, 100)]
    moved = {("async wait x", 6): (9.6e6, 0), ("store", 9): (2.4e6, 0), ("barrier wait y", 7): (0, 0)}
    assert roof_table(worked(moved, rows).tables)["bytes"].isna().iloc[0]
