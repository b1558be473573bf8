"""Sessions with a spool: their tables, whatever happens to the process, and their limits."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import torch

import profscope
from profscope.errors import SessionError, TraceError
from profscope.store.free_memory import free_bytes
from tests.support.forks import Forks
from tests.support.full_disk import full_disk
from tests.support.quick import quick
from tests.support.sessions import assert_equal, count, launch_add, parts_of_session, session, write_all
from tests.support.validation import validate


def work() -> None:
    for n in (3, 3, 4):
        count(n, ctas=5)
        launch_add()


# Whole sessions.


def test_a_spooled_session_has_the_tables_of_one_in_memory(tmp_path: Path) -> None:
    with session(instrument="heavy") as kept:
        work()
    with session(instrument="heavy", spool=tmp_path) as prof:
        work()
    assert_equal(prof.profile, kept.profile, but=("began_unix_ns", "options"))
    loaded = profscope.load(tmp_path)
    assert_equal(loaded, prof.profile, but=())
    assert_equal(profscope.load(str(prof.spool)), loaded)
    assert loaded.metadata["notes"] == []
    loaded.save(tmp_path / "trace.json")
    assert_equal(profscope.load(tmp_path / "trace.json"), loaded)


def test_launches_leave_memory_as_they_are_written(tmp_path: Path) -> None:
    with parts_of_session(instrument="heavy", memory=1, spool=tmp_path) as parts:
        for _ in range(12):
            count(200, ctas=64)  # about 0.25 MB of records each
        log = parts.recorder.log
        assert len(log) == 12
        while len(log.launches) >= 6:  # the rest is in the file, or on its way
            time.sleep(0.001)
        assert len(profscope.load(tmp_path).launches) >= 4  # while it grows
        write_all(parts)
        assert log.launches == []
    profile = profscope.load(tmp_path)
    assert profile.launches["launch"].tolist() == list(range(12))
    assert validate(profile.tables) == []


def test_flush_writes_what_was_launched_and_later_launches_follow(tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        launch_add()
        prof.flush()
        flushed = profscope.load(tmp_path)
        assert flushed.launches["kernel"].tolist() == ["add_kernel"]
        (note,) = flushed.metadata["notes"]
        assert note.endswith("has no end: what the session had not flushed when it stopped is missing")
        launch_add()
        assert len(profscope.load(tmp_path).launches) == 1
    assert len(profscope.load(tmp_path).launches) == 2
    assert profscope.load(tmp_path).metadata["notes"] == []
    prof.flush()  # nothing left to do


def test_a_folder_with_several_spools_must_be_told_which(tmp_path: Path) -> None:
    for _ in range(2):
        with session(spool=tmp_path):
            launch_add()
    with pytest.raises(TraceError, match="holds 2 spools, name one of them"):
        profscope.load(tmp_path)
    for file in tmp_path.iterdir():
        assert len(profscope.load(file).launches) == 1


def test_a_spool_that_cannot_be_created_stops_the_session_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SessionError, match=r"spool=.*cannot be written to"), session(spool=file):
        pass


def test_a_disk_that_fails_ends_the_recording_and_keeps_what_was_written(tmp_path: Path) -> None:
    prof = session(spool=tmp_path).__enter__()
    launch_add()
    prof.flush()
    assert prof.spool is not None
    with full_disk(prof.spool.stat().st_size + 100):
        launch_add()
        with pytest.raises(SessionError, match="File too large"):
            prof.flush()
        out = launch_add()
        with pytest.raises(SessionError, match="File too large"):
            prof.__exit__(None, None, None)
    assert torch.equal(out, torch.arange(2500, dtype=torch.float32) * 2)
    assert len(prof.launches) == 1
    assert any("File too large" in note for note in prof.metadata["notes"])
    assert len(profscope.load(tmp_path).launches) == 1


_KILLED = """
import os, signal, sys
import profscope
from tests.support.sessions import launch_add
with profscope.session(backend="emulator", spool=sys.argv[1]) as prof:
    for index in range(6):
        launch_add()
        if index == 3:
            prof.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
_LEFT_OPEN = """
import sys
import profscope
from tests.support.sessions import launch_add
prof = profscope.session(backend="emulator", spool=sys.argv[1])
prof.__enter__()
for _ in range(3):
    launch_add()
{end}
"""


def test_a_killed_process_loses_only_what_it_had_not_flushed(tmp_path: Path, forks: Forks) -> None:
    ran = forks.run(_KILLED, tmp_path)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    profile = profscope.load(tmp_path)
    assert profile.launches["launch"].tolist() == [0, 1, 2, 3]
    assert validate(profile.tables) == []
    assert any("has no end" in note for note in profile.metadata["notes"])


@pytest.mark.parametrize(
    ("end", "code"),
    quick([("", 0), ("sys.exit(3)", 3), ("raise KeyError(1)", 1)], [("raise KeyError(1)", 1)]),
)
def test_an_interpreter_that_ends_in_a_session_closes_it(
    tmp_path: Path, end: str, code: int, forks: Forks
) -> None:
    ran = forks.run(_LEFT_OPEN.format(end=end), tmp_path)
    assert ran.returncode == code, ran.stderr
    assert "Exception ignored" not in ran.stderr
    profile = profscope.load(tmp_path)
    assert len(profile.launches) == 3
    assert profile.metadata["notes"] == []


# The limits of a long session.


def test_recording_stops_before_the_host_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.recording.recorder.free_bytes", lambda: 2 << 20)
    with session(instrument="heavy", memory=1) as prof:
        for _ in range(20):
            out = count(200, ctas=64)
    assert (out == sum(range(200))).all()
    assert 2 <= len(prof.launches) < 20
    (note,) = prof.metadata["notes"]
    assert "half of the host's free memory was full of records" in note
    assert note.startswith(f"{20 - len(prof.launches)} launches ran unrecorded")


@pytest.mark.parametrize(
    ("limit", "usage", "statistics"),
    [
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ],
)
def test_free_memory_is_what_machine_and_control_group_leave(
    limit: str, usage: str, statistics: str, tmp_path: Path
) -> None:
    assert free_bytes(tmp_path) is None
    meminfo, folder = tmp_path / "proc/meminfo", tmp_path / "sys/fs/cgroup"
    (folder / limit).parent.mkdir(parents=True)
    meminfo.parent.mkdir()
    meminfo.write_text("MemTotal: 900 kB\nMemAvailable:    300 kB\n")
    (folder / limit).write_text("max\n")
    (folder / usage).write_text("1000\n")
    assert free_bytes(tmp_path) == 300 << 10
    (folder / limit).write_text("9000\n")
    assert free_bytes(tmp_path) == 8000
    (folder / statistics).write_text("anon 1\ninactive_file 500\n")
    assert free_bytes(tmp_path) == 8500
    meminfo.unlink()
    assert free_bytes(tmp_path) == 8500
    assert (free_bytes() or 1) > 0
