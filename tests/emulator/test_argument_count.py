"""A wrong number of arguments: Triton's own message, also where Triton itself would not look."""

import itertools
import re

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope.emulator import activate
from profscope.emulator.launcher import check_count

# ruff: noqa: N803


@triton.jit
def fill_kernel(x_ptr, value, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, value, offs < n)


X = torch.zeros(32)
WRONG = {
    (X, 1.0): "missing 1 required positional argument: 'n'",
    (X,): "missing 2 required positional arguments: 'value' and 'n'",
    (X, 1.0, 32, 32, 5): "takes 4 positional arguments but 5 were given",
}


@pytest.mark.parametrize(("arguments", "text"), WRONG.items())
def test_a_launch_with_a_wrong_number_of_arguments(arguments: tuple[object, ...], text: str) -> None:
    constants = {} if len(arguments) > 3 else {"BLOCK": 32}
    match = re.escape(f"dynamic_func() {text}")
    with pytest.raises(TypeError, match=match):
        fill_kernel[(1,)](*arguments, **constants)
    with profscope.session(backend="emulator"), pytest.raises(TypeError, match=match):
        fill_kernel[(1,)](*arguments, **constants)


@pytest.mark.parametrize(("arguments", "text"), WRONG.items())
def test_a_binary_launched_with_a_wrong_number_of_arguments(arguments: tuple[object, ...], text: str) -> None:
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    with pytest.raises(TypeError, match=re.escape(f"fill_kernel() {text}")):
        compiled[(1, 1, 1)](*arguments)


def test_a_binary_needs_no_constants_at_the_end() -> None:
    """Nor do Triton's launchers on GPUs, from 3.7 on."""
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    x = torch.zeros(32)
    for number, constants in enumerate([(), (32,)], 1):
        compiled[(1, 1, 1)](x, float(number), 32, *constants)
        assert (x == number).all()


@given(parameters=st.integers(0, 6), given_count=st.integers(0, 8))
def test_the_words_are_pythons(parameters: int, given_count: int) -> None:
    names = list(itertools.islice("abcdefgh", parameters))
    function = eval(f"lambda {', '.join(names)}: None")
    function.__qualname__ = "k"

    def said(call: object, *arguments: object) -> str:
        try:
            call(*arguments)  # type: ignore[operator]
        except TypeError as error:
            return str(error)
        return ""

    count = dict.fromkeys(names, "i32")
    assert said(check_count, "k", count, given_count) == said(function, *range(given_count))


def test_what_is_missing_is_said_before_anything_is_allocated() -> None:
    with activate():
        compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
        called = []
        before, triton.knobs.runtime.launch_enter_hook = triton.knobs.runtime.launch_enter_hook, called.append
        try:
            with pytest.raises(TypeError):
                compiled[(1, 1, 1)](X)
        finally:
            triton.knobs.runtime.launch_enter_hook = before
        assert not called
