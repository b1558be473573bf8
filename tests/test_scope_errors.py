"""What is wrong with scopes is an error when a session compiles the kernel, at the line that is wrong."""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import torch
from triton.compiler.errors import CompilationError

import profscope
from profscope.errors import CompileError
from profscope.options import Options
from tests.kernels.spec import Spec
from tests.support import sessions
from tests.support.builds import build, manifest, recording_builds

_HEAD = """
import triton
import triton.language as tl
import triton.profiler.language as pl
import profscope.language as psl

@triton.jit
def helper(x_ptr, n):
    psl.enter_scope("help")  # in the helper
    tl.store(x_ptr, n)

@triton.jit
def wrong_kernel(x_ptr, n):
"""
_STORE = "tl.store(x_ptr, n)\n"
_CROSSED = f"""psl.enter_scope("first")
psl.enter_scope("second")
{_STORE}psl.exit_scope("first")  # here
psl.exit_scope("second")
"""
# What is said of a body. {0}: the number of the body's first line, {1} of the second.
MISTAKES = {
    r"'all' is still open when its function returns; put exit_scope\('all'\) before": f"""
psl.enter_scope("all")  # here
{_STORE}""",
    r"'early' is still open when its function returns": f"""
psl.enter_scope("early")  # here
if n > 3:
    return
{_STORE}psl.exit_scope("early")
""",
    r"'branch' is still open at the end of the loop or branch": f"""
if n > 3:
    psl.enter_scope("branch")  # here
    {_STORE}psl.exit_scope("branch")
""",
    r"'loop' is still open at the end of the loop or branch": f"""
for i in range(n):
    psl.enter_scope("loop")  # here
    {_STORE}""",
    r"'all', entered on line {0}, is closed inside a loop or branch": f"""
psl.enter_scope("all")
with psl.scope("inner"):
    if n > 3:
        {_STORE}        psl.exit_scope("all")  # here
""",
    r"'all' is closed but not open here; put enter_scope\('all'\) before it": f"""
{_STORE}psl.exit_scope("all")  # here
""",
    r"'all' is closed twice: it was closed on line {2} already": f"""
psl.enter_scope("all")
{_STORE}psl.exit_scope("all")
psl.exit_scope("all")  # here
""",
    r"'first', entered on line {0}, is closed while scope 'second', entered .* {1}.*close 'second'": _CROSSED,
    r"'proton', entered on line {0}, is closed while scope 'second'": f"""
pl.enter_scope("proton")
with psl.scope("second"):
    {_STORE}    pl.exit_scope("proton")  # here
""",
    r"payload 'n' is outside of any scope; put it in the scope": f"""
psl.payload("n", n)  # here
{_STORE}""",
    r"payload 'i' is in a loop or branch inside scope 'all' \(line {0}\)": f"""
with psl.scope("all"):
    for i in range(n):
        psl.payload("i", i)  # here
        {_STORE}""",
    r"payload 'n' is in scope 'all' already, on line {0}": f"""
with psl.scope("all", n=n):
    psl.payload("n", n + 1)  # here
    {_STORE}""",
}
# Of a statement that opens a scope with a payload.
REFUSED = {
    "psl.scope(n)": "the name of a scope must be text that is known at compile time",
    "psl.scope('all', values=tl.arange(0, 16))": r"payload 'values' must be .* not <\['16'\], int32>",
    "psl.scope('all', wide=n.to(tl.int64))": "payload 'wide' must be a scalar of at most 32 bits, not int64",
    "psl.scope('all', large=1 << 31)": "payload 'large' does not fit into 32 bits: 2147483648",
    "psl.scope('all', warp=n)": "'warp' cannot be the name of a column",
}


def defined(folder: Path, body: str) -> Any:
    """A kernel with that body."""
    path = folder / "wrong.py"
    path.write_text(_HEAD + indent(body.lstrip("\n"), "    "))
    return runpy.run_path(str(path))["wrong_kernel"]


def spec(kernel: Any) -> Spec:
    return Spec("wrong", kernel, {"x_ptr": "*i32", "n": "i32"})


def marked(folder: Path, comment: str) -> str:
    """The place of a line with that comment."""
    lines = (folder / "wrong.py").read_text().splitlines()
    return (
        f"{folder / 'wrong.py'}:{1 + next(at for at, text in enumerate(lines) if f'# {comment}' in text)}: "
    )


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_is_an_error_at_its_line(said: str, tmp_path: Path) -> None:
    kernel = defined(tmp_path, MISTAKES[said])
    with recording_builds(Options()), pytest.raises(CompileError) as caught:
        build(spec(kernel))
    first = _HEAD.count("\n") + 1
    assert marked(tmp_path, "here") in str(caught.value)
    assert "wrong_kernel" in str(caught.value)
    assert re.search(said.format(*range(first, first + 5)), str(caught.value))


def test_a_mistake_in_a_helper_is_at_the_line_of_the_helper(tmp_path: Path) -> None:
    kernel = defined(tmp_path, "helper(x_ptr, n)\n")
    with recording_builds(Options()), pytest.raises(CompileError) as caught:
        build(spec(kernel))
    assert f"{marked(tmp_path, 'in the helper')}scope 'help' is still open" in str(caught.value)


def test_without_a_session_nothing_is_looked_at(tmp_path: Path) -> None:
    kernel = build(spec(defined(tmp_path, _CROSSED)))
    assert manifest(kernel) is None
    assert "profscope" not in kernel.asm["ttgir"]


def test_a_launch_raises_it_and_one_that_is_left_out_does_not(tmp_path: Path) -> None:
    x, kernel = torch.zeros(1, dtype=torch.int32), defined(tmp_path, _CROSSED)
    with sessions.session(), pytest.raises(CompileError, match="scope 'first', entered on line"):
        kernel[(1,)](x, 3)
    with (
        pytest.warns(profscope.EmptyProfileWarning, match="wrong_kernel"),
        sessions.session(kernels="another"),
    ):
        kernel[(1,)](x, 3)
    assert x.item() == 3


@pytest.mark.parametrize(
    ("scope", "session"), [*((scope, True) for scope in REFUSED), ("psl.scope(n)", False)]
)
def test_what_cannot_be_recorded_is_an_error_of_the_compiler(
    scope: str, session: bool, tmp_path: Path
) -> None:
    around = recording_builds(Options()) if session else contextlib.nullcontext()
    kernel = defined(tmp_path, f"with {scope}:\n    {_STORE}")
    with around, pytest.raises(CompilationError, match=REFUSED[scope]):
        build(spec(kernel))
