"""The tables of evidence that an H200 gave, against Nsight Compute's figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from profscope.analysis.limits import LIMITS_DTYPES, RESOURCES, BareTime, bound_by, limits_of
from profscope.evidence.metrics import COUNTERS
from profscope.evidence.subject import CounterValues
from profscope.evidence.tables import counters_table, counts_table
from profscope.schema import COUNT_DTYPES, COUNTER_DTYPES
from tests.support.h200_evidence import KERNELS, counted, number, subject, values

# They wait for a barrier in shared memory by asking again and again: no two launches execute as many.
SPINNING = {"TMA matmul", "warp-specialised"}


@pytest.fixture(scope="module")
def counters() -> pd.DataFrame:
    table, notes = counters_table([values(name) for name in KERNELS], number)
    assert notes == []
    return table


def test_counts_have_the_places_of_their_instructions() -> None:
    table, notes = counts_table([counted("gather")], number)
    assert notes == []
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == dict(COUNT_DTYPES)
    loads = table[table["sectors"] > table["sectors_ideal"]]
    assert set(loads["opcode"]) == {"LDG.E"}
    assert loads["sectors"].tolist()[-1] == 2_097_138
    assert set(loads["sectors_ideal"]) == {262_144}
    ((file, line, column),) = loads[["file", "line", "column"]].drop_duplicates().to_numpy().tolist()
    assert Path(file).name == "evidence_kernels.py"
    of_line = table[table["line"] == line]
    assert "STG.E.128" in of_line["opcode"].tolist()
    assert set(of_line.loc[of_line["column"] == column, "opcode"]) >= {"LDG.E"}
    assert (table["threads"] <= 32 * table["executed"]).all()


def test_a_column_without_swizzle_takes_all_wavefronts() -> None:
    table, _ = counts_table([counted("transpose, unswizzled")], number)
    worst = table.loc[table["wavefronts"].idxmax()]
    assert str(worst["opcode"]).startswith("LDS")
    assert worst["wavefronts"] == 32 * worst["wavefronts_ideal"]


def test_launches_of_one_binary_add_up_and_others_are_noted() -> None:
    other = counted("gather", cubin=b"other", shape=(2,))
    table, notes = counts_table([counted("gather"), counted("gather", shape=(1,)), other], number)
    once, _ = counts_table([counted("gather")], number)
    assert table["executed"].tolist() == (2 * once["executed"]).tolist()
    assert set(table["launches"]) == {2}
    assert [note.partition(": ")[0] for note in notes] == ["gather"]


def test_a_binary_that_cannot_be_read_has_counts_without_places() -> None:
    table, notes = counts_table([counted("gather", cubin=b"no cubin")], number)
    assert table["executed"].sum() == KERNELS["gather"]["totals"]["executed"]
    assert set(table["opcode"]) == {""}
    assert set(table["line"]) == {0}
    assert notes[0].startswith("gather: counts have no lines")


@pytest.mark.parametrize("name", KERNELS)
def test_counts_equal_those_of_nsight_compute(name: str) -> None:
    ours, theirs = KERNELS[name]["totals"], KERNELS[name]["ncu"]
    apart = 0.001 if name in SPINNING else 0.0
    assert ours["executed"] == pytest.approx(theirs["smsp__sass_inst_executed.sum"], rel=apart)
    assert ours["threads"] == pytest.approx(
        theirs["smsp__sass_thread_inst_executed_pred_on.sum"], rel=apart, abs=0 if not apart else 1e7
    )
    sectors = theirs["smsp__sass_sectors_mem_global.sum"]
    assert ours["sectors"] == pytest.approx(sectors, rel=5e-5)  # async copies join sectors by chance
    assert ours["wavefronts"] == theirs["smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum"]


@pytest.mark.parametrize("name", KERNELS)
def test_counts_and_counters_agree(name: str) -> None:
    executed = KERNELS[name]["counters"]["sm__inst_executed.sum"]
    assert KERNELS[name]["totals"]["executed"] == pytest.approx(executed, rel=0.03 if name in SPINNING else 0)


def test_counters_have_a_row_each(counters: pd.DataFrame) -> None:
    assert {name: str(dtype) for name, dtype in counters.dtypes.items()} == dict(COUNTER_DTYPES)
    rows = counters[counters["kernel"] == "copy"].set_index("counter")
    assert rows.index.tolist() == [counter.name for counter in COUNTERS]
    assert rows.loc["dram_read", "value"] == pytest.approx(4 * (1 << 26), rel=0.01)
    assert rows.loc["dram_read", "unit"] == "B"
    assert rows.loc["time", "metric"] == "gpu__time_duration.sum"
    assert rows.loc["instructions", "value"] == KERNELS["copy"]["totals"]["executed"]
    assert set(rows["launches"]) == {12}


PARTS = json.loads((Path(__file__).parents[1] / "data/evidence/h100_l1.json").read_text())
"""By kernel of `bench.evidence`: NVIDIA's throughput of L1 and all of its parts, on an H100 (2026-11-27)."""


@pytest.mark.parametrize("name", PARTS)
def test_the_busiest_part_of_l1_is_its_throughput(name: str) -> None:
    parts = {
        f"l1tex__{part}.avg.pct_of_peak_sustained_elapsed": value
        for part, value in PARTS[name].items()
        if part != "throughput"
    }
    l1 = next(counter for counter in COUNTERS if counter.name == "l1_throughput")
    counted = dict.fromkeys(l1.metrics, 0.0) | parts
    table, _ = counters_table([CounterValues(subject("copy"), counted, 4)], number)
    (row,) = table.itertuples()
    assert (row.counter, row.value, row.peak_pct) == ("l1_throughput", PARTS[name]["throughput"], row.value)
    assert parts[row.metric] == row.value


def test_a_ratio_of_nothing_is_null(counters: pd.DataFrame) -> None:
    tma = counters[counters["kernel"] == "TMA matmul"].set_index("counter")["value"]
    assert tma["tma_load"] > 0
    nothing = CounterValues(subject("copy"), dict.fromkeys(KERNELS["copy"]["counters"], float("nan")), 12)
    table, _ = counters_table([nothing], number)
    assert table["value"].isna().all()
    assert bound_by(limits_of(table)) == "bound by: unknown"


def test_the_longest_shape_stands_for_a_configuration() -> None:
    longer = {**KERNELS["copy"]["counters"], "gpu__time_duration.sum": 1e9}
    results = [values("copy"), CounterValues(subject("copy", shape=(1,)), longer, 12)]
    table, notes = counters_table(results, number)
    assert table.set_index("counter").loc["time", "value"] == 1e9
    assert [note.partition(": ")[0] for note in notes] == ["copy"]


def test_a_users_metric_has_a_row() -> None:
    counted = {**KERNELS["copy"]["counters"], "lts__t_sectors_op_red.sum": 7.0}
    table, _ = counters_table(
        [CounterValues(subject("copy"), counted, 12)], number, ["lts__t_sectors_op_red.sum"]
    )
    row = table.iloc[-1]
    assert [row["counter"], row["value"]] == ["lts__t_sectors_op_red.sum", 7.0]


def test_limits_have_a_row_for_each_resource(counters: pd.DataFrame) -> None:
    table = limits_of(counters)
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == dict(LIMITS_DTYPES)
    assert len(table) == len(KERNELS) * len(RESOURCES)
    copy = table[table["kernel"] == "copy"].set_index("resource")
    assert copy.loc["dram", "unit"] == "GB/s"
    assert copy.loc["dram", "peak"] == pytest.approx(4_800, rel=0.02)  # HBM3e of an H200
    dot = table[table["kernel"] == "float32 dot"].set_index("resource")
    assert dot.loc["fma", "peak"] == pytest.approx(4, rel=0.01)
    assert dot.loc["tensor", "used"] == 0


def test_counts_stand_for_counters_that_are_missing(counters: pd.DataFrame) -> None:
    """At the time and clock of the counters they say the same of each pipe."""
    name = "transpose, unswizzled"
    counts, _ = counts_table([counted(name)], number)
    known = KERNELS[name]["counters"]
    clock = known["gpc__cycles_elapsed.avg.per_second"]
    time = BareTime(1e-9 * known["gpu__time_duration.sum"] * clock, sms=132, capability=90)
    table = limits_of(counters.iloc[:0], counts, {(name, 0): time}).set_index("resource")
    exact = limits_of(counters[counters["kernel"] == name]).set_index("resource")
    for resource in ("issue", "fma", "alu", "lsu", "shared"):
        assert table.loc[resource, "peak_pct"] == pytest.approx(exact.loc[resource, "peak_pct"], abs=1)
        assert table.loc[resource, "basis"] == "counts"
        assert table.loc[resource, "unit"] == exact.loc[resource, "unit"]
    assert np.isnan(table.loc["dram", "used"])
    assert bound_by(table.reset_index()) == "bound by shared memory (98 %)"
    assert limits_of(counters.iloc[:0], counts)["peak_pct"].isna().all()


@pytest.mark.parametrize("capability", [80, 86, 89, 90])
def test_by_counts_alone_no_kernel_is_latency_bound(capability: int) -> None:
    """Nobody knows what it takes of DRAM, L2 and the tensor cores."""
    counts, _ = counts_table([counted("transpose, unswizzled")], number)
    time = BareTime(1e12, sms=132, capability=capability)
    none = pd.DataFrame(columns=list(COUNTER_DTYPES))
    table = limits_of(none, counts, {("transpose, unswizzled", 0): time})
    assert (table["peak_pct"].dropna() < 1).all()
    assert bound_by(table) == "bound by: unknown"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("copy", "bound by DRAM (87 %)"),
        ("matmul", "bound by the tensor pipe (76 %)"),
        ("gather", "bound by L2 (94 %)"),
        ("float32 dot", "bound by issue slots (74 %)"),
        ("transpose, unswizzled", "bound by shared memory (98 %)"),
        ("atomics", "latency-bound"),
    ],
)
def test_verdicts(counters: pd.DataFrame, name: str, said: str) -> None:
    table = limits_of(counters)
    assert bound_by(table[table["kernel"] == name]) == said
