"""`profscope run` on a real device, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import profscope

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

ROOT = Path(__file__).parents[2]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profscope", "run", "--backend", "gpu", "-o", "t.json", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_what_was_recorded_is_written_before_another_program_takes_the_place(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import os, sys
from tests.support.on_gpu import launch_add
for _ in range(20):
    launch_add()
os.execv(sys.executable, ["python", "-c", "print('new')"])
""")
    ran = run(tmp_path, "-q", "program.py")
    assert (ran.returncode, ran.stdout) == (0, "new\n"), ran.stderr
    assert ran.stderr.startswith("profscope run: os.execv() replaces the program; ")
    profile = profscope.load(tmp_path / "t.json")
    assert len(profile.launches) >= 1
    assert profile.metadata["program"]["cut_short"] == "os.execv() was called"
