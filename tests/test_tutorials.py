"""The tutorials do what they say: their code runs, and prints what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.tutorials import is_like, steps, taken

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
# The views of the terminal have tests of their own; here it is seen that a page shows them as they are.
PAGES = [
    *TUTORIALS,
    *(ROOT / f"docs/{name}.md" for name in ("diff", "report")),
    pytest.param(ROOT / "docs/terminal.md", marks=pytest.mark.exhaustive),
]

# What they print is of the emulator.
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the pages show the emulator")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    printed = 0
    for step, output in taken(page.read_text(), tmp_path):
        update = f"python -m tests.support.tutorials {page.relative_to(ROOT)}"
        assert is_like(step.expected, output), f"{step.text}\n{output}\nto take this: {update}"
        printed += 1
    assert printed


def test_the_program_of_a_recording_is_that_of_its_page() -> None:
    program = (ROOT / "examples/compiled_model/train.py").read_text()
    assert f"```python\n{program}```" in (ROOT / "docs/tutorials/torch-compile.md").read_text()


def test_an_output_that_differs_is_told() -> None:
    assert is_like("a\n...\nd\n", "a\nb\nc \nd\n")
    assert is_like("...\nd\n", "d\n")
    assert not is_like("a\n...\nd\n", "a\nb\n")
    assert not is_like("a\n", "a\nb\n")
    assert not is_like("a.c\n", "abc\n")


def test_every_block_of_a_page_is_found() -> None:
    page = (
        '```python title="x.py"\nx = 1\n```\n'
        "```console\n$ python x.py\nout\n$ echo $?\n0\n```\n"
        "```pycon\n>>> 1\n1\n```\n"
    )
    kinds = [(step.kind, step.expected) for step in steps(page)]
    assert kinds == [("file", ""), ("command", "out\n"), ("command", "0\n"), ("python", "1\n")]
