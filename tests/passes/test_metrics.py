"""Bytes and operations from types, on modules that the installed Triton prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from profscope.instrument_passes.analyses.metrics import bytes_of, flops_of
from profscope.instrument_passes.ir import Module, parse
from profscope.instrument_passes.ops import info_of
from tests.kernels import add, attention, dot_scaled, matmul, matmul_tma
from tests.kernels.aot import ttgir
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA80, CUDA90, CUDA100, GFX942, TARGETS
from tests.support.quick import quick


def _totals(module: Module, metric: object) -> Counter[str]:
    totals: Counter[str] = Counter()
    for op in module.walk():
        value = metric(op)  # type: ignore[operator]
        if value:
            totals[op.name] += value
    return totals


def _module(spec: object, target: str) -> Module:
    return parse(ttgir(spec, target))  # type: ignore[arg-type]


def test_loads_and_stores() -> None:
    module = _module(add.specs()[0], CUDA80)
    assert _totals(module, bytes_of) == {"tt.load": 2 * 1024 * 4, "tt.store": 1024 * 4}
    buffers = _module(add.specs()[0], GFX942)
    named = _totals(buffers, bytes_of)
    assert sum(named[name] for name in named if "load" in name) == 2 * 1024 * 4
    assert sum(named[name] for name in named if "store" in name) == 1024 * 4


@pytest.mark.parametrize(
    ("target", "dot"), [(CUDA80, "tt.dot"), (CUDA90, "ttng.warp_group_dot"), (CUDA100, "ttng.tc_gen5_mma")]
)
def test_pipelined_matmul(target: str, dot: str) -> None:
    """Tiles of 64 x 64 x 32 in fp16; Triton 3.8 and later cut the dot along K for mma instructions."""
    module = _module(matmul.specs()[0], target)
    loop = next(op for op in module.walk() if op.name == "scf.for")
    assert sum(flops_of(op) for op in loop.walk() if op.name == dot) == 2 * 64 * 64 * 32
    copies = {bytes_of(op) for op in module.walk() if op.name == "ttg.async_copy_global_to_local"}
    assert copies == {64 * 32 * 2}
    stores = {bytes_of(op) for op in module.walk() if op.name == "tt.store"}
    assert stores == {64 * 64 * 2}


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_tensor_descriptors(target: str) -> None:
    module = _module(matmul_tma.specs()[0], target)
    copies = [op for op in module.walk() if op.name.startswith("ttng.async_tma_copy")]
    assert {bytes_of(op) for op in copies} == {64 * 64 * 2}


def test_both_dots_of_attention() -> None:
    module = _module(attention.specs()[0], CUDA90)
    products = {flops_of(op) for op in module.walk() if op.name == "ttng.warp_group_dot"}
    assert products == {2 * 64 * 32 * 64}


@pytest.mark.parametrize(("lhs", "rhs"), [("e4m3", "e2m1"), ("e2m1", "e2m1")])
@pytest.mark.parametrize(
    ("target", "dot"), [(CUDA100, "ttng.tc_gen5_mma_scaled"), ("hip:gfx950", "tt.dot_scaled")]
)
def test_scaled_and_mixed_types(lhs: str, rhs: str, target: str, dot: str) -> None:
    module = _module(dot_scaled.spec(lhs, rhs), target)
    assert _totals(module, flops_of) == {dot: 2 * 128**3}


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_a_cluster_shares_the_work(target: str) -> None:
    """With two CTAs the types are those of both: each computes half, and loads A whole and half of B."""
    spec = matmul.specs()[0]
    module = _module(replace(spec, options={**spec.options, "num_ctas": 2}), target)
    products = [flops_of(op) for op in module.walk() if flops_of(op)]
    if target == CUDA90:
        assert set(products) == {64 * 64 * 32}
    copies = Counter(bytes_of(op) for op in module.walk() if op.name == "ttg.async_copy_global_to_local")
    assert set(copies) == {64 * 32 * 2, 64 * 32}


@pytest.mark.parametrize("target", quick(TARGETS, (CUDA90,)))
def test_every_op_that_moves_or_computes_says_how_much(target: str) -> None:
    for spec in specs():
        if target in spec.unsupported:
            continue
        for op in _module(spec, target).walk():
            info = info_of(op)
            assert info is not None, op
            assert (bytes_of(op) > 0) == bool(info.moves), op
            assert (flops_of(op) > 0) == bool(info.flops), op
