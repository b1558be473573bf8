"""Whole sessions, on the emulator, in which something goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.errors import SessionError
from tests.support.sessions import assert_equal, launch_add, session
from tests.support.triton_globals import triton_globals
from tests.support.validation import validate

# ruff: noqa: N803


def test_a_session_with_no_launches_is_an_empty_profile(tmp_path: Path) -> None:
    with session() as prof:
        pass
    assert len(prof.df) == len(prof.launches) == len(prof.summary()) == 0
    assert validate(prof.profile.tables) == []
    prof.save(tmp_path / "empty.json")
    assert_equal(profscope.load(tmp_path / "empty.json"), prof.profile)


def test_what_was_collected_survives_an_exception() -> None:
    before = triton_globals()
    prof = session()

    def body() -> None:
        with prof:
            launch_add()
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        body()
    assert triton_globals() == before
    assert prof.launches["kernel"].tolist() == ["add_kernel"]


@triton.jit
def broken_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


def test_a_kernel_that_does_not_compile_raises_what_triton_raises() -> None:
    with session() as prof:
        launch_add()
        with pytest.raises(Exception, match="no_such_name"):
            broken_kernel[(1,)](torch.zeros(16), BLOCK=16)
        launch_add()
    assert prof.launches["kernel"].tolist() == ["add_kernel", "add_kernel"]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_kernel_that_cannot_be_instrumented_runs_bare_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from profscope.instrument_passes.errors import PassError

    def fail(*args: Any) -> None:
        raise PassError("kernel.py:3: cannot instrument this")

    monkeypatch.setattr("profscope.dispatch.recording_stages.run_pipeline", fail)
    with session(instrument=["kernel-span", "op-spans{classes=store}"]) as prof:  # compiled by no other test
        out = launch_add()
    assert torch.equal(out, torch.arange(2500) * 2.0)
    assert prof.launches.empty
    assert prof.metadata["notes"] == ["add_kernel runs bare: kernel.py:3: cannot instrument this"]


def test_sessions_neither_nest_nor_run_twice() -> None:
    with session() as outer:
        with pytest.raises(SessionError, match="already active"), session():
            pass
        launch_add()
    assert len(outer.launches) == 1
    with pytest.raises(SessionError, match="has run already"), outer:
        pass


def test_a_session_that_has_not_started_has_no_tables() -> None:
    with pytest.raises(SessionError, match="has not started"):
        session().df  # noqa: B018


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_no_gpu() -> None:
    with pytest.raises(SessionError, match="no GPU"), profscope.session(backend="gpu"):
        pass
