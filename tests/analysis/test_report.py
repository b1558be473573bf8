"""The report: always the same keys, by its schema, never too long, kernels never mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from hypothesis import given, settings

import profscope
from profscope.analysis import report as reporting
from profscope.analysis import report_sections as sections
from profscope.analysis.analysed_kernels import kernel_analyses
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.sources import Sources
from profscope.profiles import Profile, load
from profscope.schema import spans_frame
from tests.support.examples import examples
from tests.support.made_up_spans import made_up
from tests.support.profiles import launch_table, profile_metadata, profiles, regular_profile
from tests.support.samples import sample_rows

DATA = Path(__file__).parents[1] / "data"
SCHEMA = json.loads((Path(reporting.__file__).parent / "report.schema.json").read_text())


def check(told: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    text = json.dumps(told, indent=1, allow_nan=False)
    assert len(text) <= reporting.MOST_CHARACTERS
    assert json.loads(text) == told


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@given(profiles())
@settings(max_examples=examples(10), deadline=None)
def test_any_profile_has_a_report(profile: Profile) -> None:
    check(profile.report())


def test_nothing_recorded() -> None:
    check(Profile().report())
    assert Profile().report()["kernels"] == []


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


@pytest.mark.parametrize("count", [1, 5, 30])
def test_it_is_never_too_long(count: int) -> None:
    profile = many_kernels(count)
    told = profile.report()
    check(told)
    shown = [each["kernel"][:11] for each in told["kernels"]]
    assert shown == [f"kernel_{count - 1 - at:04d}" for at in range(len(shown))]
    assert shown
    assert len(shown) + told["left_out"]["kernels"] == count
    assert len(told["notes"]) + told["left_out"]["notes"] == count


def two_variants() -> Profile:
    profile = regular_profile(launches=4, ctas=4, warps=2, iterations=4)
    launches = profile.launches.assign(variant=pd.Series([0, 1, 0, 1], dtype="int32"))
    return Profile(profile.df, launches, profile.metadata)


def test_variants_are_never_mixed() -> None:
    profile = two_variants()
    table = profile.summary()
    told = profile.report()
    check(told)
    assert sorted(each["variant"] for each in told["kernels"]) == [0, 1]
    for each in told["kernels"]:
        own = table[table["variant"] == each["variant"]]
        assert each["launches"] == 2
        assert sum(line["self_ns"] for line in each["lines"]) <= own["self_ns"].sum()
        top = own.groupby(["file", "line", "call_path"], observed=True)["self_ns"].sum().max()
        assert each["lines"][0]["self_ns"] == top


def test_the_breakdown_adds_up() -> None:
    profile = load(DATA / "diff" / "matmul-1-stage.pftrace.gz")
    told = profile.report()
    check(told)
    (kernel,) = told["kernels"]
    assert sum(kernel["breakdown"]["shares"].values()) == pytest.approx(1.0)
    table = profile.breakdown()
    unknown = table.loc[table["part"] == "unknown", "share"].sum()
    assert kernel["breakdown"]["shares"]["unknown"] == pytest.approx(unknown, abs=1e-4)
    assert kernel["breakdown"]["basis"] == ["spans"]
    assert kernel["breakdown"]["advice"] == "no PC samples: session(hardware=True) takes some"
    assert any(text.startswith("breakdown: matmul_kernel #0: idle-sms") for text in told["not_measured"])


def test_ids_are_those_of_the_next_session_too() -> None:
    def ids(profile: Profile) -> list[str]:
        told = profile.report()["kernels"]
        return [line["id"] for each in told for line in each["lines"]] + [each["id"] for each in told]

    assert ids(two_variants()) == ids(two_variants())
    assert len(set(ids(two_variants()))) == len(ids(two_variants()))


def test_files_of_one_name_have_lines_of_different_ids() -> None:
    def ids(*files: str) -> list[str]:
        rows = {
            "kernel": "k",
            "file": files,
            "line": 7,
            "call_path": "",
            "scope": "load",
            "kind": "op",
            "self_ns": [9, 8, 7][: len(files)],
            "self_cycles": [18, 16, 14][: len(files)],
        }
        table = pd.DataFrame(rows | {"share": 0.3, "count": 1, "bytes_at_most": 0, "flops": 0})
        told = sections.lines(table, Sources({}), "kernel", 12, None, "ns")
        return [each["id"] for each in told]

    assert ids("/here/main.py") == ids("/elsewhere/main.py") == ids("/main.py")
    names = ("one/util.py", "two/util.py", "main.py")
    first = ids(*(f"/here/{name}" for name in names))
    assert len(set(first)) == 3
    assert first == ids(*(f"/elsewhere/{name}" for name in names))
    assert first[2:] == ids("/main.py")
    assert len(set(ids("/util.py", "util.py"))) == 2


def test_the_text_of_a_line_is_that_of_the_profile() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=2)
    line = profile.report()["kernels"][0]["lines"][0]
    source = {"name": "other", "file": line["file"], "line": line["line"] - 1, "text": "first\n  second\n"}
    profile.metadata["sources"] = [{**source, "sha256": "0" * 64}]
    told = profile.report()["kernels"][0]
    assert told["lines"][0]["text"] == "second"
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


SAMPLES = sample_rows({7: {"wait": 1}})


def answers(monkeypatch: pytest.MonkeyPatch, **tables: pd.DataFrame) -> None:
    """The report's questions give these answers."""
    tables["lines"].attrs["distances"] = []
    lines = tables.pop("lines")
    monkeypatch.setattr(reporting, "lines", lambda asked: lines)
    if tables:
        judgement = reporting._Judgement(**tables)
        monkeypatch.setattr(reporting, "_judgement", lambda *asked: judgement)


def rows_of(profile: Profile, **columns: Any) -> pd.DataFrame:
    (kernel,) = set(profile.launches["kernel"])
    return pd.DataFrame([{"kernel": kernel, "variant": 0, **columns}])


def test_findings_samples_and_the_critical_path(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = regular_profile(launches=1, ctas=2, warps=2)
    profile = Profile(whole.tables.df, whole.launches, whole.metadata, samples=SAMPLES)
    line = profile.report()["kernels"][0]["lines"][1]
    place = {"file": line["file"], "line": line["line"]}
    told = {"finding": "tail", "evidence": "e" * 500, "advice": "a", "gain_pct": 4.5, "confidence": "high"}
    told |= {"gain_low_pct": 3.25, "gain_high_pct": 6.0, "program_pct": 4.5}
    told |= {"evidence_values": {"idle": {"value": 12.34567, "unit": "% of SMs"}}}
    sampled = {"call_path": "", "source": "", "samples": 300, "share_samples": 0.25}
    way = {"scope": "dot", "cycles": 10, "share": 0.5, "earlier_pct": float("nan")}
    answers(
        monkeypatch,
        findings=rows_of(profile, **place, **told),
        lines=rows_of(profile, **place, **sampled, stall_counts=[["wait", 150], ["barrier", 50]]),
        critical_path=rows_of(profile, **place, **way),
        overlap=profile.timeline.overlap(),
        tail=rows_of(profile, tail_pct=12.5, ctas=2, waves=0.25, sms_used=2),
    )
    report = profile.report()
    check(report)
    (kernel,) = report["kernels"]
    assert kernel["findings"][0]["id"] == f"{kernel['id']}-tail-{line['line']}"
    assert kernel["findings"][0]["gain_pct"] == 4.5
    assert kernel["findings"][0]["gain_low_pct"] == 3.25
    assert kernel["findings"][0]["gain_high_pct"] == 6
    assert kernel["findings"][0]["evidence_values"] == {"idle": {"value": 12.35, "unit": "% of SMs"}}
    assert kernel["tail"]["tail_pct"] == 12.5
    assert kernel["critical_path"] == [{**place, **way, "earlier_pct": None}]
    assert kernel["lines"][1]["samples"] == 300
    assert kernel["lines"][1]["stalls"] == [
        {"stall": "wait", "share": 0.75}, {"stall": "barrier", "share": 0.25},
    ]  # fmt: skip
    assert kernel["lines"][0]["samples"] is None


def test_lines_of_samples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = regular_profile(launches=1)
    profile = Profile(spans_frame(), whole.launches, whole.metadata, samples=SAMPLES)
    row = {"file": "/k.py", "line": 7, "call_path": "", "source": "x = tl.load(p)", "samples": 9}
    row |= {"share_samples": pd.NA, "stall_counts": [["wait", 9]]}
    answers(monkeypatch, lines=rows_of(profile, **row))
    report = profile.report()
    check(report)
    (line,) = report["kernels"][0]["lines"]
    assert (line["text"], line["samples"], line["self_ns"]) == ("x = tl.load(p)", 9, None)
    assert line["sample_share"] is None


def test_what_is_missing_is_said() -> None:
    said = " ".join(regular_profile(launches=1).report()["not_measured"])
    for missing in ("findings", "session(baseline=)", "clock_read_cycles"):
        assert missing in said


def test_a_loaded_trace_has_the_same_report(tmp_path: Path) -> None:
    profile = two_variants()
    profile.save(tmp_path / "trace.pftrace")
    assert profscope.load(tmp_path / "trace.pftrace").report() == profile.report()


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
    assert told["gpu"]["arch"] == "x" * 77 + "..."
    assert told["gpu"]["sm_count"] is None
    (kernel,) = told["kernels"]
    assert kernel["configuration"]["constexprs"] == {"N": "an integer of 13288 bits", "M": -(2**63)}


def test_the_emulators_times_between_events_are_no_bare_time() -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1)
    profile.metadata["variants"] = {"matmul_kernel": [{"variant": 0, "key": "k"}]}
    timed = {"key": "k", "bare_ns": [4000.0], "instrumented_ns": [4100.0], "waited": 0}
    profile.metadata["baseline"] = {"pairs": 2, "kernels": {"matmul_kernel": [timed]}}
    assert profile.report()["kernels"][0]["time"]["bare"]["median_ns"] == 4000
    profile.metadata["backend"] = "emulator"
    told = profile.report()
    assert told["kernels"][0]["time"]["bare"] is None
    assert any(text.startswith("time.bare: the emulator's") for text in told["not_measured"])


def keys_of(told: Any) -> Iterator[tuple[str, Any]]:
    """Every key with a value that is no object and no array."""
    for key, value in told.items() if isinstance(told, dict) else ():
        yield from keys_of(value) if isinstance(value, dict | list) else [(key, value)]
    for value in told if isinstance(told, list) else ():
        yield from keys_of(value)


def test_cycles_of_the_emulator_are_no_ns() -> None:
    """What is in ns on a GPU is unknown, beside the cycles; and lines stand by these."""
    real = regular_profile(launches=3, ctas=4, warps=2)
    assert not {key for key, value in keys_of(real.report()) if value is not None} & {
        "median_cycles",
        "kernels_cycles",
    }
    df = real.df.assign(duration_ns=real.df["duration_ns"].to_numpy()[::-1])  # of no order that cycles have
    profile = Profile(df, real.launches, {**real.metadata, "backend": "emulator"})
    told = profile.report()
    check(told)
    assert {value for key, value in keys_of(told) if key.endswith(("_ns", "_ghz"))} == {None}
    (kernel,) = told["kernels"]
    cycles = [line["self_cycles"] for line in kernel["lines"]]
    assert cycles == sorted(cycles, reverse=True)
    summary = profile.summary()
    summary = summary[summary["kind"] != "async"]
    by_line = summary.groupby("line")["self_cycles"].sum()
    assert {line["line"]: line["self_cycles"] for line in kernel["lines"]} == by_line.to_dict()
    assert kernel["time"]["instrumented"] is None
    assert kernel["time"]["instrumented_cycles"]["launches"] == 3


def test_of_whole_launches_alone_nothing_inside_is_judged() -> None:
    """As torch.profiler tells them: a span for each launch, of no CTA."""
    place = {"kernel": "k", "launch": 0, "scope": "k", "kind": "kernel", "cta": -1, "sm": -1, "warp": -1}
    place |= {"file": "", "line": 0, "iteration": -1, "depth": 0, "parent": -1}
    times = {"start_cycle": 0, "duration_cycles": 0, "start_ns": 0, "duration_ns": 5000}
    df = spans_frame({name: [value] for name, value in (place | times).items()})
    launches = launch_table([0], ["k"], grid_x=[1000], ctas=[0], end_ns=[5000])
    profile = Profile(df, launches, profile_metadata())
    findings, overlap = profile.findings(), profile.timeline.overlap()
    assert findings.empty
    assert overlap.empty
    assert findings.attrs["not_measured"] == ["k: all: it has no spans inside of its launches"]
    assert overlap.attrs["not_measured"] == ["k: it has no spans inside of its launches"]
    check(profile.report())


def test_a_smaller_entry_counts_what_it_leaves_out() -> None:
    profile = regular_profile(launches=1, ctas=2, warps=2)
    entry = profile.report()["kernels"][0]
    size = reporting._Size(1, 2, 0, 0)
    cut = reporting._cut(entry, size)
    assert cut["lines"] == entry["lines"][:2]
    assert cut["critical_path"] == entry["critical_path"][:2]
    assert cut["left_out"]["lines"] == entry["left_out"]["lines"] + len(entry["lines"]) - 2


def test_a_reason_is_told_once_and_no_share_of_no_time() -> None:
    no_time = made_up([("k", "kernel", 1, -1, -1, 0, 0)])
    told = no_time.report()
    jsonschema.validate(told, SCHEMA)
    assert [line["self_share"] for line in told["kernels"][0]["lines"]] == [None]
    texts = ["k: a", "k: b", "l #0: b", "l #1: b", "k: c", "k: d", "k: e: f"]
    said = ["x: k, l #0, l #1: b", "x: k: a", "x: k: c", "x: k: d", "x: 1 more reason"]
    assert reporting._told("x", texts) == said


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
