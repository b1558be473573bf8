"""The verdict, and a diff, of kernels recorded the default way, on a real GPU."""

from __future__ import annotations

import pytest
import torch

import profscope
from profscope.analysis.verdict import DISTRUST, TRUST
from tests.kernels.cases import cases

CLEAN = (
    "add", "softmax", "layer_norm", "matmul", "matmul_cluster", "matmul_tma", "matmul_ws", "attention",
    "early_return", "while", "branch_in_loop", "nested_loops",
)  # fmt: skip
LAUNCHES = 40


@pytest.mark.filterwarnings("ignore::profscope.errors.DistrustWarning")
def test_clean_kernels_are_mostly_to_be_trusted() -> None:
    verdicts = {}
    for case in cases("real"):
        if case.name not in CLEAN or torch.cuda.get_device_capability() < divmod(case.capability, 10):
            continue
        inputs = case.inputs("cuda")
        case.launch(inputs)
        with profscope.session(backend="gpu", ctas=64, evidence=True) as prof:
            for _ in range(LAUNCHES):
                case.launch(inputs)
        verdicts[case.name] = prof.verdict
    doubtful = {name: verdict.headline for name, verdict in verdicts.items() if verdict.label != TRUST}
    # early_return takes 0.4 us; the innermost loops of nested_loops take less than their records.
    assert len(doubtful) <= 3, doubtful
    distrusted = [name for name, verdict in verdicts.items() if verdict.label == DISTRUST]
    assert distrusted == ["nested_loops"], doubtful
