"""The public face: names, errors, and what may be imported without what."""

from __future__ import annotations

import subprocess
import sys

import pytest

import profscope
from profscope import errors


def test_public_names() -> None:
    expected = sorted([*errors.__all__, "Profile", "Session", "__version__", "load", "session"])
    assert sorted(profscope.__all__) == expected
    for name in expected:
        assert getattr(profscope, name) is not None


def test_every_error_is_a_profscope_error_and_stands_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    for name in errors.__all__:
        cls = getattr(errors, name)
        assert issubclass(cls, errors.ProfscopeError | UserWarning)
        assert name in tree


_BLOCKED = """
import sys
for name in {blocked}:
    sys.modules[name] = None
import {module}
"""


@pytest.mark.parametrize(
    ("module", "blocked"),
    [
        ("profscope", ("triton", "torch")),
        ("profscope.traces.saving", ("triton", "torch")),
        ("profscope.traces.loading", ("triton", "torch")),
        ("viewer.cli", ("triton", "torch")),
        ("instrument_passes.pipeline", ("triton", "torch", "pandas", "profscope", "viewer")),
        ("instrument_passes.opt", ("triton", "torch", "pandas", "profscope", "viewer")),
    ],
)
def test_import_needs_only_what_lies_below(module: str, blocked: tuple[str, ...]) -> None:
    code = _BLOCKED.format(module=module, blocked=blocked)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
