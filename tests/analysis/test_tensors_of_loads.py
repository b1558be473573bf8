"""Which of a kernel's tensors a load reads from, and so how many different bytes it may load."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import triton
import triton.language as tl

from profscope.analysis.rules.reuse import tensor_bytes_at
from tests.support.kernel_of import kernel_in
from tests.support.sessions import session

torch = pytest.importorskip("torch")

SIZES = {"x_ptr": 4000, "y_ptr": 5000, "out_ptr": 6000}


@triton.jit(noinline=True)
def summed(x_ptr, SIDE: tl.constexpr):  # noqa: N803
    return tl.sum(tl.load(x_ptr + tl.arange(0, SIDE)))


@triton.jit
def reading_kernel(x_ptr, y_ptr, out_ptr, n, address, SIDE: tl.constexpr, KIND: tl.constexpr):  # noqa: N803
    at = tl.arange(0, SIDE)
    total = tl.zeros((SIDE,), tl.float32)
    if KIND == "both":
        total += tl.load(x_ptr + at) + tl.load(y_ptr + at)
    elif KIND == "by index":
        total += tl.load(x_ptr + tl.load(y_ptr + at).to(tl.int32))
    elif KIND == "in steps":
        for _ in range(n):
            total += tl.load(x_ptr + at)
            x_ptr += SIDE
    elif KIND == "other names":
        y_ptr = x_ptr
        total += tl.load(y_ptr + at)
    elif KIND == "by an address":
        total += tl.load(address.to(tl.pointer_type(tl.float32)) + at)
    else:
        total += summed(y_ptr, SIDE)
    tl.store(out_ptr + at, total)


def sizes(kind: str, stated: dict[str, int] = SIZES) -> set[float]:
    """Of the tensors that the lines of the kernel's loads read from."""
    x, y, out = torch.zeros(3, 256)
    with session() as prof:
        reading_kernel[(1,)](x, y, out, 2, x.data_ptr(), SIDE=64, KIND=kind)
    tables = prof.profile.tables
    key = tables.metadata["variants"]["reading_kernel"][0]["key"]
    told = {"tensors": [{"kernel": "reading_kernel", "key": key, "bytes": stated}]}
    kernel = kernel_in(replace(tables, metadata={**tables.metadata, "evidence": told}))
    loads = [node for node in kernel.graph.named(r"^tt\.load$") if "f32" in node.results[0].type]
    lines = {node.line for node in loads}
    return {tensor_bytes_at(kernel, line) for line in lines}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("both", 9000),
        ("by index", 9000),
        ("in steps", 4000),
        ("other names", 4000),
        ("by an address", math.inf),
        ("in a function", 5000),
    ],
)
def test_a_load_has_the_bytes_of_the_tensors_that_it_reads_from(kind: str, expected: float) -> None:
    assert sizes(kind) == {expected}


def test_what_is_loaded_of_an_empty_tensor_is_not_in_it() -> None:
    assert sizes("both", SIZES | {"y_ptr": 0}) == {math.inf}
