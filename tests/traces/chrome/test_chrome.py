"""The written file as any JSON reader sees it."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from profscope.profiles import Profile
from profscope.traces.chrome.text import json_text
from tests.support.examples import examples
from tests.support.profiles import profiles

TIME = re.compile(r'"(?:ts|dur)": *(\d+)\.(\d+)[,}]')


def saved(profile: Profile, folder: Path) -> tuple[str, dict[str, Any]]:
    path = folder / "trace.json"
    profile.save(path)
    text = path.read_text(encoding="utf-8")
    return text, json.loads(text, parse_float=Decimal)


@given(profiles())
@settings(max_examples=examples(15))
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


def test_no_string_ends_in_a_backslash() -> None:
    """Perfetto would lose its way, and the whole trace."""
    for value in ("\\", 'a\\"', "\\\\", {"\\": ["b\\", "\ud800\\"]}):
        text = json_text(value)
        assert json.loads(text) == value
        assert not re.search(r'(?<!\\)(\\\\)+"', text)
