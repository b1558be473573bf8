"""Who starts and who waits: every asynchronous op that the installed Triton makes of the corpus."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.analyses.async_roles import PARTS, roles
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ops import info_of
from tests.kernels import gluon_tcgen05, matmul, matmul_tma, matmul_ws
from tests.kernels.aot import lowered, ttgir
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA80, CUDA90, CUDA100
from tests.support.quick import quick


@pytest.mark.parametrize("target", quick((CUDA80, CUDA90, CUDA100), (CUDA90,)))
def test_every_start_has_a_wait(target: str) -> None:
    starts = 0
    for spec in specs():
        if target in spec.unsupported:
            continue
        kernel = kernel_of(parse(ttgir(spec, target), spec.name))
        found = roles(kernel)
        parts = {}
        for role in found.values():
            assert role.part in PARTS
            parts.setdefault(role.channel, set()).add(role.part)
        for op in kernel.walk():
            info = info_of(op)
            assert info is not None
            if info.cls in ("async_copy", "mma") and info.partners:
                assert op in found, (spec.name, op)
                assert parts[found[op].channel] & {"wait", "phase"}, (spec.name, op)
                starts += found[op].part != "close"
        for found_parts in parts.values():
            assert "member" not in found_parts or found_parts & {"open", "close"}
    assert starts > 10


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_barriers_are_followed_into_partitions(target: str) -> None:
    """The producer's copies and the consumer's waits are in different partitions of one kernel."""
    kernel = kernel_of(parse(ttgir(matmul_ws.specs()[0], target)))
    regions = {}
    for op, role in roles(kernel).items():
        around = op
        while around.parent_op is not None and around.parent_op.name != "ttg.warp_specialize":
            around = around.parent_op
        if role.part in ("member", "phase") and around.parent is not None:
            regions.setdefault(role.channel, {}).setdefault(role.part, set()).add(id(around.parent.parent))
    paired = [parts for parts in regions.values() if "member" in parts]
    assert paired
    assert all(parts["member"].isdisjoint(parts["phase"]) for parts in paired)


def test_barriers_carried_by_loops() -> None:
    found = roles(kernel_of(parse(ttgir(matmul_tma.specs()[0], CUDA100))))
    issues = {op.name: role.channel for op, role in found.items() if role.part in ("issue", "member")}
    phases = {role.channel for role in found.values() if role.part == "phase"}
    assert issues["ttng.async_tma_copy_global_to_local"] != issues["ttng.tc_gen5_mma"]
    assert {issues["ttng.async_tma_copy_global_to_local"], issues["ttng.tc_gen5_mma"]} == phases


def test_products_without_a_barrier_belong_to_the_next_commit() -> None:
    found = roles(kernel_of(parse(ttgir(gluon_tcgen05.specs()[0], CUDA100))))
    assert [(op.name, role.part, role.channel, role.pending) for op, role in found.items()] == [
        ("ttng.tc_gen5_mma", "member", 0, 0),
        ("ttng.tc_gen5_mma", "member", 0, 0),
        ("ttng.tc_gen5_commit", "close", 0, 0),
        ("ttng.wait_barrier", "phase", 0, 0),
    ]


def test_a_producer_first_finds_all_buffers_free() -> None:
    """The tensor core frees buffers for the copies of the other partition, which wait from phase 1 on."""
    found = roles(kernel_of(parse(ttgir(matmul_ws.specs()[0], CUDA100))))
    channel = {op.name: role.channel for op, role in found.items()}
    frees, fills, end = (
        channel[name] for name in ("ttng.tc_gen5_mma", "ttng.barrier_expect", "ttng.tc_gen5_commit")
    )
    assert len({frees, fills, end}) == 3
    waits = {role.channel: role.pending for role in found.values() if role.part == "phase"}
    assert waits == {frees: 3, fills: 0, end: 0}  # three stages


_COMMITS = """
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100"} {
  tt.func public @k(%n: i1) {
    %c0 = arith.constant 0 : i32
    %bar = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #s, #m, mutable>
    BEFORE
    ttng.wait_barrier %bar, PHASE : !ttg.memdesc<1xi64, #s, #m, mutable>
    tt.return
  }
}
"""
_PRODUCT = "ttng.tmem_copy %a, %b : !ttg.memdesc<128x128xf32, #s, #m>, !ttg.memdesc<128x128xf32, #t, #m>"
_COMMIT = "ttng.tc_gen5_commit %bar : !ttg.memdesc<1xi64, #s, #m, mutable>"


@pytest.mark.parametrize(
    ("before", "phase", "parts"),
    [
        (f"{_PRODUCT}\n{_COMMIT}", "%c0", ["member", "close", "phase"]),
        (f"scf.if %n {{\n{_PRODUCT}\n}}\n{_COMMIT}", "%c0", ["member", "close", "phase"]),
        (_COMMIT, "%c0", ["issue", "phase"]),
        # Which commit comes next depends on the run, so nothing is told of the product.
        (f"{_PRODUCT}\nscf.if %n {{\n{_COMMIT}\n}}", "%c0", ["issue", "phase"]),
        (f"scf.for %i = %c0 to %c0 step %c0 : i32 {{\n{_COMMIT}\n{_PRODUCT}\n}}", "%c0", ["issue", "phase"]),
        # A phase that the text does not tell.
        (f"{_PRODUCT}\n{_COMMIT}", "%unknown", []),
    ],
)
def test_which_commit_comes_next(before: str, phase: str, parts: list[str]) -> None:
    module = parse(_COMMITS.replace("BEFORE", before).replace("PHASE", phase))
    assert [role.part for role in roles(kernel_of(module)).values()] == parts


@pytest.mark.parametrize("target", ["hip:gfx942", "hip:gfx950"])
def test_copies_of_amd_gpus_are_a_queue(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_HIP_USE_ASYNC_COPY", "1")
    texts, _ = lowered(matmul.specs()[0], target, "ttgir")
    found = roles(kernel_of(parse(texts["ttgir"])))
    assert {role.part for role in found.values()} == {"member", "close", "wait"}
    assert {role.channel for role in found.values()} == {0}
