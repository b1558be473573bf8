"""Sums in trace files: their schema, and files whose sums are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from tests.support.folded import with_sums
from tests.support.profiles import regular_profile
from tests.support.round_trips import SUFFIXES, assert_same
from tests.support.trace_documents import changed

SPANS = regular_profile(launches=3, ctas=2, warps=2, iterations=2)
MIXED = with_sums(SPANS, [1, 2])


def ours(profile: Profile, folder: Path) -> Any:
    profile.save(folder / "t.json")
    return json.loads((folder / "t.json").read_text())["profscope"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sums_and_spreads_come_back(suffix: str, tmp_path: Path) -> None:
    MIXED.save(tmp_path / f"t{suffix}")
    assert_same(profscope.load(tmp_path / f"t{suffix}"), MIXED)


def test_files_without_sums_are_what_older_readers_know(tmp_path: Path) -> None:
    without, with_them = ours(SPANS, tmp_path), ours(MIXED, tmp_path)
    assert (without["schema"], with_them["schema"]) == (2, 3)
    assert with_them.keys() - without.keys() == {"sums", "spreads"}


def test_launches_of_older_files_kept_spans(tmp_path: Path) -> None:
    SPANS.save(tmp_path / "t.json")
    older = changed(tmp_path / "t.json", lambda tables: tables["launches"].pop("keeps"))
    (tmp_path / "t.json").write_bytes(older)
    assert_same(profscope.load(tmp_path / "t.json"), SPANS)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda tables: tables["sums"]["line"].pop(), "its sums do not all have a value in line"),
        (lambda tables: tables["spreads"].update(by="cta"), "its spreads do not all have a value in by"),
        (lambda tables: tables["sums"].pop("parent"), "has no 'parent'"),
        (lambda tables: tables["sums"]["count"].__setitem__(0, "many"), "is damaged"),
        (lambda tables: tables.update(sums=[]), "is damaged"),
    ],
)
def test_damaged_sums_are_refused(damage: Callable[[Any], object], said: str, tmp_path: Path) -> None:
    MIXED.save(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(changed(tmp_path / "t.json", damage))
    with pytest.raises(TraceError, match=said):
        profscope.load(tmp_path / "t.json")
    MIXED.save(tmp_path / "whole.json")
    text = (tmp_path / "whole.json").read_bytes()
    at = text.index(b'"sums":{')
    (tmp_path / "flipped.json").write_bytes(text[:at] + text[at:].replace(b"matmul", b"matmux", 1))
    with pytest.raises(TraceError, match="digest"):
        profscope.load(tmp_path / "flipped.json")
