"""Tests stand alone: what several of them use lies in tests/support and tests/kernels, in no test module.

Tests reach what is public.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from profscope.instrument_passes.passes import TRITONS
from tests.support.other_tritons import EXHAUSTIVE, OF_EACH, OF_TTGIR, READERS, depends_on_triton

ROOT = Path(__file__).parents[1]
ENDS = TRITONS[0], TRITONS[-1]
FILES = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")])
# Also those in programs that a test hands to another process.
_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+import\s+(\([^)]*\)|.*)|import\s+(.*))$", re.MULTILINE)
_TEST_MODULE = re.compile(r"\b(?:test_\w+|conftest)\b")
_PRIVATE = re.compile(r"\b_[a-zA-Z]\w*")
_BOUND = re.compile(
    r"\b(?:def|class)\s+(_[a-zA-Z]\w*)|^\s*(?:\w+\.)?(_[a-zA-Z]\w*)(?:,|\s*(?::[^=\n]*)?=(?!=))", re.MULTILINE
)
# Private names of Python, Triton, torch and IPython that the program has or calls, too.
_OF_OTHERS = {
    "_C", "_active", "_allocation", "_default", "_exit", "_fields", "_fields_", "_is_profiler_enabled",
    "_profile_allocator", "_repr_html_", "_repr_png_", "_run",
}  # fmt: skip
# Where tests still reach what is private.
_STILL_REACHING = ("tests/support/sessions.py",)


def imported_test_modules(text: str) -> list[str]:
    """The test modules and conftests that a program imports."""
    statements = [" ".join(filter(None, parts)) for parts in _IMPORT.findall(text)]
    return [name for statement in statements for name in _TEST_MODULE.findall(statement)]


def bound(text: str) -> set[str]:
    """The private names that a program defines or assigns."""
    return {name for names in _BOUND.findall(text) for name in names if name}


def reached(tree: ast.AST) -> Iterator[str]:
    """The names that a program imports, or asks of another object than its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and _name_of(node.func).endswith("attr"):  # setattr, patch.delattr
            texts = (arg.value for arg in node.args if isinstance(arg, ast.Constant))
            yield from (text.rpartition(".")[2] for text in texts if isinstance(text, str))


def _name_of(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def test_no_test_reaches_what_is_private() -> None:
    packages = ("bench", "docs", "instrument_passes", "profscope", "tests", "viewer")
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    private = set().union(*map(bound, texts.values())) - _OF_OTHERS
    found = {
        name: names
        for name, text in texts.items()
        if name.startswith("tests/") and not name.startswith(_STILL_REACHING)
        if (named := private & set(_PRIVATE.findall(text)) - bound(text))
        if (names := named & set(reached(ast.parse(text))))
    }
    assert found == {}


def test_no_test_module_is_imported() -> None:
    importers = {str(path.relative_to(ROOT)): imported_test_modules(path.read_text()) for path in FILES}
    del importers["tests/test_structure_of_tests.py"]  # its examples
    assert {path: modules for path, modules in importers.items() if modules} == {}


@pytest.mark.parametrize(
    ("module", "tritons"),
    [
        ("test_session.py", TRITONS),
        ("ir/test_location.py", TRITONS),
        ("compat/test_patches.py", TRITONS),
        ("test_scopes.py", ENDS),
        ("emulator/test_elementwise.py", ENDS),  # by its kernels
        ("emulator/test_liger.py", ENDS),  # by a library's
        ("emulator/test_memory.py", ENDS),  # by those that tests share
        ("emulator/test_instructions.py", ()),  # handwritten PTX
        ("analysis/test_work.py", ENDS),  # by the TTGIR of what it launches
        ("test_options.py", ()),
        ("analysis/test_thresholds.py", ()),  # of recordings
        ("analysis/test_rules_on_ttgir.py", ()),  # of texts that are kept
        ("analysis/test_questions.py", ()),  # records, to ask
        ("viewer/test_gate.py", ()),
    ],
)
def test_what_runs_on_the_other_tritons(module: str, tritons: Sequence[tuple[int, int]]) -> None:
    found = [each for each in TRITONS if depends_on_triton(ROOT / "tests" / module, each)]
    assert found == list(tritons)


def test_what_is_named_for_the_other_tritons_is_there() -> None:
    named = (*OF_EACH, *READERS, *OF_TTGIR, *EXHAUSTIVE)
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []
