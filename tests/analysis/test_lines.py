"""Each line's shares by spans and samples, why it waits, and how far the witnesses are apart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings

from profscope.analysis.line_rows import placed
from profscope.analysis.lines import line_counts
from profscope.analysis.lines import lines as line_table
from profscope.analysis.sources import Sources
from profscope.evidence.tables import counts_table
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.h200_evidence import counted, number
from tests.support.profiles import profiles, regular_profile
from tests.support.samples import sample_rows

SPANS = regular_profile(launches=3, ctas=2, warps=2, iterations=4)
SOURCE = """@triton.jit
def matmul_kernel(
    a_ptr, K
):
    for k in range(0, K):
        a = tl.load(
            a_ptr,
        )
        b, c = tl.load(a_ptr), 1
        tl.store(a_ptr, b)
"""
# The loop stands at line 22, loads at 23 and 24, the wait at 26, the dot at 27, the store at 40.
METADATA = {
    **SPANS.metadata,
    "sources": [{"name": "matmul_kernel", "file": "/src/kernels/matmul.py", "line": 18, "text": SOURCE}],
    "kernels": {
        "matmul_kernel": {
            "work": [
                {
                    "variant": 0, "launches": 3, "ns": 1, "scopes": [
                        {"scope": "load A", "kind": "op", "file": "/src/kernels/matmul.py", "line": 23,
                         "call_path": "", "measures": "issue", "bytes": 4096, "flops": 0},
                        {"scope": "dot", "kind": "op", "file": "/src/kernels/matmul.py", "line": 27,
                         "call_path": "", "measures": "issue", "bytes": 0, "flops": 64},
                    ],
                }
            ]
        }
    },
}  # fmt: skip
BARE = sample_rows(
    {
        23: {"selected": 10, "wait": 40},
        26: {"long_scoreboard": 600, "selected": 100},
        27: {"math_pipe_throttle": 200, "barrier": 50},
        30: {"wait": 7},
    },
    blamed={26: (24, "global load"), 27: (26, "float")},
)


def profile(*samples: pd.DataFrame, tables: Profile = SPANS, **metadata: Any) -> Profile:
    table = pd.concat(samples, ignore_index=True) if samples else tables.samples
    return Profile.of(replace(tables, samples=table, metadata={**METADATA, **metadata}))


def by_line(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index("line")


def test_spans_alone() -> None:
    table = profile().lines()
    own = SPANS.summary().groupby("line")["share"].sum()
    assert by_line(table)["self_share"].to_dict() == pytest.approx(own.to_dict())
    assert table["self_share"].sum() == pytest.approx(1)
    assert table["self_share"].is_monotonic_decreasing
    assert table["share_samples"].isna().all()
    assert table["samples"].sum() == 0
    assert table.attrs["not_measured"] == ["no samples: session(evidence=True) takes some"]


def test_samples_rank_lines_and_say_why_they_wait() -> None:
    table = profile(BARE).lines()
    assert "276 spans, 0 dropped records, 1,007 samples, gpu" in repr(profile(BARE))
    assert table["line"].tolist()[:4] == [26, 27, 23, 30]
    assert table["share_samples"].sum() == pytest.approx(1)
    first = table.iloc[0]
    assert first["share_samples"] == pytest.approx(700 / 1007)
    assert first["share_samples_low"] < first["share_samples"] < first["share_samples_high"]
    assert first["stalls"] == "long_scoreboard 86 %"
    assert first["waits_for"] == "long_scoreboard on load a, line 24 (86 %)"
    assert first["stall_counts"] == [["long_scoreboard", 600], ["selected", 100]]
    assert first["waits"] == [
        {"stall": "long_scoreboard", "on": "global load", "variable": "a", "file": "/src/kernels/matmul.py",
         "line": 24, "samples": 600}
    ]  # fmt: skip
    rows = by_line(table)
    assert rows["waits_for"][27] == "barrier on other warps, line 26 (20 %)"
    assert rows["source"][26] == "b, c = tl.load(a_ptr), 1"
    assert (rows["self_share"][30], rows["share_samples"][40]) == (0, 0), "nobody saw anything there"
    assert table.attrs["not_measured"] == []


def test_work_and_instructions_stand_at_their_lines() -> None:
    entry = {"kernel": "matmul_kernel", "variant": 0, "key": "", "binary": "bare"}
    place = ["/src/kernels/matmul.py", 23, "matmul_kernel matmul.py:23 > sum standard.py:293"]
    counts = [[*place, {"global load": 2}], [place[0], 23, "", {"global load": 1, "integer": 3}]]
    table = profile(BARE, sampler={"binaries": [{**entry, "instructions": counts}]}).lines()
    rows = by_line(table)
    assert rows["instructions"][23] == {"global load": 3, "integer": 3}
    assert rows["instructions"][40] == {}
    assert rows["bytes_at_most"].dropna().to_dict() == {23: 4096}
    assert rows["flops"].dropna().to_dict() == {27: 64}


@pytest.mark.parametrize(("cls", "said"), [("barrier", "on mma"), ("shared load", "on other warps")])
def test_a_wait_for_wgmma_is_told_from_one_for_other_warps(cls: str, said: str) -> None:
    table = sample_rows({27: {"barrier": 400}}, classes={27: cls}, blamed={27: (27, "mma")})
    assert by_line(profile(table).lines())["waits_for"][27].startswith(f"barrier {said}")


def test_few_samples_rank_nothing() -> None:
    few = sample_rows({26: {"wait": 150}, 40: {"wait": 49}})
    table = profile(few).lines()
    assert table["share_samples"].isna().all()
    assert by_line(table)["samples"][26] == 150
    assert table["self_share"].is_monotonic_decreasing
    assert any(said.startswith("matmul_kernel: 199 samples") for said in table.attrs["not_measured"])
    assert len(profile(few).timeline.distances()) == 0


def test_samples_alone() -> None:
    other = sample_rows({3: {"wait": 300}}, kernel="other")
    table = profile(BARE, other).lines()
    assert table["kernel"].tolist()[-1] == "other"
    last = table.iloc[-1]
    assert (last["share_samples"], last["samples"]) == (1, 300)
    assert pd.isna(last["self_share"])
    assert any(said.startswith("other: ") for said in table.attrs["not_measured"])


CLASSES = {23: "global load", 24: "global load", 26: "barrier", 27: "mma", 40: "global store"}


def as_spans() -> tuple[pd.Series, int]:
    """By line the nanoseconds of ops, and all others."""
    summary = SPANS.summary()
    is_op = summary["kind"] == "op"
    return summary[is_op].groupby("line")["self_ns"].sum(), int(summary.loc[~is_op, "self_ns"].sum())


def distance(
    counts: dict[int, dict[str, int]], classes: dict[int, str] = CLASSES, **metadata: Any
) -> dict[Any, Any]:
    (row,) = profile(sample_rows(counts, classes=classes), **metadata).timeline.distances().to_dict("records")
    return row


def test_spans_are_compared_where_ops_have_some() -> None:
    """As many samples at each op's line as it has nanoseconds, and the rest anywhere: no distance."""
    ops, rest = as_spans()
    counts = {line: {"wait": int(ns)} for line, ns in ops.items()} | {99: {"wait": rest - 7}, 0: {"wait": 7}}
    row = distance(counts)
    assert row["distance"] == pytest.approx(0)
    assert (row["lines"], row["samples"]) == (len(ops) + 1, ops.sum() + rest)
    row = distance(counts, CLASSES | {27: "conversion"})  # which is not what a dot is made of
    assert (row["line"], row["distance"]) == (27, pytest.approx(row["difference"]))
    assert row["elsewhere"] == pytest.approx(-row["difference"])
    counts[99] = {"wait": rest // 2}
    row = distance(counts)
    assert row["elsewhere"] == pytest.approx(row["distance"])
    assert row["line"] == max(ops.index, key=ops.get)
    assert 0 < row["noise"] < row["distance"]


def test_who_waits_for_copies_is_in_the_span_of_that_wait() -> None:
    """A warp is seen at the instruction behind the wait, which may be of any line."""
    scopes = SPANS.df["scope"].cat.rename_categories({"wait": "async wait a"})
    spans = replace(SPANS, df=SPANS.df.assign(scope=scopes))
    ops, rest = as_spans()
    counts = {line: {"wait": int(ns)} for line, ns in ops.items()} | {99: {"wait": rest}}
    counts[77] = {"long_scoreboard": counts.pop(26)["wait"]}
    classes = CLASSES | {77: "integer"}
    found = {
        cause: profile(sample_rows(counts, classes=classes, blamed={77: (26, cause)}), tables=spans)
        .timeline.distances()["distance"]
        .item()
        for cause in ("async copy", "global load")
    }
    assert found["async copy"] == pytest.approx(0)
    assert found["global load"] == pytest.approx(ops[26] / (ops.sum() + rest))


def test_functions_of_triton_belong_to_the_line_that_calls_them() -> None:
    inner = sample_rows({26: {"wait": 300}}, call_path="matmul_kernel matmul.py:26 > sum standard.py:293")
    unnamed = sample_rows({26: {"wait": 300}}, call_path="matmul.py:26:9 > standard.py:293 > standard.py:263")
    rows = profile(inner, unnamed).lines().query("line == 26")
    assert (len(rows), rows["samples"].item(), rows["call_path"].item()) == (1, 600, "")


@settings(max_examples=examples(6))
@given(profiles())
def test_shares_of_any_profile_add_up(spans: Profile) -> None:
    columns = (spans.df[name].head(3) for name in ("kernel", "file", "line"))
    parts = [
        sample_rows({line: {"wait": 100 + line}, 0: {"selected": 9}}, kernel=kernel, file=file)
        for kernel, file, line in zip(*columns, strict=True)
    ]
    table = pd.concat(parts, ignore_index=True) if parts else spans.samples
    profile = Profile.of(replace(spans.tables, samples=table))
    lines = line_table(profile.tables)  # prof.lines() leaves out a share that no line has
    assert not lines.duplicated(["kernel", "variant", "file", "line", "call_path"]).any()
    for name in ("self_share", "share_samples"):
        sums_of = lines.groupby(["kernel", "variant"])[name].sum(min_count=1).dropna()
        assert sums_of.tolist() == pytest.approx([1] * len(sums_of))
    assert lines["samples"].sum() == table["samples"].sum()
    json.dumps(lines.attrs)
    apart = profile.timeline.distances()
    assert apart["distance"].between(0, 1 + 1e-9).all()
    assert (apart["noise"] >= 0).all()


def test_what_lines_assign_to() -> None:
    sources = Sources(METADATA)
    assert [sources.variable("/src/kernels/matmul.py", line) for line in range(18, 29)] == [
        "", "", "", "", "", "a", "a", "a", "b, c", "", ""
    ]  # fmt: skip
    assert sources.text("/src/kernels/matmul.py", 27) == "tl.store(a_ptr, b)"
    assert sources.text("/elsewhere.py", 27) == ""
    broken = {"sources": [{"name": "f", "file": "f.py", "line": 1, "text": "def f(:"}]}
    assert Sources(broken).variable("f.py", 1) == ""


# Instruction counts by source line, of kernels that an H200 counted.


def test_the_line_of_a_gather_touches_eight_times_the_sectors() -> None:
    counts, _ = counts_table([counted("gather")], number)
    lines = line_counts(placed(counts)).reset_index()
    worst = lines.loc[lines["sectors_over_ideal"].idxmax()]
    gather = counts[counts["line"] == worst["line"]]
    assert worst["sectors_over_ideal"] == pytest.approx(
        gather["sectors"].sum() / gather["sectors_ideal"].sum()
    )
    assert worst["sectors_over_ideal"] > 3
    assert worst["pipe"] == "lsu"
    assert worst["active_threads"] == 32
    assert lines["issue_share"].sum() == pytest.approx(1)


def test_lines_have_counts_at_the_places_of_their_instructions() -> None:
    counts, _ = counts_table([counted("gather")], number)
    lines = Profile(counts=counts).lines()
    assert set(lines["line"]) == set(counts["line"])
    assert lines["sectors_over_ideal"].max() > 3
    assert lines["self_share"].isna().all()
    without = Profile().lines()
    assert str(without["issue_share"].dtype) == "Float64"
