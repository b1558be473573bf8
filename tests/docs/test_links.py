"""The pages point at things that exist, and each can be found."""

from __future__ import annotations

import gzip
import importlib.util
import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import profscope
from profscope.analysis.questions import GROUPS, question_names
from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.kept_text import unpacked
from profscope.instrument_passes.ops import CLASSES, SPANNABLE
from profscope.instrument_passes.passes.op_spans import OpSpans
from profscope.instrument_passes.pipeline import parse_pipeline
from profscope.options import Options
from profscope.schema import CTA_DTYPES, LAUNCH_DTYPES, SPAN_DTYPES

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS]
README = PAGES[0].read_text()
MKDOCS = (ROOT / "mkdocs.yml").read_text()
LARGEST_PICTURE, ALL_PICTURES = 150_000, 2_000_000


def _prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`]*`|^    .*$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """What can stand behind the # of a link to a page, as mkdocs and GitHub make them of headings."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", each.lower()).strip()) for each in headings}


def _script(name: str) -> ModuleType:
    """A part of what makes the site."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that makes the pages of the reference."""
    return _script("site_reference")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", _prose(page)):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


_NAMED = re.compile(r"\bdocs/([\w-]+\.md)(?:#([\w-]+))?")
_CODE = [
    path
    for folder in ("bench", "examples", "instrument_passes", "profscope", "tests/support", "viewer")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".ipynb", ".c")
]


def test_pages_that_code_names_are_there() -> None:
    """In docstrings, messages, help texts and notebooks."""
    lost = []
    for path in _CODE:
        for name, anchor in _NAMED.findall(path.read_text()):
            page = ROOT / "docs" / name
            if not page.exists() or (anchor and anchor not in _anchors(page)):
                lost.append(f"{path.relative_to(ROOT)}: {name}#{anchor}")
    assert [each for each in lost if "my_" not in each and "NAME" not in each] == []


def test_the_readme_names_what_there_is() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in set(re.findall(r"profscope\.(\w+)\(", README)):
        assert name in profscope.__all__


def test_the_page_of_the_tables_has_each_column_in_order() -> None:
    tables = (ROOT / "docs/tables.md").read_text()
    part = tables[tables.index("## Spans") : tables.index("## Others")]
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    columns = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert columns == [*SPAN_DTYPES, *LAUNCH_DTYPES, *CTA_DTYPES]


def test_the_page_of_the_options_has_each() -> None:
    page = (ROOT / "docs/options.md").read_text()
    names = [name for name in Options.__dataclass_fields__ if name != "pipeline"]
    assert [name for name in names if f"{name}=" not in page] == []


def test_the_page_of_the_options_says_what_each_level_leaves_out() -> None:
    page = (ROOT / "docs/options.md").read_text()
    head, _, *rows = re.findall(r"^\| .*\|$|^\|-.*$", page[page.index("| classes of ops") :], re.MULTILINE)[
        :6
    ]
    levels = re.findall(r'"(\w+)"', head)
    assert levels == list(LEVELS)
    told = {cls: row.split("|")[2:-1] for row in rows for cls in re.findall(r"`(\w+)`", row)}
    assert told.keys() == CLASSES.keys()
    for at, level in enumerate(levels):
        spans = [each for each in parse_pipeline(LEVELS[level]) if isinstance(each, OpSpans)]
        recorded = {cls for each in spans for cls in each.classes}
        for cls, cells in told.items():
            expected = "yes" if cls in recorded else "no" if cls in SPANNABLE else "never"
            assert cells[at].strip() == expected, (cls, level)


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = (ROOT / "docs/README.md").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in DOCS if page.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in listed] == []


def test_the_site_leads_to_every_page_and_to_no_other(reference: ModuleType) -> None:
    named = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", MKDOCS[MKDOCS.index("\nnav:") :], re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in DOCS} - {"README.md"}
    assert sorted(named) == sorted(pages | set(reference.PAGES) | {"index.md", "pages.md", "CHANGELOG.md"})


def test_links_of_the_site_lead_to_pages_and_copies_and_code_has_none() -> None:
    links = _script("site_links")
    code = "`x[a](../README.md)`\n    x[b](../README.md)\n```python\nx[c](../README.md)\n```\n"
    example = "../examples/own_pass/own_pass.py"
    text = f"[a](../README.md) [b](tables.md#spans) [c]({example}) [d](https://x.org/y)\n{code}"
    assert links.pointed("start.md", text) == (
        f"[a](index.md) [b](tables.md#spans) [c](files/{example[3:]}) [d](https://x.org/y)\n{code}"
    )
    assert links.pointed("folder/x.md", "[a](../../README.md)") == "[a](../index.md)"
    assert links.pointed("index.md", "[a](docs/README.md)") == "[a](pages.md)"
    assert links.pointed("pages.md", "[a](../README.md) [b](ops.md)") == "[a](index.md) [b](ops.md)"
    assert list(links.copied("start.md", text)) == ["examples/own_pass/own_pass.py"]


def test_the_reference_has_all_that_is_public(reference: ModuleType) -> None:
    pages = "\n".join(page() for page in reference.PAGES.values())
    names = [name for name in profscope.__all__ if name not in ("__version__", "errors")]
    names += profscope.errors.__all__
    missing = [name for name in names if not re.search(rf"^## (profscope\.)?{name}$", pages, re.MULTILINE)]
    questions = [f"prof.{name}" for name in question_names()]
    questions += [f"prof.{group.name}.{name}" for group in GROUPS for name in question_names(group.name)]
    assert (missing, [name for name in questions if f"### {name}\n" not in pages]) == ([], [])
    for name in Options.__dataclass_fields__:
        assert f"**`{name}`**" in pages or name == "pipeline"


def test_the_reference_reads_as_docstrings_do(reference: ModuleType) -> None:
    assert reference.prose("a, b: one.\nc: two,\nthat is: three.\nRaises X.") == (
        "\n- **a, b**: one.\n- **c**: two,\n  that is: three.\n\nRaises X."
    )
    assert reference.prose("What was kept, none where it is not\nknown: then it says so.") == (
        "What was kept, none where it is not\nknown: then it says so."
    )
    assert reference.prose("a <b> | `c|d`") == "a &lt;b> \\| `c|d`"
    assert reference.prose("| `a` | b |\n|---|---|") == "| `a` | b |\n|---|---|"
    assert "profscope.stop() -> Session" in reference.recording()
    assert "prof.lines(top: int | None = None" in reference.profile()
    assert "_semantic" not in reference.in_kernels()


def test_pictures_are_small_and_shown() -> None:
    pictures = [path for path in (ROOT / "docs/pictures").iterdir() if path.suffix in (".png", ".svg")]
    shown = "\n".join(page.read_text() for page in PAGES)
    assert [path.name for path in pictures if f"pictures/{path.name})" not in shown] == []
    sizes = {path.name: path.stat().st_size for path in pictures}
    assert {name: size for name, size in sizes.items() if size > LARGEST_PICTURE} == {}
    assert sum(sizes.values()) <= ALL_PICTURES


_OF_A_MACHINE = re.compile(r"/(?:home|opt|root|tmp|work)/[\w.-]+/")
_TEXTS = [*PAGES, *(ROOT / "examples").rglob("*.ipynb")]
_RECORDINGS = [
    *(ROOT / "bench/results").glob("*.pftrace.gz"),
    *(ROOT / "tests/data/advice").iterdir(),
    *(ROOT / "tests/data/plotting").iterdir(),
    ROOT / "tests/data/compiled_model.pftrace.gz",
]


def _code(metadata: dict[str, Any]) -> Iterator[str]:
    """The code of kernels that a profile keeps, packed."""
    for kept in metadata.get("code", ()):
        yield from (kept["ttgir"], kept["ptx"])
    yield from (each["sass"] for each in metadata.get("sampler", {}).get("binaries", ()))


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: path.name)
def test_no_page_shows_a_path_of_a_machine(path: Path) -> None:
    assert _OF_A_MACHINE.findall(path.read_text()) == []


@pytest.mark.parametrize("path", _RECORDINGS, ids=lambda path: path.name)
def test_no_recording_that_a_page_shows_has_a_path_of_a_machine(path: Path) -> None:
    plain = gzip.decompress(path.read_bytes()).decode("latin-1")
    texts = [plain, *map(unpacked, filter(None, _code(profscope.load(path).metadata)))]
    assert [found for text in texts for found in _OF_A_MACHINE.findall(text)] == []


def test_lists_go_on_with_their_numbers() -> None:
    """Python-Markdown begins each list at 1, but for this extension."""
    begins = [int(first) for page in PAGES for first in re.findall(r"\n\n(\d+)\. ", _prose(page))]
    assert max(begins) > 1
    assert re.search(r"^  - sane_lists\b", MKDOCS, re.MULTILINE)


def test_the_site_has_pages_and_pictures_alone(tmp_path: Path) -> None:
    """`exclude_docs` is spelled as .gitignore is. Building the site compiles its hooks."""
    excluded = MKDOCS.partition("exclude_docs: |\n")[2].partition("\ntheme:")[0]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text(textwrap.dedent(excluded))
    names = ["__pycache__/site_hooks.cpython-311.pyc", "site_hooks.py", "start.md", "pictures/a.svg"]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.split() == names[:2]
