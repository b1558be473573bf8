"""The benchmark of launch spans, in small sizes on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench.launch_spans import main, probe_kernel, rates_between
from profscope import emulator


def test_the_probe_reads_the_rate_of_the_clock() -> None:
    reads = torch.zeros(2 * 400, dtype=torch.int64)
    with emulator.activate():
        probe_kernel[(1,)](reads, 400, num_warps=1)
    ns = reads[1::2].numpy()
    rates = rates_between(reads.numpy(), int(ns[20]), int(ns[380]))
    assert rates == pytest.approx([1.25] * 5, rel=0.05)  # the timer advances in steps of 32 ns


def test_a_clock_that_changes_is_seen() -> None:
    ns = np.arange(1 << 40, (1 << 40) + 100_000, 500)
    cycle = np.where(ns < ns[100], 2 * (ns - ns[0]), 2 * (ns[100] - ns[0]) + (ns - ns[100]))
    reads = np.stack([cycle + (1 << 50), ns], axis=1).reshape(-1)
    rates = rates_between(reads, int(ns[0]), int(ns[-1]) + 1 - 500)
    assert rates[[0, 1, 3, 4]] == pytest.approx([2, 2, 1, 1], rel=0.02)
    with pytest.raises(RuntimeError, match="did not run during all of the launch"):
        rates_between(reads, int(ns[0]), int(ns[-1]) + 500)


@pytest.mark.exhaustive
def test_it_runs_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tiny", "--rows", "^add"]) == 0
    told = capsys.readouterr().out
    assert told.count("emulated") == 3
    assert "SM clock, GHz" in told
