"""The pipe of each opcode, against the pipes' counters of an H200."""

from __future__ import annotations

from collections import Counter

import pytest

from profscope.analysis.kernels.devices import pipe_of
from profscope.evidence.metrics import PIPES
from tests.support.h200_evidence import KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_each_pipe_executes_what_the_table_says(name: str) -> None:
    entry = KERNELS[name]
    counted: Counter[str] = Counter()
    for opcode, executed in entry["opcodes"].items():
        counted[pipe_of(opcode)] += executed
    assert sum(counted.values()) == entry["totals"]["executed"]
    issued = entry["counters"]["sm__inst_issued.avg.per_cycle_elapsed"]
    for pipe in PIPES:
        share = entry["counters"][f"sm__inst_executed_pipe_{pipe}.avg.per_cycle_elapsed"] / issued
        # One instruction of each warp more uses the LSU pipe: a twelfth of all in the smallest kernel.
        apart = 0.07 if (name, pipe) == ("copy", "lsu") else 0.03
        assert counted[pipe] / counted.total() == pytest.approx(share, abs=apart), pipe


def test_modifiers_tell_tensor_instructions() -> None:
    assert pipe_of("HFMA2.MMA") == "tensor"
    assert pipe_of("HFMA2") == "fma"
    assert pipe_of("HGMMA.64x128x16.F32") == "tensor"
    assert pipe_of("BRA") == ""
