"""The written file as any JSON reader sees it."""

import json
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from profscope.profiles import Profile
from profscope.schema import KINDS
from profscope.traces.tracks import drawn_name
from tests.support.profiles import profiles, regular_profile

TIME = re.compile(r'"(?:ts|dur)": *(\d+)\.(\d+)[,}]')


def saved(profile: Profile, folder: Path) -> tuple[str, dict[str, Any]]:
    path = folder / "trace.json"
    profile.save(path)
    text = path.read_text(encoding="utf-8")
    return text, json.loads(text, parse_float=Decimal)


def spans_by_track(events: list[dict[str, Any]]) -> dict[Any, list[tuple[Decimal, Decimal]]]:
    """Start and end of every synchronous span, by track."""
    spans = defaultdict(list)
    for event in events:
        if event["ph"] == "X" and event["cat"] in KINDS:
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    return spans


@given(profiles())
def test_no_two_spans_of_a_track_overlap(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    _, document = saved(profile, tmp_path_factory.mktemp("chrome"))
    for spans in spans_by_track(document["traceEvents"]).values():
        open_ends: list[Decimal] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


@given(profiles())
def test_every_row_is_drawn_once_at_its_time(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile
) -> None:
    _, document = saved(profile, tmp_path_factory.mktemp("chrome"))
    df = profile.df
    origin = document["baseTimeNanoseconds"]
    assert origin == (df["start_ns"].min() if len(df) else 0)
    drawn = sorted(
        (
            event["name"],
            event["cat"],
            origin + int(event["ts"] * 1000),
            event["args"]["line"],
            event["args"]["cta"],
        )
        for event in document["traceEvents"]
        if event["ph"] in "Xib" and event["cat"] in KINDS
    )
    names = map(drawn_name, df["scope"], df["kind"])
    rows = zip(names, df["kind"], df["start_ns"], df["line"], df["cta"], strict=True)
    assert drawn == sorted(rows)


@given(profiles())
def test_form_of_the_file(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    text, document = saved(profile, tmp_path_factory.mktemp("chrome"))
    lines = text.split("\n")
    assert lines[2] == '"traceEvents":['
    assert lines[-2:] == ["]}", ""]
    events = [json.loads(line.strip().removesuffix(",")) for line in lines[3:-2] if line]
    assert len(events) == len(document["traceEvents"]), "one event a line"
    assert all(type(event["pid"]) is int for event in events)
    assert all(type(event["tid"]) is int for event in events if event["ph"] != "C")
    assert all(len(fraction) == 3 for line in lines[3:] for _, fraction in TIME.findall(line))
    named = {event["pid"] for event in events if event.get("name") == "process_name"}
    assert {event["pid"] for event in events} <= named
    threads = {(e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name" and e["ph"] == "M"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] not in "MC"} <= threads


@given(profiles())
def test_async_lanes_never_overlap(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> None:
    _, document = saved(profile, tmp_path_factory.mktemp("chrome"))
    lanes = defaultdict(list)
    for event in document["traceEvents"]:
        if event["ph"] in "be":
            lanes[event["pid"], event["id2"]["local"]].append(
                (event["ts"], event["ph"], event["name"], event["cat"])
            )
    for lane in lanes.values():
        lane.sort(key=lambda event: event[0])  # stable: what has no length begins in the file before it ends
        assert {kind for *_, kind in lane} == {"async"}
        assert [phase for _, phase, _, _ in lane] == ["b", "e"] * (len(lane) // 2)
        pairs = sorted((b[0], e[0]) for b, e in zip(lane[::2], lane[1::2], strict=True))
        assert all(first[1] < second[0] for first, second in pairwise(pairs))


def test_one_long_name_does_not_widen_every_line(tmp_path: Path) -> None:
    profile = regular_profile(ctas=20)
    short, _ = saved(profile, tmp_path)
    df = profile.df
    df["scope"] = df["scope"].cat.rename_categories({"matmul_kernel": "triton_red_fused_" + "x" * 500})
    long, _ = saved(profile, tmp_path)
    roots = (df["depth"] == 0).sum()
    assert len(long) < len(short) + 600 * roots
