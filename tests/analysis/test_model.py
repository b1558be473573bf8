"""The model that all views show: typed all through, finite, one entry a configuration and a line."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from hypothesis import given, settings

from profscope.analysis.brief import MOST_BYTES
from profscope.analysis.model.build import ALL_PARTS, profile_model
from profscope.analysis.model.entries import KernelEntry, ProfileModel
from profscope.analysis.model.lines import lines_entry
from profscope.analysis.model.numbers import plain
from profscope.analysis.report import MOST_CHARACTERS
from profscope.profiles import Profile, load
from profscope.schema import Tables
from tests.support.captured import captured
from tests.support.examples import examples
from tests.support.json_schema import model_schema
from tests.support.profiles import profiles, regular_profile

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"
RECORDINGS: dict[str, Callable[[], Profile]] = {
    "PC samples": lambda: load(next((ROOT / "bench/results").glob("*fla-before.pftrace.gz"))),
    "some CTAs": lambda: load(DATA / "diff/matmul-1-stage.pftrace.gz"),
    "whole launches": lambda: load(DATA / "plotting/waves.pftrace.gz"),
    "sums alone": lambda: load(DATA / "compiled_model.pftrace.gz"),
    "a program around": lambda: load(DATA / "events/gpt.pftrace.gz"),
    "emulated": lambda: captured("liger_rms_norm-heavy-0", "liger_rms_norm-heavy-1", "noinline-light-0"),
    "torch.profiler": lambda: load(ROOT / "tests/traces/samples/kineto.json"),
    "nothing": Profile,
}


def check(model: ProfileModel) -> None:
    told = plain(model)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    jsonschema.Draft202012Validator(model_schema()).validate(told)
    shares = [entry.share for entry in model.kernels if entry.share is not None]
    assert not shares or sum(shares) == pytest.approx(1)
    for entry in model.kernels:
        if entry.account is not None:
            assert sum(entry.account.shares.values()) == pytest.approx(1)
        if entry.time is not None:
            time = entry.time
            assert time.min <= time.p25 <= time.median <= time.p75 <= time.max
            assert time.launches + entry.untimed == entry.launches


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_field_has_its_type_and_every_number_is_finite(name: str) -> None:
    check(profile_model(RECORDINGS[name]().tables))


@given(profiles())
@settings(max_examples=examples(10), deadline=None)
def test_any_profile_has_a_model_a_report_and_a_brief(profile: Profile) -> None:
    check(profile_model(profile.tables))
    told = profile.report()
    jsonschema.Draft202012Validator(model_schema()).validate(told)
    assert len(json.dumps(told, indent=1, allow_nan=False)) <= MOST_CHARACTERS
    assert len(profile.brief().encode()) <= MOST_BYTES


@cache
def of_samples() -> tuple[Tables, KernelEntry]:
    """What a profile with PC samples was made of, and its kernel with all parts."""
    tables = RECORDINGS["PC samples"]().tables
    return tables, profile_model(tables).kernels[0]


@pytest.mark.parametrize("part", sorted(ALL_PARTS))
def test_a_part_alone_is_what_it_is_in_the_whole(part: str) -> None:
    """And what was not asked for is empty."""
    empty: dict[str, dict[str, Any]] = {
        "findings": {"findings": (), "clean": ""},
        "lines": {"lines": None},
        "accounts": {"account": None},
        "timelines": {"critical_path": (), "overlap": None, "tail": None},
        "work": {"work": None},
    }
    tables, whole = of_samples()
    own = profile_model(tables, parts={part}).kernels[0]
    of_part = empty.pop(part)
    assert {name: getattr(own, name) for name in of_part} == {n: getattr(whole, n) for n in of_part}
    assert {name: getattr(own, name) for each in empty.values() for name in each} == {
        name: nothing for each in empty.values() for name, nothing in each.items()
    }


def path_rows(*rows: tuple[str, int, str, dict[str, Any]]) -> pd.DataFrame:
    """Rows as of `prof.lines()`: file, line and call path, and what is not nothing."""
    nothing: dict[str, Any] = {
        "source": "x",
        "self_share": pd.NA,
        "share_samples": pd.NA,
        "samples": 0,
        "stall_counts": [],
        "waits": [],
        "bytes_at_most": pd.NA,
        "flops": pd.NA,
    }
    places = [nothing | {"file": f, "line": line, "call_path": path} | told for f, line, path, told in rows]
    return pd.DataFrame(places)


NO_SPANS = pd.DataFrame({"file": [], "line": [], "scope": [], "kind": [], "count": [], "self_ns": []})


def test_paths_to_a_line_are_one_entry() -> None:
    wait = {"stall": "wait", "on": "load", "variable": "x", "file": "f.py", "line": 3, "samples": 20}
    one = {"samples": 60, "share_samples": 0.2, "stall_counts": [["wait", 40], ["barrier", 20]]}
    two = {"samples": 90, "share_samples": 0.3, "stall_counts": [["barrier", 90]], "flops": 5}
    rows = path_rows(
        ("f.py", 9, "a f.py:1 > h f.py:9", one | {"waits": [wait]}),
        ("f.py", 7, "", {"samples": 150, "share_samples": 0.5}),
        ("f.py", 9, "a f.py:2 > h f.py:9", two),
        ("f.py", 8, "", {}),
    )
    lines = lines_entry("k", rows, NO_SPANS, "ns")
    assert (lines.witness, lines.samples) == ("samples", 300)
    assert [(each.line, each.share, each.call_paths) for each in lines.rows] == [(7, 0.5, 0), (9, 0.5, 2)]
    merged = lines.rows[1]
    assert [(each.stall, round(each.share, 3)) for each in merged.stalls] == [
        ("barrier", 0.733), ("wait", 0.267),
    ]  # fmt: skip
    assert merged.waits_for == "wait on load x, line 3 (13 %)"
    assert merged.flops == 5
    assert merged.share_samples_low is not None
    assert 0.44 < merged.share_samples_low < 0.5


def test_files_of_one_name_have_lines_of_different_ids() -> None:
    def ids(*files: str) -> list[str]:
        rows = path_rows(*((file, 7, "", {"samples": 9 - at}) for at, file in enumerate(files)))
        lines = lines_entry("kernel", rows, NO_SPANS, "ns")
        found = {each.file: each.id for each in lines.rows}
        return [found[file] for file in files]

    assert ids("/here/main.py") == ids("/elsewhere/main.py") == ids("/main.py")
    names = ("one/util.py", "two/util.py", "main.py")
    first = ids(*(f"/here/{name}" for name in names))
    assert len(set(first)) == 3
    assert first == ids(*(f"/elsewhere/{name}" for name in names))
    assert first[2:] == ids("/main.py")
    assert len(set(ids("/util.py", "util.py"))) == 2


def test_launches_without_records_are_in_no_time() -> None:
    one = regular_profile(launches=3)
    recorded = pd.Series([True, True, False])
    launches = one.launches
    figures = {name: launches[name] * recorded for name in ("ctas", "records", "start_ns")}
    launches = launches.assign(**figures, end_ns=(launches["start_ns"] + 100) * recorded)
    df = one.df[one.df["launch"].isin(launches["launch"][recorded])].reset_index(drop=True)
    (entry,) = profile_model(Profile(df, launches, one.metadata).tables, parts=()).kernels
    assert entry.time is not None
    assert (entry.launches, entry.untimed, entry.time.total, entry.time.median) == (3, 1, 200, 100)
    assert entry.share == 1


def test_a_kernel_of_which_nothing_was_recorded_has_no_times() -> None:
    one = regular_profile(launches=1)
    launches = one.launches.assign(ctas=0, records=0, start_ns=0, end_ns=0)
    for backend, unit in (("gpu", "ns"), ("emulator", "cycles")):
        metadata = one.metadata | {"backend": backend}
        model = profile_model(Profile(one.df.iloc[:0], launches, metadata).tables, parts=())
        (entry,) = model.kernels
        assert (entry.time, entry.share, entry.untimed, model.unit) == (None, None, 1, unit)


def test_a_part_of_launches_is_judged_by_the_whole() -> None:
    whole = RECORDINGS["whole launches"]()
    part = load(DATA / "plotting/waves.pftrace.gz", cta=0)
    expected, told = profile_model(whole.tables), profile_model(part.tables, whole.tables)
    of: Callable[[KernelEntry], Any] = lambda entry: (entry.findings, entry.account, entry.reasons)  # noqa: E731
    assert list(map(of, told.kernels)) == list(map(of, expected.kernels))
    assert told.header.ctas < expected.header.ctas
