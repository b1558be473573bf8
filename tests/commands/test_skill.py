"""SKILL.md: short, with front matter, and its commands run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from profscope.__main__ import main
from profscope.analysis.rules.diagnose import RULES
from profscope.commands import explain, run
from profscope.commands.program import parse
from profscope.commands.skill import skill_text

DATA = Path(__file__).parents[1] / "data" / "diff"
TEXT = skill_text()
COMMANDS = [
    line.removeprefix("profscope ").split()
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
RUNS = {"run": run.make_parser, "explain": explain.make_parser}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With two traces of a matmul of an H200."""
    shutil.copy(DATA / "matmul-1-stage.pftrace.gz", tmp_path / "before.pftrace.gz")
    shutil.copy(DATA / "matmul-3-stages-0.pftrace.gz", tmp_path / "after.pftrace.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_short_and_begins_with_its_name_and_description() -> None:
    assert len(TEXT.splitlines()) <= 150
    _, front, _ = TEXT.split("---\n", 2)
    keys = re.findall(r"^(\w+): (.+)$", front, re.MULTILINE)
    assert [key for key, _ in keys] == ["name", "description"]
    assert keys[0][1] == "profscope"
    assert len(" ".join(front.partition("description: ")[2].split())) <= 1024


def test_every_cause_is_in_it() -> None:
    assert {rule.name for rule in RULES} <= set(re.findall(r"^- ([\w-]+): ", TEXT, re.MULTILINE))


@pytest.mark.parametrize("words", [each for each in COMMANDS if each[0] not in RUNS], ids=" ".join)
def test_its_commands_run_on_a_recording(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "kernels.py:24"
    assert main(["matmul.py:36" if word == line else word for word in words]) == 0
    shown = capsys.readouterr().out
    assert "matmul_kernel" in shown or words[0] == "doctor" or "--source" in words
    assert line not in words or "tl.dot" in shown


@pytest.mark.parametrize("words", [each for each in COMMANDS if each[0] in RUNS], ids=" ".join)
def test_its_commands_that_run_a_program_are_well_formed(words: list[str], folder: Path) -> None:
    (folder / "train.py").touch()
    parser, actions = RUNS[words[0]]()
    _, program = parse(parser, words[1:], actions)
    assert program.words == ["train.py"]


def test_it_is_written_to_a_folder_of_skills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "--write", str(tmp_path / "skills")]) == 0
    path = tmp_path / "skills" / "profscope" / "SKILL.md"
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text() == TEXT
    assert main(["skill"]) == 0
    assert capsys.readouterr().out == TEXT
