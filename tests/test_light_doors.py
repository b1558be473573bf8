"""What must be quick to enter loads little: held by what is loaded, not by a clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
        command("profscope.viewer", "--version"),
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
        (["diff", "nowhere.json", "-"], 1, "no such file: nowhere.json"),
        (["view", "-", "--by", "weeks"], 2, "invalid choice: 'weeks'"),
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
