"""The verdict, and a diff, of kernels recorded the default way, on a real GPU."""

from __future__ import annotations

import pytest
import torch

import profscope
from profscope.analysis.verdict import DISTRUST, TRUST
from profscope.profiles import Profile
from tests.kernels.cases import cases
from tests.kernels.shaping import pieces_kernel

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
        with profscope.session(backend="gpu", ctas=64, hardware=True) as prof:
            for _ in range(LAUNCHES):
                case.launch(inputs)
        verdicts[case.name] = prof.verdict
    doubtful = {name: verdict.headline for name, verdict in verdicts.items() if verdict.label != TRUST}
    # early_return takes 0.4 us; the innermost loops of nested_loops take less than their records.
    assert len(doubtful) <= 3, doubtful
    distrusted = [name for name, verdict in verdicts.items() if verdict.label == DISTRUST]
    assert distrusted == ["nested_loops"], doubtful


def recorded(grid: int, block: int) -> Profile:
    size = 1 << 24
    x, out = torch.rand(size, device="cuda"), torch.zeros(1, dtype=torch.float64, device="cuda")
    pieces_kernel[(grid,)](x, out, size, BLOCK=block)
    with profscope.session(backend="gpu", ctas=64, hardware=True) as prof:
        for _ in range(LAUNCHES):
            pieces_kernel[(grid,)](x, out, size, BLOCK=block)
    return prof.profile


def test_grids_that_record_other_numbers_of_ctas_are_compared() -> None:
    many, few = recorded(16_384, 1024), recorded(64, 1024)
    counts = {tuple(sorted(set(profile.launches["ctas"]))) for profile in (many, few)}
    assert len(counts) == 2
    other_tiles = profscope.diff(many, recorded(4096, 4096)).iloc[0]
    assert (other_tiles["kind"], other_tiles["grid_a"], other_tiles["grid_b"]) == ("launch", "16384", "4096")
    other_grid = profscope.diff(many, few).iloc[0]  # of the same tensors, as hardware=True tells
    assert other_grid["differs"] == "grid 16384 -> 64"
    assert other_grid["significant"]
