"""The public face: names, errors, and what may be imported without what."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import profscope
from profscope import errors, instrument_passes, viewer
from profscope.instrument_passes import errors as instrument_errors

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
