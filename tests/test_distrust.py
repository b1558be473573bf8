"""A session whose figures are not to be trusted says so, once, when they are first read behind it."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import profscope
from profscope.analysis import verdict as judging
from profscope.analysis.trust_rules import DISTRUST, Reason
from profscope.analysis.verdict import TRUST, KernelVerdict, Verdict, is_open_to_doubt
from tests.support.sessions import launch, session


def judged(label: str) -> Any:
    reasons = (Reason("occupancy", label, "1 CTA fits on an SM, and 4 of the bare kernel's"),)
    return lambda tables: Verdict({("add_kernel", 0): KernelVerdict("add_kernel", 0, label, reasons)})


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(judging, "is_open_to_doubt", lambda tables: True)
    return monkeypatch


def test_it_warns_once_behind_the_session(doubtful: pytest.MonkeyPatch) -> None:
    doubtful.setattr(judging, "verdict", judged(DISTRUST))
    with session() as prof:
        launch()
        assert len(prof.df)  # nothing is said while it runs
    with pytest.warns(profscope.DistrustWarning, match="do not trust; add_kernel: occupancy") as caught:
        assert [len(prof.launches), len(prof.launches)] == [1, 1]
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_it_is_silent_where_there_is_nothing_to_say(doubtful: pytest.MonkeyPatch) -> None:
    doubtful.setattr(judging, "verdict", judged(TRUST))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with session() as prof:
            launch()
        assert len(prof.launches) == 1


def test_an_emulated_profile_is_not_open_to_doubt() -> None:
    with session(baseline=2) as prof:
        for _ in range(3):
            launch()
    builds = prof.metadata["variants"]["add_kernel"][0]["builds"]
    assert "bare" in {build["build"] for build in builds}
    assert not is_open_to_doubt(prof.tables)
