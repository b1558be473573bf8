"""Sums beside a spool: folded as they are written, and written up to a limit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.sessions import Session
from tests.support.sessions import launch_add, session

LAUNCHES = 6


def spooled(folder: Path) -> profscope.Profile:
    """A session that writes after every launch: the first keeps spans, the others sums."""
    with session(keep="sums", spool=folder) as prof:
        for _ in range(LAUNCHES):
            launch_add()
            prof.flush()
    return prof.profile


def test_the_file_and_the_session_say_the_same(tmp_path: Path) -> None:
    profile = spooled(tmp_path)
    assert profile.launches["keeps"].tolist() == ["spans"] + ["sums"] * (LAUNCHES - 1)
    assert profile.sums["count"].sum() > 0
    loaded = profscope.load(tmp_path)
    pd.testing.assert_frame_equal(loaded.sums, profile.sums)
    pd.testing.assert_frame_equal(loaded.launches, profile.launches)
    assert loaded.metadata["notes"] == profile.metadata["notes"]


def test_what_is_beyond_the_limit_is_folded_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spooled(tmp_path / "whole")
    each = int(whole.launches["profile_bytes"].iloc[-1])
    monkeypatch.setattr(Session, "_spooled_sums_bytes", 2 * each)
    limited = spooled(tmp_path / "limited")
    counts = ["kernel", "path", "count"] if "path" in whole.sums else ["kernel", "count"]
    pd.testing.assert_frame_equal(limited.sums[counts], whole.sums[counts])
    assert len(limited.launches) == LAUNCHES
    loaded = profscope.load(tmp_path / "limited")
    assert loaded.launches["keeps"].tolist() == ["spans", "sums", "sums"]
    said = "3 launches that kept sums are not in this file"
    assert [note for note in loaded.metadata["notes"] if note.startswith(said)]
    assert not [note for note in limited.metadata["notes"] if note.startswith(said)]
    (file,) = (tmp_path / "limited").iterdir()
    (all_of_it,) = (tmp_path / "whole").iterdir()
    assert file.stat().st_size < all_of_it.stat().st_size
