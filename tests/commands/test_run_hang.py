"""Programs under `profscope run --hang` whose kernel does not end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import profscope
from tests.support.forks import Forks

ROOT = Path(__file__).parents[2]
_RUN = """
import os, sys
os.chdir({folder!r}); sys.path.append({root!r})
from profscope.__main__ import main
sys.exit(main(["run", "--backend", "emulator", *sys.argv[1:]]))
"""
_PROGRAM = """
import os, signal, threading, time
import torch
from tests.kernels.hanging import spin_kernel

flags = torch.zeros(4, dtype=torch.int32)
{before}
spin_kernel[(12,)](torch.ones(12 * 256), flags, 6, 5, BLOCK=256)
print("it went on", flush=True)
"""
# Ctrl-C once the hang has been reported; a program that waits in C never handles it.
_INTERRUPTED = """
signal.signal(signal.SIGINT, lambda *_: None)
def interrupt():
    while not os.path.exists("t.json"):
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
"""
_RELEASED = """
def release():
    while not os.path.exists("t.json"):
        time.sleep(0.05)
    flags[2] = 1
threading.Thread(target=release, daemon=True).start()
"""


@pytest.fixture
def run(forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the program with flags in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)

    def run_program(before: str, *flags: str):
        Path("program.py").write_text(_PROGRAM.format(before=before))
        code = _RUN.format(folder=str(tmp_path), root=str(ROOT))
        return forks.run(code, "-o", "t.json", *flags, "program.py")

    return run_program


def test_hang_exit(run) -> None:
    ran = run("", "--hang", "0.6", "--hang-exit")
    assert (ran.returncode, ran.stdout) == (6, "")
    assert "profscope: spin_kernel, launch 0, after " in ran.stderr
    profile = profscope.load("t.json")
    assert len(profile.hangs) == 4
    assert profile.metadata["program"]["exit_code"] == 6
    assert profile.metadata["program"]["cut_short"] == "a launch hung, and --hang-exit ended it"


def test_a_program_that_hangs_waits_on(run) -> None:
    ran = run(_RELEASED, "--hang", "0.6")
    assert (ran.returncode, ran.stdout) == (0, "it went on\n")
    assert "wrote t.json so far" in ran.stderr  # while it hung
    assert len(profscope.load("t.json").hangs) == 4
    assert "exit_code" in profscope.load("t.json").metadata["program"]


def test_ctrl_c_during_a_hang(run) -> None:
    ran = run(_INTERRUPTED, "--hang", "0.6")
    assert ran.returncode == 130
    assert ran.stdout == ""
    profile = profscope.load("t.json")
    assert len(profile.hangs) == 4
    assert profile.metadata["program"]["cut_short"] == "interrupted while a launch hung"


def test_no_hang(run) -> None:
    ran = run("flags[2] = 1", "--hang", "60")
    assert (ran.returncode, ran.stdout) == (0, "it went on\n")
    assert "nothing is written: no launch was reported to hang" in ran.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["program.py"]


def test_hang_exit_needs_hang(run) -> None:
    ran = run("", "--hang-exit")
    assert ran.returncode == 2
    assert "--hang-exit: add --hang S" in ran.stderr


def test_options_of_records_are_refused(run) -> None:
    ran = run("", "--hang", "5", "--ctas", "16")
    assert ran.returncode == 2
    assert "--hang has marks of progress in place of records; leave --ctas 16 out" in ran.stderr
