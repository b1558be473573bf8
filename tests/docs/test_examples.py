"""The pages do what they say: their code runs, and prints what they show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from profscope.__main__ import main
from tests.support.pages import is_like, steps, taken
from tests.support.quick import quick

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
# Their kernels are of a GPU, or are named and not shown.
OTHERS = {"findings", "emulator"}
PAGES = [
    page for page in [ROOT / "README.md", *DOCS] if page.stem not in OTHERS and any(steps(page.read_text()))
]
# What is not run: output, data, and commands for a shell, whose flags are checked below.
SHOWN = {"text", "sh", "json", "sql", "mlir", "toml", "yaml"}
_COMMAND = re.compile(r"profscope (run|view|diff|convert|merge|opt)\b([^\n`]*)")


_LONG = ("evidence", "views", "why-slow", "diff")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the pages show the emulator")
@pytest.mark.parametrize(
    "page",
    quick(PAGES, [page for page in PAGES if page.stem not in _LONG]),
    ids=lambda page: str(page.relative_to(ROOT).with_suffix("")),
)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    for step, output in taken(page.read_text(), tmp_path):
        update = f"python -m tests.support.pages {page.relative_to(ROOT)}"
        assert is_like(step.expected, output), f"{step.text}\n{output}\nto take this: {update}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_every_block_is_run_or_of_a_language_that_is_not(page: Path) -> None:
    if page.stem in OTHERS:
        pytest.skip("shows kernels that it does not have")
    fences = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)
    languages = {fence.partition(" ")[0] for fence in fences[::2]}
    assert languages <= SHOWN | {"python", "console", "pycon"}
    assert len(fences) % 2 == 0


def flags_of(command: str) -> set[str]:
    """The flags of a command, from its help."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main([command, "--help"])
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", out.getvalue()))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *DOCS], ids=lambda page: str(page.relative_to(ROOT).with_suffix(""))
)
def test_commands_have_the_flags_that_pages_give_them(page: Path) -> None:
    for command, words in _COMMAND.findall(page.read_text()):
        own = words.partition(".py")[0].partition("torchrun")[0] if command == "run" else words
        given = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", own.partition("#")[0]))
        assert given <= flags_of(command), f"profscope {command}{words}"


def test_an_output_that_differs_is_told() -> None:
    assert is_like("a\n...\nd\n", "a\nb\nc \nd\n")
    assert is_like("...\nd\n", "d\n")
    assert not is_like("a\n...\nd\n", "a\nb\n")
    assert not is_like("a\n", "a\nb\n")
    assert not is_like("a.c\n", "abc\n")


def test_every_block_of_a_page_is_found() -> None:
    page = (
        '```python title="x.py"\nx = 1\n```\n'
        "<!-- python\ny = 1\n-->\n"
        "```python\nz = 1\n```\n"
        "```console\n$ python x.py\nout\n$ echo $?\n0\n```\n"
        "```pycon\n>>> 1\n1\n```\n"
        "```sh\nrm x.py\n```\n"
    )
    kinds = [(step.kind, step.expected) for step in steps(page)]
    assert kinds == [
        ("file", ""),
        ("program", ""),
        ("program", ""),
        ("command", "out\n"),
        ("command", "0\n"),
        ("python", "1\n"),
    ]


WORDS = {  # at most: of the pages for users, for those who change profscope, and the figures
    "use": (
        "start find-and-fix source-view verdict views options scopes hangs diff programs ranks hardware "
        "for-line troubleshooting glossary support other-tools",
        14_000,
    ),
    "change": ("architecture records passes targets testing", 8_000),
    "figures": ("benchmarks", 3_000),
    "show": ("evidence why-slow experiments", 4_300),
}
MOST_WORDS = 28_000


@pytest.mark.parametrize("part", WORDS)
def test_pages_are_short(part: str) -> None:
    names, most = WORDS[part]
    words = {name: len((ROOT / f"docs/{name}.md").read_text().split()) for name in names.split()}
    assert sum(words.values()) <= most, words


def test_all_pages_together_are_short() -> None:
    assert sum(len(page.read_text().split()) for page in DOCS) <= MOST_WORDS


def test_every_page_is_in_one_part() -> None:
    named = [name for names, _ in WORDS.values() for name in names.split()]
    others = {"ops", "tables", "README", *OTHERS}
    assert sorted(named) == sorted({page.stem for page in DOCS} - others)
