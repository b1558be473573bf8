"""Kernels that choose between arguments: LLVM then loads a parameter through an address it computes."""

import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from profscope.errors import EmulatorError
from tests.support.ptx_kernel import run

# ruff: noqa: N803

N = 64


@triton.jit
def chosen_kernel(
    x_ptr, y_ptr, out_ptr, flag, a, b, half_a: tl.float16, half_b: tl.float16, BLOCK: tl.constexpr
):
    """out = x or y, times one of two numbers, plus one of two, by the program and by a flag."""
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    source = x_ptr if row == 0 else y_ptr
    value = tl.load(source + offs) * tl.where(flag != 0, a, b) + tl.where(flag != 0, half_a, half_b)
    tl.store(out_ptr + row * BLOCK + offs, value)


@triton.jit(noinline=True)
def either(flag, a, b):
    return tl.where(flag != 0, a, b)


@triton.jit
def callee_kernel(out_ptr, flag, a, b, c, BLOCK: tl.constexpr):
    """out = a or b, plus b or c: two calls of a function whose parameters are chosen between."""
    tl.store(out_ptr + tl.arange(0, BLOCK), either(flag, a, b) + either(flag, b, c))


@pytest.mark.parametrize(("flag", "factor", "term"), [(0, 5.0, 0.25), (7, 3.0, 0.5)])
def test_a_choice_between_arguments(flag: int, factor: float, term: float) -> None:
    x, y, out = torch.rand(N), torch.rand(N), torch.zeros(2, N)
    kernel = chosen_kernel[(2,)](x, y, out, flag, 3.0, 5.0, 0.5, 0.25, BLOCK=N)
    torch.testing.assert_close(out, torch.stack([x, y]) * factor + term)
    by_address = re.findall(r"ld\.param\S+\s+%\w+, \[%rd", kernel.asm["ptx"])
    expected = 3 if triton.__version__.startswith(("3.7.", "3.8.")) else 0  # of others LLVM loads both
    assert len(by_address) == expected, "LLVM no longer chooses by address"


def test_a_chosen_pointer_stays_in_its_tensors() -> None:
    """It comes from x or y: also memory of another tensor is out of bounds."""
    long, short, out = torch.rand(4 * N), torch.rand(N // 2), torch.zeros(2, N)
    with pytest.raises(EmulatorError, match=r"nearest to 'y_ptr' byte offset 128 .*, in CTA \(1, 0, 0\)"):
        chosen_kernel[(2,)](long, short, out, 1, 3.0, 5.0, 0.5, 0.25, BLOCK=N)


@pytest.mark.parametrize(("flag", "result"), [(0, 7.0), (5, 3.0)])
def test_a_choice_between_parameters_of_a_function(flag: int, result: float) -> None:
    out = torch.zeros(N)
    callee_kernel[(1,)](out, flag, 1.0, 2.0, 5.0, BLOCK=N)
    torch.testing.assert_close(out, torch.full((N,), result))


def test_a_part_of_a_parameter_is_an_error() -> None:
    with pytest.raises(EmulatorError, match=r"ld\.param\.b32 at PTX line \d+: a parameter is read in a way"):
        run("mov.b64 %q1, kernel_param_1;\nld.param.b32 %r1, [%q1+4];", np.zeros(1))
