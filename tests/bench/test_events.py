"""The benchmark of what events cost, with torch's operators in place of launches."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.exhaustive
def test_tools_take_turns_and_one_may_fail() -> None:
    """Proton has nothing to watch without a GPU."""
    tools = ["Proton", "events", "Kineto as events ask"]
    sizes = ["--launches", "50", "--rounds", "1", "--steps", "1", "--limit-s", "60"]
    command = [sys.executable, "-m", "bench.events", *sizes, "--only", *tools]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for program in ("launches, 50 in a block, 1 rounds", "steps of the GPT, 1 in a block, 1 rounds"):
        _, found, table = run.stdout.partition(program)
        assert found, run.stdout
        rows = [line.strip() for line in table.splitlines()[2:5]]
        for tool, row in zip(["events", "Kineto as events ask"], rows, strict=False):
            assert row.startswith(tool), run.stdout
            assert len(row.removeprefix(tool).split()) == 7
        assert rows[2].startswith("Proton: "), run.stdout
