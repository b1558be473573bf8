"""What the TTGIR says of sums of float8, of integer divisions, of addresses from data, and of layouts."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.compiler import ASTSource

from profscope.analysis.diagnosis.dataflow import conversion_lines, promoted_products
from profscope.analysis.diagnosis.ttgir_ops import (
    differs_by_program,
    is_of_data,
    loop_around,
    makers_of_places,
    scattered_over,
)
from profscope.instrument_passes.ir.model import Op
from profscope.instrument_passes.ir.parser import parse
from tests.kernels import aot
from tests.kernels.spec import CUDA90

# ruff: noqa: N803


@triton.jit
def layer_kernel(x_ptr, w_ptr, out_ptr, depth, SIDE: tl.constexpr, EXACT: tl.constexpr):
    at = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for start in range(0, depth, SIDE):
        x = tl.load(x_ptr + at[:, None] * depth + start + at[None, :])
        w = tl.load(w_ptr + at[None, :] * depth + start + at[:, None])
        total = tl.dot(x, w, total, max_num_imprecise_acc=EXACT)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], total)


@triton.jit
def remainders_kernel(x_ptr, out_ptr, divisor, BLOCK: tl.constexpr, OF: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if OF == "data":
        tl.store(out_ptr + at, x % divisor)
    elif OF == "a loaded address":
        tl.store(out_ptr + x % divisor, x)
    elif OF == "a mask":
        tl.store(out_ptr + at, x, mask=x % divisor == 0)
    else:
        tl.store(out_ptr + at, tl.load(x_ptr + at % divisor))


def ops_of(kernel: object, signature: dict[str, str], **constants: object) -> list[Op]:
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return list(parse(triton.compile(source, target=aot.gpu_target(CUDA90)).asm["ttgir"]).walk())


@pytest.mark.parametrize(("exact", "is_promoted"), [(32, True), (0, False), (None, False)])
def test_few_sums_of_float8_are_promoted(exact: int | None, is_promoted: bool) -> None:
    types = {"x_ptr": "*fp8e4nv", "w_ptr": "*fp8e4nv", "out_ptr": "*fp32", "depth": "i32"}
    found = promoted_products(ops_of(layer_kernel, types, SIDE=64, EXACT=exact))
    assert list(found.values()) == ([exact] if is_promoted else [])


@pytest.mark.parametrize(
    ("of", "expected"), [("data", True), ("a loaded address", False), ("a mask", False), ("an index", False)]
)
def test_a_division_of_data_is_none_that_an_access_needs(of: str, expected: bool) -> None:
    types = {"x_ptr": "*i32", "out_ptr": "*i32", "divisor": "i32"}
    ops = ops_of(remainders_kernel, types, BLOCK=128, OF=of)
    (division,) = (op for op in ops if op.name == "arith.remsi")
    assert (is_of_data(division) and division not in makers_of_places(ops)) == expected


@triton.jit
def lookups_kernel(x_ptr, at_ptr, out_ptr, BLOCK: tl.constexpr, OF: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(at_ptr + at)
    if OF == "rows":
        x = tl.sum(tl.load(x_ptr + place[:, None] * 64 + tl.arange(0, 64)[None, :]), 1)
    elif OF == "steps":
        x = tl.zeros((BLOCK,), tl.float32)
        for step in range(16):
            x += tl.load(x_ptr + place + step)
    elif OF == "one number":
        x = tl.load(x_ptr + tl.load(at_ptr) + at)
    else:
        x = tl.load(x_ptr + (place ^ (place >> 7)) % 4096)
    tl.store(out_ptr + at, x)


@pytest.mark.parametrize(
    ("of", "expected"), [("elements", {0}), ("rows", set()), ("steps", set()), ("one number", set())]
)
def test_an_access_is_scattered_if_nothing_but_data_says_where(of: str, expected: set[int]) -> None:
    types = {"x_ptr": "*fp32", "at_ptr": "*i32", "out_ptr": "*fp32"}
    ops = ops_of(lookups_kernel, types, BLOCK=128, OF=of)
    by_data = [op for op in ops if op.name == "tt.load" and scattered_over(op)]
    assert set().union(*map(scattered_over, by_data)) == expected


@triton.jit
def planes_kernel(x_ptr, out_ptr, rows, planes, SIDE: tl.constexpr, KEEPS: tl.constexpr):
    """Each step turns a tile of planes into rows of numbers. KEEPS: and adds it to those of earlier steps."""
    row, total = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[:, None], tl.zeros((SIDE, SIDE), tl.float32)
    for first in range(0, planes, SIDE):
        plane = first + tl.arange(0, SIDE)[None, :]
        x = tl.exp(tl.load(x_ptr + plane * rows + row))
        total = total * 0.5 + x if KEEPS else x
        tl.store(out_ptr + row * planes + plane, total)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_a_step_loads_one_way_and_stores_another_has_to_be_converted(keeps: bool) -> None:
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "rows": "i32", "planes": "i32"}
    ops = ops_of(planes_kernel, types, SIDE=64, KEEPS=keeps)
    assert any(op.name == "ttg.convert_layout" and loop_around(op) is not None for op in ops)
    assert bool(conversion_lines(ops)) == keeps


@triton.jit
def steps_kernel(x_ptr, end_ptr, out_ptr, steps, BLOCK: tl.constexpr, OF: tl.constexpr):
    at, total = tl.arange(0, BLOCK), tl.zeros((BLOCK,), dtype=tl.float32)
    begin = tl.program_id(0) * steps
    if OF == "its own":
        for step in range(begin, begin + steps):
            total += tl.load(x_ptr + step * BLOCK + at)
    elif OF == "an argument":
        for step in range(steps):
            total += tl.load(x_ptr + (begin + step) * BLOCK + at)
    elif OF == "a triangle":
        for step in range(tl.program_id(0)):
            total += tl.load(x_ptr + step * BLOCK + at)
    elif OF == "data":
        for step in range(begin, begin + tl.load(end_ptr + tl.program_id(0))):
            total += tl.load(x_ptr + step * BLOCK + at)
    else:
        total += tl.load(x_ptr + at)
        if tl.program_id(0) % 2 == 0:
            total += tl.load(x_ptr + begin + at) * total
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


@pytest.mark.parametrize(
    ("of", "differs"),
    [("its own", False), ("an argument", False), ("a triangle", True), ("data", True), ("a branch", True)],
)
def test_programs_do_alike_if_their_loops_have_as_many_steps(of: str, differs: bool) -> None:
    pointers = dict.fromkeys(("x_ptr", "out_ptr"), "*fp32") | {"end_ptr": "*i32", "steps": "i32"}
    signature = {name: pointers[name] for name in ("x_ptr", "end_ptr", "out_ptr", "steps")}
    ops = ops_of(steps_kernel, signature, BLOCK=128, OF=of)
    assert any(map(differs_by_program, ops)) is differs
