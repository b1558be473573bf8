"""Bytes, flops, rates and what spans measure, per scope: on the emulator and on what an H200 wrote."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import make_tables
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.errors import OptionError
from profscope.profiles import Profile
from profscope.viewer.header import render_header
from profscope.viewer.scopes import render_table
from tests.kernels.add import add_kernel
from tests.support.captured import captured
from tests.support.models import shown
from tests.support.programs import BODY
from tests.support.quick import quick
from tests.support.synth import Loop, Program, Work, launch

# ruff: noqa: N803

N = 5000


def add(n: int = N, **options: Any) -> profscope.Session:
    x = torch.arange(n, dtype=torch.float32)
    with profscope.session(backend="emulator", **options) as prof:
        add_kernel[(triton.cdiv(n, 1024),)](x, x, torch.empty_like(x), n, BLOCK=1024)
    return prof


def by_scope(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["kind"] == "op"].set_index("scope")


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK, num_stages=1):
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)


# Bytes and flops.


def test_an_add_moves_twelve_bytes_an_element() -> None:
    prof = add(5 * 1024)
    full = prof.summary()
    assert full["bytes_at_most"].sum() == 12 * 5 * 1024
    assert by_scope(full).loc["load x", "bytes_at_most"] == 4 * 5 * 1024
    assert full["flops"].isna().all()
    masked = add(N).summary()
    assert masked["bytes_at_most"].sum() == 12 * 5 * 1024  # whole tiles: an upper bound


@pytest.mark.parametrize("num_warps", quick([1, 4], [4]))
def test_a_matmul_computes_two_m_n_k_flops_however_many_warps_share_it(num_warps: int) -> None:
    m, n, k = 64, 96, 128
    a, b = torch.ones(m, k).half(), torch.ones(k, n).half()
    with profscope.session(backend="emulator", instrument="heavy") as prof:
        dot_kernel[(m // 32, n // 32)](a, b, torch.empty(m, n), n, k, BLOCK=32, num_warps=num_warps)
    ops = by_scope(prof.summary())
    assert ops.loc["dot total", "flops"] == 2 * m * n * k
    tiles = (m // 32) * (n // 32)
    assert ops.loc["load a", "bytes_at_most"] == 2 * tiles * 32 * k  # every tile of c reads its rows of a
    assert ops.loc["store", "bytes_at_most"] == 4 * m * n


def test_a_report_has_the_ops_that_move_most_first() -> None:
    tables = add().tables
    metadata = copy.deepcopy(tables.metadata)
    scopes = metadata["kernels"]["add_kernel"]["work"][0]["scopes"]
    for scope, size in zip(scopes, (4000, 8000, 0), strict=True):
        scope["bytes"] = size
    (kernel,) = Profile.of(replace(tables, metadata=metadata)).report()["kernels"]
    moved = [(op, each["bytes_at_most"]) for op, each in kernel["work"]["bytes_by_op"].items()]
    assert moved == [("load y", 8000), ("load x", 4000)]


@pytest.mark.parametrize(("name", "op"), [("add-heavy-0", "load x"), ("matmul-heavy-0", "store")])
def test_rates_on_a_gpu_are_over_the_launchs_time(name: str, op: str) -> None:
    profile = captured(name)
    (row,) = profile.launches.itertuples()
    found = by_scope(profile.summary()).loc[op]
    assert found["bytes_at_most"] > 0
    assert found["gb_per_s_at_most"] == pytest.approx(found["bytes_at_most"] / (row.end_ns - row.start_ns))
    assert 0 < found["gb_per_s_at_most"] < 4800  # what an H200's memory can move


def test_launches_that_lost_records_are_left_out_of_the_rates() -> None:
    lost = captured("while-heavy-16-0")
    assert lost.launches["dropped"].sum() > 0
    summary = lost.summary()
    assert summary[["bytes_at_most", "flops"]].isna().all(axis=None)
    assert summary[["gb_per_s_at_most", "tflop_per_s"]].isna().all(axis=None)
    both = captured("while-heavy-16-0", "while-heavy-0")
    whole = captured("while-heavy-0").summary()
    ops = by_scope(both.summary())
    assert ops["bytes_at_most"].isna().all()  # of all launches: not known
    # Not to the last digit: the launches share the fit of one clock.
    of_both, of_whole = (table["gb_per_s_at_most"].dropna().to_dict() for table in (ops, by_scope(whole)))
    assert of_both == pytest.approx(of_whole, rel=0.01)


def test_of_launches_with_sampled_ctas_no_rate_is_known() -> None:
    """The launch went on for as long as CTAs ran that were not recorded."""
    whole = captured("matmul-heavy-0")
    launches = whole.launches.assign(ctas=whole.launches["ctas"] // 2)
    summary = Profile(whole.tables.df, launches, whole.metadata).summary()
    assert summary["flops"].sum() > 0
    assert summary[["gb_per_s_at_most", "tflop_per_s"]].isna().all(axis=None)


# Sampled CTAs.


def test_a_sampled_summary_is_scaled_up_to_the_grid() -> None:
    every, half = (add(16 * 1024, ctas=stride).summary() for stride in (1, 2))
    assert set(every["sampled"]) == {1.0}
    assert set(half["sampled"]) == {0.5}
    columns = ["scope", "count", "bytes_at_most"]
    pd.testing.assert_frame_equal(
        every[columns].sort_values("scope", ignore_index=True),
        half[columns].sort_values("scope", ignore_index=True),
    )
    assert half["share"].sum() == pytest.approx(1)
    recorded = add(16 * 1024, ctas=2).df
    assert half["total_cycles"].sum() == 2 * recorded["corrected_cycles"].sum()
    kernel = half[half["kind"] == "kernel"].iloc[0]
    assert kernel["mean_cycles"] == recorded[recorded["depth"] == 0]["corrected_cycles"].mean()


def test_a_cta_that_wrote_nothing_leaves_the_totals_unknown() -> None:
    made = launch([Program((Work(3), Loop((2,), BODY)))], ctas=3)
    size = made.manifest.cta_bytes(4)
    made.buffer[2 * size :] = 0
    raw = RawLaunch(0, made.manifest, 0, 0, 3, made.buffer)
    profile = Profile.of(assemble([raw], {"backend": "gpu"}))
    summary = profile.summary()
    assert summary["bytes_at_most"].isna().all()
    assert set(summary["sampled"]) == {1.0}  # nothing stands for it
    assert summary["count"].sum() == len(profile.df)


# What spans on ops measure.


def test_measure_latency_ends_loads_with_their_data() -> None:
    issue, latency = add(), add(measure="latency")
    assert issue.metadata["kernels"]["add_kernel"]["measure"] == "issue"
    assert latency.metadata["kernels"]["add_kernel"]["measure"] == "latency"
    assert [p.metadata["options"]["measure"] for p in (issue, latency)] == ["issue", "latency"]
    first, second = by_scope(issue.summary()), by_scope(latency.summary())
    assert first["measures"].to_dict() == {"load x": "issue", "load y": "issue", "store": "issue"}
    assert second["measures"].to_dict() == {
        "load x latency": "data",
        "load y latency": "data",
        "store": "issue",
    }
    # A global load takes 400 cycles on the emulator (docs/emulator.md).
    issued, arrived = first.loc["load x", "p50_cycles"], second.loc["load x latency", "p50_cycles"]
    assert issued < 200 < issued + 400 <= arrived
    assert second["bytes_at_most"].sum() == 12 * 5 * 1024


def test_waits_measure_completion() -> None:
    ops = captured("matmul-heavy-0").summary()
    assert set(ops[ops["scope"].str.contains("wait")]["measures"]) == {"completion"}
    issued = ops[(ops["kind"] == "op") & ops["scope"].str.startswith("dot issue")]
    assert set(issued["measures"]) == {"issue"}
    assert set(ops[ops["kind"].isin(["kernel", "loop", "iteration", "async"])]["measures"]) == {""}


def test_the_viewer_says_what_was_measured() -> None:
    for prof, said in ((add(), "at their issue"), (add(measure="latency"), "when their data has arrived")):
        lines = [line.plain for line in render_header(shown(prof.profile), 120)]
        assert any(line.startswith("Measured") and said in line for line in lines)


def test_measure_applies_to_lists_of_passes_and_wants_ops() -> None:
    chosen = add(instrument=["kernel-span", "op-spans{classes=load}"], measure="latency")
    assert set(by_scope(chosen.summary()).index) == {"load x latency", "load y latency"}
    kept = add(instrument=["kernel-span", "op-spans{classes=load measure=latency}"])
    assert kept.metadata["kernels"]["add_kernel"]["measure"] == "latency"
    with pytest.raises(OptionError, match="measure='latency' finds no load to measure: instrument='light'"):
        profscope.session(instrument="light", measure="latency")
    with pytest.raises(OptionError, match="measure='arrival' is not one of issue, latency"):
        profscope.session(measure="arrival")


# In files and in the viewer.


def test_the_viewers_table_has_the_rates_where_they_fit() -> None:
    (table,) = make_tables(captured("matmul-heavy-0").tables, "ns", 0, [Group("matmul_kernel")])
    wide, narrow = (render_table(table, width)[1].plain for width in (140, 80))
    assert wide.split()[-2:] == ["GB/s", "TFLOP/s"]
    assert "GB/s" not in narrow
    by_name = {row.scope: row for row in table.rows}
    assert by_name["store"].bytes_at_most is not None
    assert by_name["matmul_kernel"].gb_per_s_at_most is None
