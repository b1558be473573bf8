"""What several questions need is computed once for the tables of a profile."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import profscope
from profscope.analysis.spans import summing
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.pieces import pieces
from profscope.profiles import Profile
from profscope.schema import Tables
from tests.support.profiles import regular_profile

PLACES = ("summary", "breakdown", "lines", "overhead", "findings")


def test_threads_that_ask_at_once_wait_for_one_of_them() -> None:
    both, asked = threading.Barrier(2), []

    @asked_once
    def answer(tables: Tables) -> object:
        asked.append(tables)
        return object()

    def ask(tables: Tables) -> object:
        both.wait()
        return answer(tables)

    tables = Tables()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ask, [tables, tables])
    assert first is second
    assert asked == [tables]
    assert answer(replace(tables)) is not first
    assert len(asked) == 2


def test_an_error_is_raised_and_not_kept() -> None:
    answers = iter([ValueError("not yet"), "known"])

    @asked_once
    def answer(tables: Tables) -> object:
        found = next(answers)
        if isinstance(found, ValueError):
            raise found
        return found

    tables = Tables()
    with pytest.raises(ValueError, match="not yet"):
        answer(tables)
    assert answer(tables) == "known"


def test_questions_of_one_profile_add_its_spans_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[pd.DataFrame] = []

    def seen_pieces(df: pd.DataFrame) -> list[slice]:
        seen.append(df)
        return pieces(df)

    monkeypatch.setattr(summing, "pieces", seen_pieces)
    profile = regular_profile(launches=2, ctas=4, warps=2, iterations=3)
    for _ in range(2):
        for name in PLACES:
            getattr(profile, name)()
        profile.report()
    assert profile.verdict is not None
    assert len(seen) == 1
    again = Profile.of(profile.tables)
    assert again.summary().equals(profile.summary())
    assert len(seen) == 2


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_is_asked_itself(copied: Callable[[Any], Any]) -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=2)
    summary = profile.summary()
    other = copied(profile)
    assert other.summary().equals(summary)
    assert copied(profile.tables).df.equals(profile.tables.df)


def test_what_a_user_writes_into_df_is_in_no_answer() -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=2)
    before = profile.df["duration_ns"].sum()
    profile.df.loc[:, "duration_ns"] = 0
    assert profile.tables.df["duration_ns"].sum() == before
    assert profile.summary()["self_ns"].sum() > 0
    assert profscope.diff(profile, profile) is not None
