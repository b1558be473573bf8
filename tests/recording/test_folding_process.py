"""Launches folded in a process of their own: the same tables, also where that process dies."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from profscope.decoding.alike import Alike, alike
from profscope.decoding.assemble import assemble
from profscope.decoding.folding import Folded
from profscope.decoding.raw import Mark, RawLaunch
from profscope.profiles import Profile
from profscope.recording import patience, recorder
from profscope.recording.folding_process import Aside
from profscope.recording.host_pages import HostPages
from profscope.threads import worker_pool
from tests.support.sessions import launch_add, session
from tests.support.synth.sums import site, sum_launch, sum_manifest

ONE = sum_manifest([[site(), site(0, 2, counted=True, payloads={"n": "i32"})]], kernel="one")
OTHER = sum_manifest([[site()], [site(line=3)]], kernel="other")
RAWS = [
    *[sum_launch(ONE, index, 6) for index in range(3)],
    *[sum_launch(OTHER, index, 5, mark=Mark(graph=1, replay=index)) for index in range(3, 6)],
    sum_launch(ONE, 6, 9, device=1),
]


def folded_by(folded: Folded, *parts: Sequence[RawLaunch]) -> Profile:
    with worker_pool(2) as pool:
        for part in parts:
            folded.add(alike(part), pool)
    profile = Profile.of(assemble([], {"backend": "gpu"}, (), folded))
    folded.close()
    return profile


def assert_alike(one: Profile, other: Profile) -> None:
    for name in ("launches", "sums", "numbers"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name))
    pd.testing.assert_frame_equal(one.balance(), other.balance())


def test_it_folds_as_this_process_does() -> None:
    here, aside = Folded(), Aside(2)
    expected = folded_by(here, RAWS[:2], RAWS[2:])
    profile = folded_by(aside, RAWS[:2], RAWS[2:])
    assert_alike(profile, expected)
    assert all(helper.bytes for helper in aside._helpers)  # each has had a part
    assert [note for note in profile.metadata["notes"] if "missing" in note] == []
    assert len(Profile.of(assemble([], {"backend": "gpu"}, (), aside)).launches) == len(RAWS)  # once closed


def in_pages(pages: HostPages, launches: Sequence[RawLaunch]) -> list[Alike]:
    """Launches whose buffers are side by side in memory that other processes map."""
    memory, _ = pages.take(sum(raw.buffer.nbytes for raw in launches))
    moved, at = [], 0
    for raw in launches:
        part = memory[at : at + raw.buffer.nbytes]
        part[:] = raw.buffer
        moved.append(replace(raw, buffer=part))
        at += len(part)
    return alike(moved)


def test_launches_in_memory_that_it_maps_are_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = folded_by(Folded(), RAWS[:4], RAWS[4:])
    pages = HostPages(1 << 20, 2)
    aside = Aside(2, pages)
    places = [in_pages(pages, RAWS[:4]), in_pages(pages, RAWS[4:6]) + alike(RAWS[6:])]  # one is elsewhere
    handed_over: list[int] = []
    buffers = Alike.buffers
    monkeypatch.setattr(
        Alike, "buffers", lambda self: handed_over.extend(self.indices.tolist()) or buffers(self)
    )
    with worker_pool(2) as pool:
        for launches in places:
            aside.add(launches, pool)
            for memory, _ in launches[0].memory:  # once they are folded, it is used again
                memory[:] = 0xEE
    assert_alike(Profile.of(assemble([], {"backend": "gpu"}, (), aside)), expected)
    aside.close()
    pages.close()
    assert handed_over == [6]


def test_damage_is_told_and_launches_can_follow_a_look() -> None:
    aside = Aside()
    damaged = sum_launch(ONE, 7, 6)
    damaged.buffer[4:8] = 0  # another program's digest
    with worker_pool(1) as pool:
        aside.add(alike([*RAWS[:2], damaged]), pool)
        assert sum(len(program.launches) for program in aside.programs()) == 2
        aside.add(alike(RAWS[2:]), pool)
        assert sum(len(program.launches) for program in aside.programs()) == len(RAWS)
        empty = sum_launch(OTHER, 8, 5)
        empty.buffer[:] = 0
        aside.add(alike([empty]), pool)
    aside.close()
    assert sum(len(program.launches) for program in aside.programs()) == len(RAWS)
    damage, nothing = aside.notes
    assert damage.startswith("launch 7: ")
    assert nothing == "launch 8 (other) wrote nothing: it did not run"


@pytest.mark.parametrize("looked", [False, True])
def test_where_it_dies_this_process_goes_on(looked: bool) -> None:
    aside = Aside(1)
    with worker_pool(1) as pool:
        aside.add(alike(RAWS[:2]), pool)
        if looked:
            aside.programs()
        (helper,) = aside._helpers
        assert helper._process is not None
        os.kill(helper._process.pid, signal.SIGKILL)
        helper._process.wait()
        aside.add(alike(RAWS[2:]), pool)
    assert sum(len(program.launches) for program in aside.programs()) == len(RAWS) - (0 if looked else 2)
    note = "2 launches of one that kept sums missing: the process that folded them has died"
    assert aside.notes == [note] * (not looked)
    assert aside.lost == ({} if looked else {"one": 2})
    aside.close()


def stopped(aside: Aside) -> subprocess.Popen[bytes]:
    """Its only process, which was stopped and has not ended."""
    (helper,) = aside._helpers
    process = helper._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    return process


def test_where_it_has_stopped_it_is_killed_and_this_process_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "_LOOK_S", 0.005)
    aside = Aside(1)
    with worker_pool(1) as pool:
        monkeypatch.setattr(patience, "_LOOKS", 10_000)  # it may be slow
        aside.add(alike(RAWS[:4]), pool)  # the last of them is a replay
        process = stopped(aside)
        monkeypatch.setattr(patience, "_LOOKS", 2)
        aside.add(alike(RAWS[4:]), pool)
    aside.close()
    assert process.returncode == -signal.SIGKILL
    assert sum(len(program.launches) for program in aside.programs()) == 3
    why = "that kept sums missing: the process that folded them did nothing for 5 s, and was killed"
    assert aside.notes == [f"3 launches of one {why}", f"1 launch of other {why}"]
    assert aside.lost == {"one": 3}


def test_what_a_stopped_one_held_is_no_longer_counted_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_LOOK_S", 0.005)
    monkeypatch.setattr(patience, "_LOOKS", 10_000)
    asides: list[Aside] = []
    monkeypatch.setattr(recorder, "Folded", lambda: asides.append(Aside(1)) or asides[-1])
    with session(keep="sums", spans_every=4) as prof:
        for launches in (3, 2):
            for _ in range(launches):
                launch_add()
            if launches == 3:
                assert prof._running is not None
                prof.flush()
                prof._running.recorder.fetch()  # which folds
                stopped(asides[0])
                monkeypatch.setattr(patience, "_LOOKS", 2)
    assert prof.launches["keeps"].tolist() == ["spans", "sums", "spans"]
    assert prof.metadata["sampling"]["kernels"] == {"add_kernel": {"launches": 5, "recorded": 3}}
    assert prof.metadata["keeping"]["kernels"] == {"add_kernel": {"spans": 2, "sums": 1}}
    assert any(
        note.startswith("add_kernel: 3 of 5 launches were recorded (2 of them were lost again); counts")
        for note in prof.metadata["notes"]
    )
    assert prof.profile.validate() == []


def test_without_an_interpreter_to_start_this_process_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert_alike(folded_by(Aside(), RAWS), folded_by(Folded(), RAWS))
