"""Who may import whom: no circle between modules, no arrow upward between rooms.

Every import counts, deferred and type-checking ones too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import profscope

ROOT = Path(__file__).parents[1]
# By folder at the top. Two are links in the package: a user's own `viewer.py` must stay importable.
PACKAGES = {
    "profscope": "profscope",
    "instrument_passes": "profscope.instrument_passes",
    "viewer": "profscope.viewer",
}
# From the bottom up. A room is a folder, or a module that stands by itself.
FLOORS = (
    ("profscope.instrument_passes",),
    ("profscope.errors", "profscope.version", "profscope.threads"),
    ("profscope.progress",),
    ("profscope.emulator",),
    ("profscope.schema", "profscope.options", "profscope.language", "profscope.installed"),
    ("profscope.decoding", "profscope.binaries"),
    ("profscope.analysis",),
    ("profscope.compat",),
    ("profscope.around",),
    ("profscope.evidence",),
    ("profscope.store",),
    ("profscope.traces",),
    ("profscope.plotting",),
    ("profscope.device",),
    ("profscope.recording",),
    ("profscope.hangs",),
    ("profscope.experiments",),
    ("profscope.dispatch",),
    ("profscope.profiles",),
    ("profscope.sessions",),
    ("profscope.tuning",),
    ("profscope.switches",),
    ("profscope",),
    ("profscope.demo",),
    ("profscope.viewer",),
    ("profscope.commands", "profscope.pytest"),
    ("profscope.__main__",),
)
# What touches Triton's inside: these rooms, and beside them these imports alone.
INSIDE = ("profscope.compat", "profscope.emulator")
TOOLCHAIN = "profscope.instrument_passes.toolchain"
PARTS = ("triton.backends", "triton.compiler", "triton.knobs", "triton.runtime")
PRIVATE_NAMES = {"_active", "_allocator", "_bench", "_init_handles", "_profile_allocator", "_run"}
LONGEST_LINES = 500
MOST_MODULES = 12
MOST_IN_A_FOLDER = 25


def modules() -> dict[str, Path]:
    """By dotted name."""
    found = {}
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            name = ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts])
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a module's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


@pytest.fixture(scope="module")
def arrows() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: set(imported(path)) - {name} for name, path in MODULES.items()}


def floor(module: str) -> int:
    """Where a module's room stands."""
    rooms = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    while module not in rooms:
        module = module.rpartition(".")[0]
    return rooms[module]


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Each a way from a module back to itself."""
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
        elif module not in done:
            for other in sorted(arrows[module]):
                visit(other, [*way, module])
            done.add(module)

    for module in sorted(arrows):
        visit(module, [])
    return found


def test_no_circle(arrows: dict[str, set[str]]) -> None:
    assert circles(arrows) == []


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]


def test_no_arrow_upward(arrows: dict[str, set[str]]) -> None:
    upward = [
        f"{module} -> {other}"
        for module, others in arrows.items()
        for other in others
        if floor(other) > floor(module)
    ]
    assert upward == []


def test_neighbours_do_not_know_each_other(arrows: dict[str, set[str]]) -> None:
    """Rooms of one floor, which stand side by side."""
    for module, others in arrows.items():
        room = next((r for r in FLOORS[floor(module)] if module == r or module.startswith(f"{r}.")), module)
        for other in others:
            if floor(other) == floor(module):
                assert other == room or other.startswith(f"{room}."), f"{module} -> {other}"


def test_the_emulator_stands_alone(arrows: dict[str, set[str]]) -> None:
    outside = {
        other
        for module, others in arrows.items()
        if module.startswith("profscope.emulator")
        for other in others
        if not other.startswith("profscope.emulator")
    }
    assert outside <= {"profscope.errors", "profscope.progress"}


def names_of(node: ast.AST) -> list[str]:
    """The dotted names that an import or an attribute names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [".".join([node.id, *reversed(parts)])] if parts and isinstance(node, ast.Name) else []


def private_parts(path: Path) -> Iterator[str]:
    """What a module imports or asks of Triton's and torch's inside."""
    for node in nodes(path):
        for name in names_of(node):
            package, _, inner = name.partition(".")
            if package in ("triton", "torch") and (
                name.startswith(PARTS) or re.search(r"(^|\.)_(?!_)", inner)
            ):
                yield name
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") != "self":
            yield from {node.attr} & PRIVATE_NAMES


def test_only_one_room_knows_tritons_and_torchs_inside() -> None:
    found = {
        name: parts
        for name, path in MODULES.items()
        if not name.startswith(INSIDE) and (parts := set(private_parts(path)))
    }
    assert found.keys() == {TOOLCHAIN}
    assert {"_init_handles", "_run"} < set(private_parts(MODULES["profscope.compat.kernels"]))


def test_only_one_room_patches(arrows: dict[str, set[str]]) -> None:
    """But for Inductor's autotuner, whose launches are dispatched where it is patched. `profscope run` only
    waits for an import."""
    patching = {name for name, others in arrows.items() if "profscope.compat.patches" in others}
    outside = {name for name in patching if not name.startswith("profscope.compat.")}
    assert outside == {"profscope.dispatch.inductor", "profscope.commands.run"}


def test_what_users_touch_is_few() -> None:
    own = [name for name in MODULES if name.count(".") == 1 and name.startswith("profscope.")]
    single = [name for name in own if MODULES[name].name != "__init__.py"]
    assert len(single) <= MOST_MODULES, sorted(single)


# Functions that there are, and those to come: a submodule, once imported, takes the attribute's place.
FUNCTIONS = (
    "profile", "diff", "explain", "run", "instructions", "start", "stop", "pause",
    "resume",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", sorted({*FUNCTIONS, *({n for n in profscope.__all__ if n.islower()} - {"errors"})})
)
def test_no_module_has_a_public_functions_name(name: str) -> None:
    assert f"profscope.{name}" not in MODULES


@pytest.mark.parametrize("package", ["instrument_passes", "profscope"])
def test_no_folder_has_too_many_modules(package: str) -> None:
    counts = Counter(path.parent.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    assert {str(folder): count for folder, count in counts.items() if count > MOST_IN_A_FOLDER} == {}


def test_no_file_is_too_long() -> None:
    files = [*MODULES.values(), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")]
    lines = {str(path): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > LONGEST_LINES} == {}
