"""Who starts and who waits: every asynchronous op that the installed Triton makes of the corpus."""

from __future__ import annotations

import pytest

from instrument_passes.ir import parse
from instrument_passes.opclasses import info_of
from instrument_passes.passes.walk import kernel_of
from instrument_passes.transactions import PARTS, roles
from tests.kernels import matmul_tma, matmul_ws
from tests.kernels.aot import ttgir
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA80, CUDA90, CUDA100


@pytest.mark.parametrize("target", [CUDA80, CUDA90, CUDA100])
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
            if info.cls in ("async_copy", "mma") and info.partners and op.name != "ttng.tc_gen5_commit":
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
