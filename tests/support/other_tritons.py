"""Which tests depend on the version of Triton: `pytest --expect-triton` runs these alone.

| tests of | what a version may change | run on |
|---|---|---|
| compat, dispatch, experiments, ir, passes; sessions | private parts, launches, TTGIR | each |
| what else compiles kernels | the code that LLVM makes of TTGIR | the oldest and the newest |
| what reads tables, what was kept, or handwritten PTX | nothing | the Triton of .venv |

`make test` runs all of them on a version in between. A module compiles kernels if it imports Triton, by
itself or through what tests share. Tests of what reads tables may record something to read, and those of
`recording` choose what is recorded, by grids and budgets: all Tritons fill the same tables. Exhaustive tests
add processes, formats and profiles, which no version changes; those that read and lower the whole corpus add
kernels and targets, which each version prints in its own way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from profscope.instrument_passes.passes import TRITONS

_ROOT: Final = Path(__file__).parents[2]
_TESTS: Final = _ROOT / "tests"
OF_EACH: Final = (
    "commands/test_first_launch.py", "compat", "dispatch", "experiments", "ir", "passes", "test_session.py",
)  # fmt: skip
READERS: Final = (
    "analysis", "around", "bench", "commands", "decoding/test_captures.py", "docs", "plotting",
    "store", "test_captured.py", "test_command.py", "test_repr.py", "test_views_agree.py",
    "traces", "viewer",
)  # fmt: skip
# But these read the TTGIR of what they launch.
OF_TTGIR: Final = tuple(f"analysis/test_{name}.py" for name in ("findings", "tensors_of_loads", "work"))
EXHAUSTIVE: Final = ("ir", "passes/test_corpus.py")
# Of their kernels, tests read what was printed once.
_KEPT: Final = {"tests.support.corpus_findings", "tests.support.ttgir_cases"}
_OF_KERNELS: Final = {"triton", "liger_kernel"}


def depends_on_triton(module: Path, triton: tuple[int, int]) -> bool:
    """Whether the tests of a module are run on this version, too."""
    if _is_of(module, OF_EACH):
        return True
    reads = _is_of(module, READERS) and not _is_of(module, OF_TTGIR)
    return _is_at_an_end(triton) and not reads and _compiles(module)


def exhaustive_depends_on_triton(module: Path, triton: tuple[int, int]) -> bool:
    """Whether its exhaustive tests are."""
    return _is_at_an_end(triton) and _is_of(module, EXHAUSTIVE)


def _is_at_an_end(triton: tuple[int, int]) -> bool:
    return triton in (TRITONS[0], TRITONS[-1])


def _is_of(module: Path, names: Iterable[str]) -> bool:
    """Whether it is one of these modules, or in one of these folders."""
    return any(module.is_relative_to(_TESTS / name) for name in names)


@cache
def _compiles(module: Path) -> bool:
    """Whether a module of the tests imports kernels or Triton, itself or through others of the tests."""
    return any(
        name.partition(".")[0] in _OF_KERNELS or (name not in _KEPT and _of_tests(name))
        for name in _imports(module)
    )


def _of_tests(name: str) -> bool:
    """Whether that is a module of the tests that compiles."""
    path = _ROOT / name.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py")
    return name.startswith("tests.") and any(file.exists() and _compiles(file) for file in files)


def _imports(module: Path) -> Iterator[str]:
    """The dotted names that a module imports: modules, and what it takes from them."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(name)):
                yield name
                yield from (f"{name}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="importorskip"), args=[ast.Constant(value=str(name)), *_]):
                yield name
