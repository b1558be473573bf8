"""Kernels that hang on a GPU, each in a process that ends or releases it; see bench/hangs.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.hangs import CASES
from bench.kernels import surroundings, workloads
from profscope import session

ROOT = Path(__file__).parents[2]
HOPPER = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability()[0] != 9, reason="wgmma and TMA of Hopper"
)
SAID = {
    "a flag nobody sets": [
        "264 CTAs; 263 ended, 0 have not begun, 1 hangs", "CTA 5", "release_ptr + 8 bytes (holds 0)",
    ],
    "a counter never reset": ["8 CTAs; 0 ended, 0 have not begun, 8 hang", "poll done_ptr (holds 0)"],
    "a barrier in a branch": [
        "warp 0 waits for the other warps of its CTA", "warps 1 to 3 wait for its assembly",
    ],
    "a grid that does not fit": ["have not begun, ", "poll arrived_ptr (holds "],
    "a slow kernel": ["slow, not hanging: "],
    "an event that does not come": ["spin_kernel, launch 0, ", "1 hangs"],
    "in a CUDA graph": ["spin_kernel, launch 1, ", "263 ended, 0 have not begun, 1 hangs"],
    "two partitions, no fault": [],
    "two partitions, a lost arrive": [
        "default partition (warps 0 to 3) wait for mbarrier full[2] phase 1",
        "partition 0 (warp 6) waits for mbarrier empty[2] phase 0",
        "who arrives at mbarrier empty[2]: default partition at hanging.py:",
    ],
    "two partitions, a wrong phase": ["default partition (warps 0 to 3) wait for mbarrier full[0] phase 1"],
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=HOPPER if name.startswith("two") else ()) for name in CASES]
)
def test_what_is_said(name: str) -> None:
    command = [sys.executable, "-m", "bench.hangs", "--one", name]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0
    for part in SAID[name]:
        assert part in ran.stderr
    assert ran.stderr.count("profscope: ") == bool(SAID[name])


@pytest.mark.parametrize("name", ["matmul, 4096^3", "layer norm", "attention"])
def test_results_are_bit_identical(name: str) -> None:
    workload = next(each for each in workloads() if each.name.startswith(name))
    with surroundings(), session(hang_s=60) as prof:
        marked, bare = workload.inputs("cuda"), workload.inputs("cuda")
        workload.launch(marked)
        prof.pause()
        workload.launch(bare)
        torch.cuda.synchronize()
    for key, tensor in bare.items():
        if torch.is_tensor(tensor):
            assert torch.equal(tensor, marked[key]), key
    assert prof.metadata["hang_reports"] == []
