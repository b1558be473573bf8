"""What is public, and what may be imported without what: quick doors load little, whatever a clock says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import profscope
from profscope import errors, instrument_passes, viewer
from profscope.instrument_passes import errors as instrument_errors
from tests.support.profiles import regular_profile

OURS = ("profscope",)

REPORT = """
import runpy, sys
before = set(sys.modules)
try:
    {door}
finally:
    print("LOADED", *sorted(set(sys.modules) - before))
"""


def loaded(door: str) -> set[str]:
    """The modules that a process of its own has loaded once `door` has run."""
    ran, modules = entered(door)
    assert ran.returncode == 0, ran.stderr
    return modules


def entered(door: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """How such a process ended, and what it had loaded by then."""
    command = [sys.executable, "-c", REPORT.format(door=door)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran, set(ran.stdout.rpartition("LOADED")[2].split())


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def command(module: str, *arguments: str) -> str:
    """Code that runs a module as `python -m` does."""
    return f"sys.argv[1:] = {list(arguments)}; runpy.run_module({module!r}, run_name='__main__')"


def test_import_triton_loads_little_of_ours_and_no_numpy() -> None:
    modules = loaded("import triton")
    ours = {module for module in modules if module.partition(".")[0] in OURS}
    assert "profscope.emulator.driver" in ours, "profscope must be installed for this test"
    assert len(ours) <= 12, sorted(ours)
    assert not packages(modules) & {"numpy", "torch", "pandas"}


@pytest.mark.parametrize(
    "door",
    [
        "import profscope; dir(profscope); profscope.__version__; profscope.errors.OptionError",
        command("profscope", "view", "--version"),
        command("profscope", "view", "--help"),
        command("profscope", "diff", "--help"),
        command("profscope", "--help"),
        command("profscope.demo", "--help"),
    ],
)
def test_the_doors_load_nothing_heavy(door: str) -> None:
    modules = loaded(door)
    assert not packages(modules) & {"numpy", "pandas", "rich", "torch", "triton"}
    assert len([module for module in modules if module.partition(".")[0] in OURS]) <= 18


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["view", "nowhere.json"], 1, "no such file: nowhere.json"),
        (["diff", "nowhere.json", "t.json"], 1, "no such file: nowhere.json"),
        (["view", "t.json", "--sort", "weeks"], 2, "invalid choice: 'weeks'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_shown_is_said_before_anything_heavy_is_loaded(
    words: list[str], code: int, said: str
) -> None:
    ran, modules = entered(command("profscope", *words))
    assert ran.returncode == code
    assert said in ran.stderr
    assert not packages(modules) & {"numpy", "pandas", "rich", "torch", "triton"}


def test_the_first_screen_loads_no_pass(tmp_path: Path) -> None:
    regular_profile(launches=1, ctas=1, warps=1, iterations=1).save(tmp_path / "t.json")
    modules = loaded(command("profscope", "view", f"{tmp_path}/t.json"))
    ours = {module for module in modules if module.startswith("profscope.instrument_passes.")}
    assert not {
        each for each in ours if each.split(".")[2] in ("lowering", "passes", "pipeline")
    }  # findings parse TTGIR
    assert not packages(modules) & {"matplotlib", "torch", "triton"}


def test_a_run_loads_nothing_that_a_program_may_want_to_prepare(tmp_path: Path) -> None:
    """Environment variables that torch and Triton read when they are imported, say."""
    modules = loaded(command("profscope", "run", "-o", f"{tmp_path}/trace.json", "-c", "pass"))
    assert not packages(modules) & {"pandas", "rich", "torch", "triton"}


# The public face: names, errors, and what may be imported without what.

WARNINGS = {name for name in errors.__all__ if name.endswith("Warning")}


def test_public_names() -> None:
    own = ["Profile", "ProfscopeError", "Session", "__version__", "diff", "errors", "instructions", "load"]
    own += ["explain", "pause", "profile", "resume", "scope", "session", "start", "stop"]
    expected = sorted([*WARNINGS, *own])
    assert sorted(profscope.__all__) == expected
    for name in expected:
        assert getattr(profscope, name) is not None


def test_the_errors_of_instrument_passes_are_in_the_tree() -> None:
    assert set(instrument_errors.__all__) <= set(errors.__all__)
    for name in instrument_errors.__all__:
        assert getattr(errors, name) is getattr(instrument_errors, name)


def test_profscope_raises_no_error_that_it_does_not_export() -> None:
    """Every exception class of the packages is in the tree, but for what never leaves a room."""
    defined = {
        name
        for package in (instrument_passes, profscope, viewer)
        for file in Path(package.__path__[0]).rglob("*.py")
        for name in re.findall(r"^class (\w+)\(\w*(?:Error|Exception)\b", file.read_text(), re.MULTILINE)
    }
    of_rooms = {"DisturbedError", "MemoryViolationError", "SamplerError", "UnreadableError", "WorkerError"}
    assert defined - of_rooms - {"_Found"} == set(errors.__all__) - WARNINGS


_BLOCKED = """
import sys
for name in {blocked}:
    sys.modules[name] = None
import {modules}
"""


@pytest.mark.parametrize(
    ("modules", "blocked"),
    [
        (
            "profscope, profscope.traces.saving, profscope.traces.loading, profscope.viewer.cli",
            ("triton", "torch"),
        ),
        ("profscope.instrument_passes.pipeline", ("triton", "torch", "pandas", "profscope.viewer")),
        ("profscope.commands.opt", ("triton", "torch", "pandas", "profscope.viewer")),
    ],
)
def test_import_needs_only_what_lies_below(modules: str, blocked: tuple[str, ...]) -> None:
    code = _BLOCKED.format(modules=modules, blocked=blocked)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
