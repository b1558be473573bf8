"""The steps of action.yml, run one after the other as a runner of GitHub's does; pip is left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
PROGRAM = """
import sys
import torch
import triton
import triton.language as tl

@triton.jit
def doubled(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for _ in range(n):
        tl.store(x_ptr + at, 2 * tl.load(x_ptr + at))

doubled[(1,)](torch.ones(64), int(sys.argv[1]), BLOCK=64)
"""
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
_OUTPUT = re.compile(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}")


def outputs_in(text: str) -> dict[str, str]:
    """What a step has written to $GITHUB_OUTPUT."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, several, value = re.fullmatch(r"(\w+)(=|<<)(.*)", line).groups()  # type: ignore[union-attr]
        found[name] = value if several == "=" else "\n".join(iter(lines.__next__, value))
    return found


class Runner:
    """In a folder, with the package of this checkout as `profscope`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        (tools / "profscope").write_text(f'#!/bin/sh\nexec {sys.executable} -m profscope "$@"\n')
        (tools / "profscope").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(folder),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_ACTION_PATH": str(ROOT),
        }

    def run(self, **inputs: str) -> dict[str, str]:
        """The outputs of the action."""
        defaults = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        steps: dict[str, dict[str, str]] = {}

        def value(text: str) -> str:
            text = _INPUT.sub(lambda at: (defaults | inputs)[at[1]], text)
            return _OUTPUT.sub(lambda at: steps[at[1]].get(at[2], ""), text)

        for step in STEPS:
            if "pip install" in step["run"]:
                continue
            out = self.folder / "output"
            out.write_text("")
            named = {name: value(text) for name, text in step.get("env", {}).items()}
            self.shell(step["run"], GITHUB_OUTPUT=str(out), **named)
            steps[step["id"]] = outputs_in(out.read_text())
        return {name: value(each["value"]) for name, each in ACTION["outputs"].items()}

    def shell(self, script: str, **variables: str) -> None:
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        subprocess.run(words, cwd=self.folder, check=True, env=self.environment | variables)


def test_the_steps_compare_a_program_with_its_baseline(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (tmp_path / "bench program.py").write_text("")  # not what PROGRAM's words name
    (tmp_path / "bench.py").write_text(PROGRAM)
    runner.shell("profscope run --backend emulator -o main.pftrace.gz bench.py 8")
    runner.shell("profscope baseline save main main.pftrace.gz")
    slower = runner.run(program="bench.py 12", backend="emulator")
    assert slower["status"] == "3"
    assert Path(slower["trace"]).exists()
    assert "### profscope: failed, 1 kernel slower by more than 5%" in slower["comment"]
    assert slower["comment"] in (tmp_path / "summary").read_text()


def test_inputs_reach_scripts_as_variables_alone() -> None:
    """An expression inside a script is text of a pull request that a shell would run."""
    assert all("${{" not in step["run"] for step in STEPS)
    used = {name for step in STEPS for text in step.get("env", {}).values() for name in _INPUT.findall(text)}
    assert used == ACTION["inputs"].keys()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_each_step_has_what_a_composite_action_needs(step: dict[str, Any]) -> None:
    assert step["shell"] == "bash"
    assert ACTION["runs"]["using"] == "composite"
