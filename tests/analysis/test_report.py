"""The report: always the same keys, by its schema, never too long, kernels never mixed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest

import profscope
from profscope.analysis import report as reporting
from profscope.analysis.brief import MOST_BYTES
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.model.build import profile_model
from profscope.analysis.model.in_brief import MOST_KERNELS
from profscope.analysis.model.missing import reasons_once
from profscope.analysis.model.numbers import plain
from profscope.analysis.report import bounded
from profscope.analysis.texts import clipped
from profscope.profiles import Profile, load
from profscope.schema import spans_frame
from tests.support.json_schema import model_schema
from tests.support.made_up_spans import made_up
from tests.support.profiles import launch_table, profile_metadata, regular_profile

DATA = Path(__file__).parents[1] / "data"
SCHEMA = json.loads((Path(reporting.__file__).parent / "report.schema.json").read_text())


def check(told: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    text = json.dumps(told, indent=1, allow_nan=False)
    assert len(text) <= reporting.MOST_CHARACTERS
    assert json.loads(text) == told


def test_the_schema_is_that_of_the_model() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert model_schema() == SCHEMA


def many_kernels(count: int) -> Profile:
    """Kernels with long names and texts, the last of which took longest."""
    names = [f"kernel_{at:04d}_" + "n" * 300 for at in range(count)]
    ends = [1_000 * (at + 1) for at in range(count)]
    launches = launch_table(list(range(count)), names, end_ns=ends)
    columns = {
        "kernel": names,
        "launch": range(count),
        "scope": names,
        "kind": "kernel",
        "file": "/src/" + "d" * 500 + ".py",
        "line": 3,
        "iteration": -1,
        "parent": -1,
        "duration_cycles": ends,
        "duration_ns": ends,
        **dict.fromkeys(("cta", "sm", "warp", "depth", "start_cycle", "start_ns"), 0),
    }
    rows = pd.DataFrame(columns)
    notes = [f"{name}: something happened, " + "é" * 400 for name in names]
    return Profile(spans_frame(rows.to_dict("series")), launches, profile_metadata(notes=notes))


@pytest.mark.parametrize("count", [1, 30])
def test_it_is_never_too_long(count: int) -> None:
    profile = many_kernels(count)
    told = profile.report()
    check(told)
    shown = [each["kernel"][:11] for each in (*told["kernels"], *told["other_kernels"])]
    assert shown == [f"kernel_{count - 1 - at:04d}" for at in range(len(shown))]
    assert len(shown) + told["left_out"]["kernels"] == count
    assert len(shown) == min(count, MOST_KERNELS)
    assert len(told["header"]["notes"]) + told["left_out"]["notes"] == count
    text = profile.brief()
    assert len(text.encode()) <= MOST_BYTES
    in_brief = re.findall(r"^\d+\. (kernel_\d{4})", text, re.MULTILINE)
    assert in_brief == shown[: len(in_brief)]
    assert (f"left out: {count - len(in_brief)} kernels, " in text) == (count > len(in_brief))


@pytest.mark.parametrize(
    ("text", "characters", "cut"),
    [
        ("DRAM: 16 % of peak, 1,069 MB", 26, "DRAM: 16 % of peak,..."),
        ("DRAM: 16 % of peak", 9, "DRAM:..."),
        ("a_kernel_12345 is slow", 15, "a_kernel_123..."),
        ("0" * 20, 10, "0000000..."),
        ("short", 10, "short"),
    ],
)
def test_a_text_is_not_cut_within_a_number(text: str, characters: int, cut: str) -> None:
    assert clipped(text, characters) == cut
    assert len(clipped(text, characters)) <= characters


def test_the_text_of_a_line_is_that_of_the_profile() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=2)
    line = profile.report()["kernels"][0]["lines"]["rows"][0]
    source = {"name": "other", "file": line["file"], "line": line["line"] - 1, "text": "first\n  second\n"}
    profile.metadata["sources"] = [{**source, "sha256": "0" * 64}]
    told = profile.report()["kernels"][0]
    assert told["lines"]["rows"][0]["source"] == "second"
    assert told["source"] is None  # that text is another function's


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("@triton.jit\ndef f(x):\n    pass\n", 8),
        ("def f(x):\n    pass\n", 7),
        ("@autotune(\n    [],\n    key=['default'],\n)\n@triton.jit\ndef f(x):\n    pass\n", 12),
        ("", 7),
    ],
)
def test_the_source_of_a_kernel_is_its_def(text: str, line: int) -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    (kernel,) = profile.launches["kernel"].unique()
    profile.metadata["sources"] = [
        {"name": kernel, "file": "/a.py", "line": 7, "text": text, "sha256": "0" * 64}
    ]
    assert profile.report()["kernels"][0]["source"]["line"] == line


def test_what_is_missing_is_said_and_the_peaks_of_the_device() -> None:
    told = regular_profile(launches=1).report()
    peaks = told["header"]["device"]["peaks"]
    assert [peaks[f"tensor_{bits}bit_tflop_per_s"] for bits in (8, 16, 32)] == [1978.9, 989.4, 494.7]
    said = " ".join(told["not_measured"])
    for missing in (
        "account: ",
        "findings",
        "session(baseline=)",
        "clock_read_cycles",
    ):
        assert missing in said
    check(Profile().report())


def test_a_constexpr_that_is_no_number_of_json_is_a_text() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1)
    variant = {"variant": 0, "key": "k", "constexprs": {"LOW": float("-inf"), "SCALE": 0.5}}
    profile.metadata["variants"] = {"matmul_kernel": [variant]}
    told = profile.report()
    check(told)
    assert told["kernels"][0]["configuration"]["constexprs"] == {"LOW": "-inf", "SCALE": 0.5}


def test_what_an_altered_trace_says_of_its_device_and_constants_is_cut() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1)
    profile.metadata["device"] = {"name": "NVIDIA H200", "arch": "x" * 30_000, "sm_count": "x"}
    variant = {"variant": 0, "key": "k", "constexprs": {"N": 10**4000, "M": -(2**63)}}
    profile.metadata["variants"] = {"matmul_kernel": [variant]}
    told = profile.report()
    check(told)
    assert told["header"]["device"]["arch"] == "x" * 397 + "..."
    assert told["header"]["device"]["sm_count"] is None
    (kernel,) = told["kernels"]
    assert kernel["configuration"]["constexprs"] == {"N": "an integer of 13288 bits", "M": -(2**63)}


def test_bare_times_of_the_emulator_are_in_cycles() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1)
    profile.metadata["variants"] = {"matmul_kernel": [{"variant": 0, "key": "k"}]}
    timed = {"key": "k", "bare_ns": [4000.0], "instrumented_ns": [4100.0], "waited": 0}
    profile.metadata["baseline"] = {"pairs": 2, "kernels": {"matmul_kernel": [timed]}}
    assert profile.report()["kernels"][0]["bare_time"]["median"] == 4000
    profile.metadata["backend"] = "emulator"
    assert profile.report()["kernels"][0]["bare_time"] is None  # of which clock is not known
    profile.metadata["device"] = {"clock_khz": 1_250_000}
    bare_time = profile.report()["kernels"][0]["bare_time"]
    assert (bare_time["median"], bare_time["unit"]) == (5000, "cycles")


def test_cycles_of_the_emulator_are_no_ns() -> None:
    """What is in ns on a GPU is in cycles, and lines stand by these."""
    real = regular_profile(launches=3, ctas=4, warps=2)
    df = real.df.assign(duration_ns=real.df["duration_ns"].to_numpy()[::-1])  # of no order that cycles have
    profile = Profile(df, real.launches, {**real.metadata, "backend": "emulator"})
    told = profile.report()
    check(told)
    assert told["unit"] == told["kernels"][0]["time"]["unit"] == "cycles"
    assert told["header"]["device"]["max_clock_ghz"] is None
    (kernel,) = told["kernels"]
    rows = kernel["lines"]["rows"]
    cycles = [line["self_time"] for line in rows]
    assert cycles == sorted(cycles, reverse=True)
    summary = profile.summary()
    summary = summary[summary["kind"] != "async"]
    by_line = summary.groupby("line")["self_cycles"].sum()
    assert {line["line"]: line["self_time"] for line in rows} == by_line.to_dict()
    assert kernel["time"]["launches"] == 3


def test_a_smaller_report_counts_what_it_leaves_out() -> None:
    model = profile_model(load(DATA / "plotting" / "waves.pftrace.gz").tables)
    whole, small = plain(model, digits=6)["kernels"][0], bounded(model)["kernels"][0]
    assert small["left_out"]["lines"] == len(whole["lines"]["rows"]) - len(small["lines"]["rows"])
    assert small["findings"] == whole["findings"][: len(small["findings"])]
    assert small["left_out"]["findings"] == len(whole["findings"]) - len(small["findings"])


def test_a_reason_is_told_once_and_no_share_of_no_time() -> None:
    no_time = made_up([("k", "kernel", 1, -1, -1, 0, 0)])
    told = no_time.report()
    check(told)
    assert [line["self_share"] for line in told["kernels"][0]["lines"]["rows"]] == [None]
    texts = ["k: a", "k: b", "l #0: b", "l #1: b", "k: c", "k: d", "k: e: f"]
    said = ["x: k, l #0, l #1: b", "x: k: a", "x: k: c", "x: k: d", "x: 1 more reason"]
    assert reasons_once("x", texts) == said


def test_the_tail_is_that_of_the_findings_and_of_explain() -> None:
    profile = profscope.load(Path(__file__).parents[1] / "data/plotting/waves.pftrace.gz")
    shapes = {
        (each.kernel, each.variant): each.shape
        for each in kernel_analyses(profile.tables)
        if isinstance(each, KernelAnalysis)
    }
    told = {(each["kernel"], each["variant"]): each["tail"] for each in profile.report()["kernels"]}
    assert {key: tail and tail["tail_pct"] for key, tail in told.items()} == {
        key: shape and pytest.approx(shape.tail_pct, rel=1e-3) for key, shape in shapes.items()
    }
    found = profile.findings().query("finding == 'tail'")
    assert len(found)
    for row in found.to_dict("records"):
        assert told[row["kernel"], row["variant"]]["tail_pct"] == pytest.approx(row["gain_pct"], abs=2)
