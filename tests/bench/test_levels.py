"""The benchmark of levels and CTA sampling, in small sizes on the emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.levels import CHOICES


@pytest.mark.exhaustive
def test_a_dry_run_measures_every_choice(tmp_path: Path) -> None:
    """In a process of its own, since it leaves an allocator behind."""
    figures = tmp_path / "levels.json"
    command = ["-m", "bench.levels", "--dry-run", "--rows", "^add", "--rounds", "1", "--json", str(figures)]
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "slowdown" in run.stdout
    rows = json.loads(figures.read_text())["rows"]
    for row in rows:
        assert set(CHOICES) <= set(row["cells"])
        assert not any(cell["error"] for cell in row["cells"].values())
