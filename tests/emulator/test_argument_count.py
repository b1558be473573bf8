"""A wrong number of arguments is refused, also where Triton itself would not look."""

import pytest
import torch
import triton
import triton.language as tl

import profscope

# ruff: noqa: N803


@triton.jit
def fill_kernel(x_ptr, value, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, value, offs < n)


X = torch.zeros(32)
WRONG = {(X, 1.0): "'?n'?$", (X,): "'?value'?.*'?n'?$", (X, 1.0, 32, 32, 5): "4 .* 5 were given"}


@pytest.mark.parametrize(("arguments", "text"), WRONG.items())
def test_a_wrong_number_of_arguments(arguments: tuple[object, ...], text: str) -> None:
    constants = {} if len(arguments) > 3 else {"BLOCK": 32}
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    with pytest.raises(TypeError, match=text):
        fill_kernel[(1,)](*arguments, **constants)
    with pytest.raises(TypeError, match=text):
        compiled[(1, 1, 1)](*arguments)
    with profscope.session(backend="emulator"), pytest.raises(TypeError, match=text):
        fill_kernel[(1,)](*arguments, **constants)


def test_a_binary_needs_no_constants_at_the_end() -> None:
    """Nor do Triton's launchers on GPUs, from 3.7 on."""
    compiled = fill_kernel[(1,)](X, 1.0, 32, BLOCK=32)
    x = torch.zeros(32)
    for number, constants in enumerate([(), (32,)], 1):
        compiled[(1, 1, 1)](x, float(number), 32, *constants)
        assert (x == number).all()
