"""What is wrong with scopes is an error when a session compiles the kernel, at the line that is wrong."""

from __future__ import annotations

import contextlib
import inspect
import re
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
import triton.profiler.language as pl
from triton.compiler.errors import CompilationError

import profscope
import profscope.language as psl
from profscope.errors import CompileError
from profscope.options import Options
from tests.kernels.spec import Spec
from tests.support import sessions
from tests.support.builds import build, manifest, recording_builds


@triton.jit
def left_open(x_ptr, n):
    psl.enter_scope("all")  # here
    tl.store(x_ptr, n)


@triton.jit
def left_open_by_a_return(x_ptr, n):
    psl.enter_scope("all")  # here
    if n > 3:
        return
    tl.store(x_ptr, n)
    psl.exit_scope("all")


@triton.jit
def left_open_in_a_branch(x_ptr, n):
    if n > 3:
        psl.enter_scope("branch")  # here
        tl.store(x_ptr, n)
    psl.exit_scope("branch")


@triton.jit
def left_open_in_a_loop(x_ptr, n):
    for i in range(n):
        psl.enter_scope("loop")  # here
        tl.store(x_ptr + i, n)


@triton.jit
def closed_in_a_branch(x_ptr, n):
    psl.enter_scope("all")
    tl.store(x_ptr, n)
    if n > 3:
        psl.exit_scope("all")  # here


@triton.jit
def never_opened(x_ptr, n):
    tl.store(x_ptr, n)
    psl.exit_scope("all")  # here


@triton.jit
def closed_twice(x_ptr, n):
    psl.enter_scope("all")
    tl.store(x_ptr, n)
    psl.exit_scope("all")
    psl.exit_scope("all")  # here


@triton.jit
def crossed(x_ptr, n):
    psl.enter_scope("first")
    psl.enter_scope("second")
    tl.store(x_ptr, n)
    psl.exit_scope("first")  # here
    psl.exit_scope("second")


@triton.jit
def crossed_proton(x_ptr, n):
    pl.enter_scope("first")
    with psl.scope("second"):
        tl.store(x_ptr, n)
        pl.exit_scope("first")  # here


@triton.jit
def _helper(x_ptr, n):
    psl.enter_scope("help")  # in the helper
    tl.store(x_ptr, n)


@triton.jit
def payload_alone(x_ptr, n):
    psl.payload("n", n)  # here
    tl.store(x_ptr, n)


@triton.jit
def payload_in_a_loop(x_ptr, n):
    with psl.scope("all"):
        for i in range(n):
            psl.payload("i", i)  # here
            tl.store(x_ptr + i, n)


@triton.jit
def payload_twice(x_ptr, n):
    with psl.scope("all", n=n):
        psl.payload("n", n + 1)  # here
        tl.store(x_ptr, n)


@triton.jit
def left_open_in_a_helper(x_ptr, n):
    _helper(x_ptr, n)


def spec(kernel: Any) -> Spec:
    return Spec(kernel.fn.__name__, kernel, {"x_ptr": "*i32", "n": "i32"})


def line_of(kernel: Any, comment: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(i for i, line in enumerate(lines) if f"# {comment}" in line)


MISTAKES = [
    (left_open, r"'all' is still open when its function returns; put exit_scope\('all'\) before"),
    (left_open_by_a_return, r"'all' is still open when its function returns"),
    (left_open_in_a_branch, r"'branch' is still open at the end of the loop or branch"),
    (left_open_in_a_loop, r"'loop' is still open at the end of the loop or branch"),
    (closed_in_a_branch, r"'all', entered on line {0}, is closed inside a loop or branch"),
    (never_opened, r"'all' is closed but not open here; put enter_scope\('all'\) before it"),
    (closed_twice, r"'all' is closed twice: it was closed on line {2} already"),
    (
        crossed,
        r"'first', entered on line {0}, is closed while scope 'second', entered .* line {1}.*close 'second'",
    ),
    (crossed_proton, r"'first', entered on line {0}, is closed while scope 'second'"),
    (payload_alone, r"payload 'n' is outside of any scope; put it in the scope"),
    (payload_in_a_loop, r"payload 'i' is in a loop or branch inside scope 'all' \(line {0}\)"),
    (payload_twice, r"payload 'n' is in scope 'all' already, on line {0}"),
]


@pytest.mark.parametrize(("kernel", "said"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_mistake_is_an_error_at_its_line(kernel: Any, said: str) -> None:
    first_of_body = inspect.getsourcelines(kernel.fn)[1] + 2
    lines = [first_of_body + i for i in range(5)]
    with recording_builds(Options()), pytest.raises(CompileError) as caught:
        build(spec(kernel))
    message = str(caught.value)
    assert f"{__file__}:{line_of(kernel, 'here')}: " in message
    assert kernel.fn.__name__ in message
    assert re.search(said.format(*lines), message), message


def test_a_mistake_in_a_helper_is_at_the_line_of_the_helper() -> None:
    with recording_builds(Options()), pytest.raises(CompileError) as caught:
        build(spec(left_open_in_a_helper))
    assert f"{__file__}:{line_of(_helper, 'in the helper')}: scope 'help' is still open" in str(caught.value)


def test_without_a_session_nothing_is_looked_at() -> None:
    kernel = build(spec(crossed))
    assert manifest(kernel) is None
    assert "profscope" not in kernel.asm["ttgir"]


def test_a_launch_raises_it_and_one_that_is_left_out_does_not() -> None:
    x = torch.zeros(1, dtype=torch.int32)
    with sessions.session(), pytest.raises(CompileError, match="scope 'first', entered on line"):
        crossed[(1,)](x, 3)
    with (
        pytest.warns(profscope.EmptyProfileWarning, match="crossed"),
        sessions.session(kernels="another"),
    ):
        crossed[(1,)](x, 3)
    assert x.item() == 3


@triton.jit
def name_not_constant(x_ptr, n):
    with psl.scope(n):
        tl.store(x_ptr, n)


@triton.jit
def payload_of_a_tensor(x_ptr, n):
    with psl.scope("all", values=tl.arange(0, 16)):
        tl.store(x_ptr, n)


@triton.jit
def payload_too_wide(x_ptr, n):
    with psl.scope("all", wide=n.to(tl.int64)):
        tl.store(x_ptr, n)


@triton.jit
def payload_too_large(x_ptr, n):
    with psl.scope("all", large=1 << 31):
        tl.store(x_ptr, n)


@triton.jit
def payload_named_as_a_column(x_ptr, n):
    with psl.scope("all", warp=n):
        tl.store(x_ptr, n)


@triton.jit
def payload_named_as_a_count_of_probes(x_ptr, n):
    with psl.scope("all", nans=n):
        tl.store(x_ptr, n)


@triton.jit
def payload_named_as_a_bound_of_probes(x_ptr, n):
    with psl.scope("all", rows=n, min=7):
        tl.store(x_ptr, n)


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (name_not_constant, "the name of a scope must be text that is known at compile time"),
        (
            payload_of_a_tensor,
            "payload 'values' must be a scalar of at most 32 bits, not <\\['16'\\], int32>",
        ),
        (payload_too_wide, "payload 'wide' must be a scalar of at most 32 bits, not int64; cast it"),
        (payload_too_large, "payload 'large' does not fit into 32 bits: 2147483648"),
        (payload_named_as_a_column, "'warp' cannot be the name of a column"),
        (payload_named_as_a_count_of_probes, "'nans' cannot be the name of a column"),
        (payload_named_as_a_bound_of_probes, "'min' cannot be the name of a column"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_recorded_is_an_error_of_the_compiler(kernel: Any, said: str, session: bool) -> None:
    around = recording_builds(Options()) if session else contextlib.nullcontext()
    with around, pytest.raises(CompilationError, match=said):
        build(spec(kernel))
