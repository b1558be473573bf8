"""Nsight Compute's raw page beside what a profile says of its kernels."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces.ncu import read_ncu
from tests.support.profiles import launch_table, regular_profile

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "matmul.csv"
SPANS = regular_profile(launches=2, ctas=8, warps=2, iterations=2)


def test_a_report_is_read() -> None:
    first, fill, last = read_ncu(REPORT)
    assert (first.kernel, first.grid, first.block) == ("matmul_kernel", (8, 1, 1), (128, 1, 1))
    assert first.metrics["dram__bytes_read.sum"] == (1_002_500_000, "byte")
    assert first.metrics["gpu__time_duration.sum"] == (pytest.approx(200.5e-6), "s")
    assert first.metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == (61.5, "%")
    assert "launch__cluster_scheduling_policy" not in first.metrics, "which is no number"
    assert fill.kernel == "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
    assert "dram__throughput.avg.pct_of_peak_sustained_elapsed" not in last.metrics


def test_what_it_measured_stands_beside_what_ops_say(tmp_path: Path) -> None:
    profile = SPANS.add_ncu(REPORT)
    assert SPANS.counters()["ncu_launches"].tolist() == [0]
    (row,) = profile.counters().to_dict("records")
    assert row["dram_read_bytes"] == 1_002_000_000
    assert row["ncu_us"] == pytest.approx(200)
    assert row["dram_percent"] == 61.5, "of the launches that have it"
    assert (row["pipe"], row["pipe_percent"]) == ("tensor_op_hmma", 72)
    assert (row["occupancy_percent"], row["ncu_launches"], row["launches"]) == (25, 2, 2)
    assert pd.isna(row["l2_bytes"])
    assert profile.metadata["ncu"]["unmatched"] == [read_ncu(REPORT)[1].kernel]
    (about,) = profile.lines().attrs["counters"]
    assert (about["kernel"], about["ncu_launches"], about["l2_bytes"]) == ("matmul_kernel", 2, None)
    profile.save(tmp_path / "t.json")
    assert profscope.load(tmp_path / "t.json").metadata["ncu"] == profile.metadata["ncu"]
    assert "ncu" not in SPANS.metadata


def test_a_metric_of_no_unit_is_not_shown(tmp_path: Path) -> None:
    text = REPORT.read_text().replace('"Mbyte","byte","%","us"', '"","byte","","cycle"')
    (tmp_path / "r.csv").write_text(text)
    profile = SPANS.add_ncu(tmp_path / "r.csv")
    (row,) = profile.counters().to_dict("records")
    assert [pd.isna(row[name]) for name in ("dram_read_bytes", "dram_percent", "ncu_us")] == [True] * 3
    assert row["dram_write_bytes"] == 4097
    assert profile.metadata["ncu"]["kernels"][0]["metrics"]["gpu__time_duration.sum"] == [200, "cycle"]


def test_bytes_and_flops_are_of_one_launch() -> None:
    scope = {"kind": "op", "file": "/src/kernels/matmul.py", "call_path": "", "measures": "issue", "flops": 0}
    scopes = [
        {**scope, "scope": "load A", "line": 23, "bytes": 4096},
        {**scope, "scope": "dot", "line": 27, "bytes": 0, "flops": 640},
        {**scope, "scope": "store", "line": 40, "bytes": 1024},
    ]
    work = [{"variant": 0, "trial": False, "launches": 2, "ns": 1, "scopes": scopes}]
    profile = Profile.of(
        replace(SPANS, metadata={**SPANS.metadata, "kernels": {"matmul_kernel": {"work": work}}})
    )
    (row,) = profile.counters().to_dict("records")
    assert (row["bytes_at_most"], row["flops"]) == (2560, 320)


def report(*rows: tuple[str, str, str], old: bool = False) -> str:
    """Of kernel, grid and duration in ns. old: without columns for sizes, and units behind the names."""
    header = ["ID", "Kernel Name", "Grid Size", "gpu__time_duration.sum"]
    body = [[str(at), kernel, grid, ns] for at, (kernel, grid, ns) in enumerate(rows)]
    units = [["", "", "", "nsecond"]]
    if old:
        header = ["ID", "Kernel Name", *(f"launch__grid_dim_{axis}" for axis in "xyz")]
        header, units = [*header, "gpu__time_duration.sum [nsecond]"], []
        body = [[at, kernel, *grid.strip("()").split(", "), ns] for at, kernel, grid, ns in body]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, *units, *body])
    return text.getvalue()


TWO = launch_table(
    [0, 1, 2], ["k", "k", "k"], variant=[0, 1, 0], grid_x=[4, 8, 4], num_ctas=[1, 2, 1], start_ns=[0, 1, 2]
)


@pytest.mark.parametrize("old", [False, True])
def test_configurations_are_told_by_their_grids(old: bool, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    rows = [
        ("k", "(16, 1, 1)", "5"),
        ("k(int*)", "(4, 1, 1)", "7"),
        ("k", "(5, 1, 1)", "9"),
        ("k", "(4, 1, 1)", "9"),
    ]
    path.write_text(report(*rows, old=old))
    profile = Profile(launches=TWO).add_ncu(path)
    times = profile.counters().set_index("variant")["ncu_us"]
    assert times.to_dict() == pytest.approx({1: 0.005, 0: 0.008})
    assert profile.metadata["ncu"]["unmatched"] == ["k"]
    path.write_text(report(("k", "(16, 1, 1)", "50")))
    again = profile.add_ncu(path).counters().set_index("variant")["ncu_us"]
    assert again.to_dict() == pytest.approx({1: 0.05, 0: 0.008}), "what is not measured anew stays"


def test_or_by_the_order_of_launches(tmp_path: Path) -> None:
    launches = TWO.assign(grid_x=4, num_ctas=1).astype(TWO.dtypes)
    (tmp_path / "r.csv").write_text(report(*[("k", "(4, 1, 1)", ns) for ns in ("1", "2", "5")]))
    times = Profile(launches=launches).add_ncu(tmp_path / "r.csv").counters().set_index("variant")["ncu_us"]
    assert times.to_dict() == pytest.approx({0: 0.003, 1: 0.002})
    (tmp_path / "r.csv").write_text(report(*[("k", "(4, 1, 1)", ns) for ns in ("1", "2")]))
    with pytest.raises(TraceError, match="no kernel of this profile: it has k; the profile has k"):
        Profile(launches=launches).add_ncu(tmp_path / "r.csv")


DETAILS = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","k","Duration","us","3"\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no CSV of Nsight Compute's raw page; ncu --csv --page raw --import"),
        (b"a,b\n1,2\n", "no CSV of Nsight Compute's raw page"),
        (DETAILS.encode(), "one row a metric, and not Nsight Compute's raw page"),
        (b"NVR\x00\xff\xfe\x80", "not text but, if anything, a report"),
        (report().encode(), "has no launch"),
        (b'"' + b"x" * 200_000, "is no CSV: field larger than field limit"),
        (report(("other", "(1, 1, 1)", "5")).encode(), "it has other; the profile has matmul_kernel"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(content)
    with pytest.raises(TraceError, match=said):
        SPANS.add_ncu(tmp_path / "r.csv")
    with pytest.raises(TraceError, match=r"cannot read .*missing\.csv: No such file"):
        SPANS.add_ncu(tmp_path / "missing.csv")


FIELDS = st.text(max_size=9) | st.sampled_from(["0", "1", "nan", "1e999", "(1, 1, 1)"])


@given(st.text(max_size=100), st.lists(st.lists(FIELDS, max_size=5), max_size=6))
def test_no_content_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, before: str, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    text = io.StringIO()
    csv.writer(text).writerows([["ID", "Kernel Name", "Grid Size", "launch__grid_dim_x", "a__b [ms]"], *rows])
    path.write_text(f"{before}\n{text.getvalue()}", errors="replace")
    try:
        launches = read_ncu(path)
    except TraceError:
        return
    assert launches
