"""Which tests depend on the version of Triton: `pytest --expect-triton` runs these alone.

A test module does if it or its folder's conftest imports Triton, itself or through what tests share, or a
room of profscope that imports Triton: it compiles, launches or patches. Tests of what reads tables do not,
even if they record something to read: all Tritons fill the same tables. Exhaustive tests add processes,
formats and profiles, which no version changes; those of the passes add kernels and targets, which each
version prints in its own way.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_TESTS: Final = _ROOT / "tests"
_PRODUCT: Final = _ROOT / "profscope"
_READERS: Final = {"bench", "docs", "plotting", "traces", "viewer"}
_OF_PASSES: Final = {"ir", "passes"}


def depends_on_triton(module: Path) -> bool:
    """Whether the tests of a module depend on the version of Triton."""
    if _room(module) in _READERS:
        return False
    of_folder = module.with_name("conftest.py")
    return _needs(module) or (of_folder.exists() and module.parent != _TESTS and _needs(of_folder))


def exhaustive_depends_on_triton(module: Path) -> bool:
    """Whether its exhaustive tests do."""
    return _room(module) in _OF_PASSES


def _room(module: Path) -> str:
    return module.relative_to(_TESTS).parts[0]


@cache
def _needs(module: Path) -> bool:
    """Whether a module of the tests imports Triton, or what does."""
    return _imports_triton(module) or any(
        _needs(path) if path.is_relative_to(_TESTS) else _room_imports_triton(path)
        for path in map(_file, _imports(module))
        if path is not None
    )


@cache
def _room_imports_triton(module: Path) -> bool:
    """Of a module in a folder of profscope: whether one of the folder imports Triton."""
    room = [module] if module.parent == _PRODUCT else module.parent.glob("*.py")
    return any(map(_imports_triton, room))


@cache
def _imports_triton(module: Path) -> bool:
    return any(name.partition(".")[0] == "triton" for name in _imports(module))


@cache
def _imports(module: Path) -> tuple[str, ...]:
    """The dotted names that a module imports: modules, and what it takes from them."""
    names: list[str] = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)


def _file(name: str) -> Path | None:
    """The file of a module of the tests or of profscope; None for any other name, and for the passes, which
    read Triton's text."""
    if name.partition(".")[0] not in ("tests", "profscope") or name.startswith("profscope.instrument_passes"):
        return None
    path = _ROOT / name.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.exists()), None)
