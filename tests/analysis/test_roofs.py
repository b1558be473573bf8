"""Kernels against the roof of their device, by the types of their ops."""

from __future__ import annotations

import pytest

from profscope.analysis.kernels.roof_rows import roof_table
from profscope.profiles import Profile
from tests.support.captured import captured
from tests.support.made_up_spans import ROWS, Row, made_up, worked


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
    assert "nobody says" in roof_table(made_up(ROWS).tables).attrs["not_measured"][0]
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


@pytest.mark.parametrize("name", ["softmax-heavy-0", "matmul-heavy-0", "matmul_ws-heavy-0"])
def test_parts_of_real_kernels(name: str) -> None:
    table = captured(name).timeline.overlap()
    parts = table[["copies", "dots", "other", "none"]]
    assert ((parts >= 0) & (parts <= 1)).all(axis=None)
    assert (parts.sum(axis=1) >= 0.999).all()
    assert (table["copies"] > 0.2).all()
    assert (table["dots_and_other"] <= table[["dots", "other"]].min(axis=1) + 1e-9).all()


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
