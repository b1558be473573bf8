"""Sizes of the tensors that a kernel is launched with."""

from __future__ import annotations

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from profscope.evidence.subject import tensor_bytes

SIGNATURE = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
X = torch.zeros(6, 10)


@pytest.mark.parametrize(
    ("x", "size"),
    [
        (X, 240),
        (X[1:], 200),
        (X.t(), 240),
        (X[:, 0], 204),  # from the first to the last one
        (X[:1].expand(100, 10), 40),
        (X[:0], 0),
        (X.half(), 120),
        (torch.tensor(1.0), 4),
        (TensorDescriptor.from_tensor(torch.zeros(6, 16), [2, 16]), 384),
    ],
)
def test_bytes(x: object, size: int) -> None:
    assert tensor_bytes(SIGNATURE, [x, 6, 16]) == {"x_ptr": size}


def test_constexprs_may_be_left_out() -> None:
    assert tensor_bytes(SIGNATURE, [X, 6]) == {"x_ptr": 240}


def test_unknown_arguments_have_no_sizes() -> None:
    assert tensor_bytes(SIGNATURE, [X, X, 6, 16]) == {}
