"""Tests stand alone: what several of them use lies in tests/support and tests/kernels, in no test module.

No file is too long to be read at once.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.other_tritons import depends_on_triton

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")])
LONGEST_LINES = 500  # as of the program's own, see test_rooms.py
# Also those in programs that a test hands to another process.
_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+import\s+(\([^)]*\)|.*)|import\s+(.*))$", re.MULTILINE)
_TEST_MODULE = re.compile(r"\b(?:test_\w+|conftest)\b")


def imported_test_modules(text: str) -> list[str]:
    """The test modules and conftests that a program imports."""
    statements = [" ".join(filter(None, parts)) for parts in _IMPORT.findall(text)]
    return [name for statement in statements for name in _TEST_MODULE.findall(statement)]


def test_no_test_module_is_imported() -> None:
    importers = {str(path.relative_to(ROOT)): imported_test_modules(path.read_text()) for path in FILES}
    del importers["tests/test_structure_of_tests.py"]  # its examples
    assert {path: modules for path, modules in importers.items() if modules} == {}


def test_no_file_is_too_long() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert {path: count for path, count in lines.items() if count > LONGEST_LINES} == {}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("from tests.test_session import launch_add", ["test_session"]),
        ("import tests.ir.conftest", ["conftest"]),
        ("from tests.dispatch import (\n    standin,\n    test_bare,\n)", ["test_bare"]),
        ('_CODE = """\nfrom .test_bare import build\n"""', ["test_bare"]),
        ("    from tests.emulator.test_dots import *", ["test_dots"]),
        ("from tests.support.sessions import launch_add\nimport os, sys", []),
        ("def test_import() -> None:\n    pass", []),
    ],
)
def test_imports_are_found(text: str, modules: list[str]) -> None:
    assert imported_test_modules(text) == modules


@pytest.mark.parametrize(
    ("module", "depends"),
    [
        ("test_session.py", True),  # launches what tests share
        ("ir/test_location.py", True),  # parses what Triton prints
        ("emulator/test_liger.py", True),  # by its folder's conftest
        ("compat/test_patches.py", True),
        ("test_options.py", False),
        ("analysis/test_thresholds.py", False),  # of recordings
        ("viewer/test_gate.py", False),  # records, to show it
    ],
)
def test_what_runs_on_the_other_tritons(module: str, depends: bool) -> None:
    assert depends_on_triton(ROOT / "tests" / module) == depends
