"""Launches on the host's clock: beside its own events, CUPTI's kernels, and launches on other GPUs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import profscope
from bench.kernels import matmul, surroundings
from bench.overhead import kernel_times

_CUPTI_NS = 10_000  # by so much CUPTI's own times may be off, and a kernel may begin before its first record


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_launches_lie_where_torchs_profiler_sees_them() -> None:
    workload = matmul(2048, (128, 128, 64), 8)
    with surroundings():
        inputs = workload.inputs("cuda")
        with profscope.session(backend="gpu", instrument="light") as prof:
            workload.launch(inputs)
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
                for _ in range(20):
                    workload.launch(inputs)
                torch.cuda.synchronize()
    seen = kernel_times(profiler, workload.fn.__name__)
    times = prof.program.host_times().iloc[1:]
    assert len(seen) == len(times) == 20
    begun, ended = np.array([(start, start + round(1e3 * us)) for start, us in seen]).T
    later = times["start_unix_ns"].to_numpy(np.int64) - begun
    earlier = ended - times["end_unix_ns"].to_numpy(np.int64)
    print("start behind CUPTI's", later.min(), later.max(), "end before", earlier.min(), earlier.max())
    print(times["error_ns"].max(), prof.metadata["host_clock"])
    within = _CUPTI_NS + times["error_ns"].max()
    assert np.abs(later).max() < within
    assert np.abs(earlier).max() < within


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
def test_launches_of_two_gpus_are_on_one_axis() -> None:
    workload = matmul(1024, (128, 128, 64), 8)
    with surroundings(), profscope.session(backend="gpu", instrument="light") as prof:
        for number in range(6):
            device = f"cuda:{number % 2}"
            with torch.cuda.device(device):
                workload.launch(workload.inputs(device))
                torch.cuda.synchronize(device)
    times = prof.program.host_times()
    assert times["device"].tolist() == [0, 1] * 3
    starts, ends = (times[f"{side}_unix_ns"].to_numpy(np.int64) for side in ("start", "end"))
    assert (starts[1:] > ends[:-1] - times["error_ns"].max()).all()
