"""Sizes of the tensors that a kernel is launched with."""

from __future__ import annotations

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from profscope.evidence.subject import largest, of_configurations, tensor_bytes

SIGNATURE = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
X = torch.zeros(6, 10)


class Foreign:
    """A tensor of another library, whose stride is no function."""

    shape, stride, element_size = (3,), (1,), 4

    def data_ptr(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("x", "size"),
    [
        (X, 240),
        (X[1:], 200),
        (X.t(), 240),
        (X[:, 1], 236),  # to the end of its storage
        (X[0], 240),
        (X[:1].clone().expand(100, 10), 40),
        (torch.empty(0), 0),
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


@pytest.mark.parametrize(
    "x",
    [
        None,
        64,
        (X, X),
        Foreign(),
    ],
)
def test_what_has_no_sizes_is_unknown(x: object) -> None:
    assert tensor_bytes(SIGNATURE, [x, 6, 16]) == {}


def test_of_several_launches_the_largest_sizes_are_kept_if_all_are_known() -> None:
    assert largest({"x": 4, "y": 8, "z": 1}, {"x": 8, "y": 4}) == {"x": 8, "y": 8}
    entries = [
        {"kernel": "k", "key": key, "bytes": {"x": size}} for key, size in (("a", 4), ("b", 2), ("a", 8))
    ]
    assert of_configurations(entries) == [
        {"kernel": "k", "key": key, "bytes": {"x": size}} for key, size in (("a", 8), ("b", 2))
    ]
    assert of_configurations([entries[0], {**entries[0], "bytes": {}}]) == []
