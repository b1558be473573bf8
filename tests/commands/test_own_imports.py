"""Programs with modules of the names that profscope imports: each of the two gets its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import profscope
from tests.support.profiles import regular_profile

ROOT = Path(__file__).parents[2]
_IMPORTS_ALL = """
import sys
for name in sorted(sys.stdlib_module_names - {"antigravity", "distutils", "idlelib", "this", "turtledemo"}):
    try:
        module = __import__(name)
    except ImportError:  # of other systems
        module = None
    print(name, getattr(module, "mine", False))
"""
OWN: Final = "bottleneck html/entities pandas secrets\n"
"""What the program prints of its modules: first, behind its launch, and at its exit."""

_PROGRAM: Final = """
import atexit, importlib, os, sys
import torch, triton
import triton.language as tl

@triton.jit
def fill_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1.0)

def print_own():
    import bottleneck, html.entities, pandas, secrets
    print(bottleneck.mine, html.entities.mine, pandas.mine, secrets.mine)

print_own()
atexit.register(print_own)
# From here on nobody but the program imports anything from its folder.
packages = os.listdir(os.path.dirname(os.path.dirname(torch.__file__)))
for name in sorted({*sys.stdlib_module_names, *packages, "viewer", "instrument_passes"}):
    if name.isidentifier() and name not in ("torch", "triton"):
        with open(f"{sys.path[0]}/{name}.py", "a") as file:
            file.write(f"\\nif not 'mine' in globals(): raise SystemError('{name} of the program')\\n")
importlib.invalidate_caches()
out = torch.empty(512, device="cuda" if torch.cuda.is_available() else "cpu")
fill_kernel[(4,)](out, BLOCK=128)
print(out.sum().item())
print_own()
"""


def write_program(folder: Path) -> Path:
    """Write it to a new folder; it can be run once there."""
    (folder / "html").mkdir(parents=True)
    for name in ("bottleneck", "html/__init__", "html/entities", "pandas", "secrets"):
        (folder / f"{name}.py").write_text(f"mine = {name!r}\n")
    path = folder / "program.py"
    path.write_text(_PROGRAM)
    return path


Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Python:
    """A Python of its own that has imported nothing, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROFSCOPE_EMULATOR", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    return run


def profscope_command(python: Python, *words: str) -> subprocess.CompletedProcess[str]:
    """As the command is installed: first on its path is the folder of its own script."""
    Path("bin").mkdir(exist_ok=True)
    Path("bin/profscope").write_text("import sys\nfrom profscope.__main__ import main\nsys.exit(main())\n")
    return python("bin/profscope", *words)


@pytest.mark.parametrize("words", [("program.py",), ("-m", "program")], ids=" ".join)
def test_a_program_gets_the_modules_of_its_folder(python: Python, words: tuple[str, ...]) -> None:
    """With a file for each module of the standard library; Python itself has loaded some before."""
    for name in sys.stdlib_module_names:
        Path(f"{name}.py").write_text("mine = True\n")
    Path("program.py").write_text(_IMPORTS_ALL)
    bare, ran = python(*words), profscope_command(python, "run", *words)
    assert bare.stdout.count(" True\n") > 200
    assert ran.stdout == bare.stdout, ran.stderr
    assert ran.stderr.endswith("profscope run: no Triton kernel was launched; nothing is written\n")


@pytest.fixture
def program(python: Python) -> Path:
    """A program that imports own modules, and in whose folder each other import fails."""
    return write_program(Path("script"))


def test_profscope_imports_nothing_from_the_programs_folder(python: Python, program: Path) -> None:
    ran = profscope_command(python, "run", "--events", "-o", "t.json", str(program))
    assert (ran.returncode, ran.stdout) == (0, f"{OWN}512.0\n{OWN}{OWN}"), ran.stderr
    assert "\nprofscope run: wrote t.json; " in ran.stderr
    assert len(profscope.load("t.json").launches) == 1
    assert profscope_command(python, "convert", "t.json", "t.html").returncode == 0


@pytest.mark.exhaustive
def test_explain_imports_nothing_from_the_programs_folder(python: Python, program: Path) -> None:
    ran = profscope_command(python, "explain", "--limit-s", "5", str(program))
    assert ran.returncode == 0, ran.stderr
    assert "\nfill_kernel, as launched: " in ran.stdout
    assert ran.stdout.count(OWN) == 3


_OWN_VIEWER = """
import viewer, instrument_passes
from tests.support.sessions import launch_add
launch_add()
print(viewer.mine, instrument_passes.mine)
"""
_COMMANDS = {
    "": "Commands",
    "run -o new.json program.py": "viewer instrument_passes",
    "view trace.json": "matmul_kernel",
}


def test_a_users_viewer_and_passes_are_their_own(python: Python) -> None:
    Path("instrument_passes").mkdir()
    for file in ("viewer.py", "instrument_passes/__init__.py"):
        Path(file).write_text("mine = __name__\n")
    Path("program.py").write_text(_OWN_VIEWER)
    regular_profile(launches=1, ctas=1, warps=1, iterations=1).save("trace.json")
    for words, shown in _COMMANDS.items():
        ran = python("-m", "profscope", *words.split())
        assert (ran.returncode, shown in ran.stdout) == (0, True), f"{words}\n{ran.stdout}{ran.stderr}"
    assert len(profscope.load("new.json").launches) == 1
