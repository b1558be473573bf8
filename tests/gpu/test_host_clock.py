"""Launches on the host's clock: beside its own events, CUPTI's kernels, and launches on other GPUs."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

import profscope
from bench.kernels import matmul, surroundings
from bench.overhead import kernel_times
from profscope.device.clocks import anchor

_CUPTI_NS = 10_000  # by so much CUPTI's own times may be off, and a kernel may begin before its first record


def test_both_clocks_are_read_within_microseconds() -> None:
    both = anchor(torch.cuda.current_device())
    assert both is not None
    assert 0 < both.error_ns < 10_000
    assert abs(both.unix_ns - time.time_ns()) < 1_000_000_000


def test_a_launch_lies_between_what_the_host_did_before_and_after_it() -> None:
    workload = matmul(1024, (128, 128, 64), 8)
    with surroundings():
        inputs = workload.inputs("cuda")
        around = []
        with profscope.session(backend="gpu", instrument="light") as prof:
            for _ in range(20):
                torch.cuda.synchronize()
                before = time.time_ns(), time.perf_counter_ns()
                workload.launch(inputs)
                torch.cuda.synchronize()
                around.append((*before, time.time_ns(), time.perf_counter_ns()))
                time.sleep(0.01)
    times = prof.program.host_times()
    error = times["error_ns"].to_numpy()
    assert error.max() < 20_000
    for clock, before, after in (("unix", 0, 2), ("perf_counter", 1, 3)):
        start, end = (times[f"{side}_{clock}_ns"].to_numpy(np.int64) for side in ("start", "end"))
        host = np.array(around)
        assert (start >= host[:, before] - error).all()
        assert (end <= host[:, after] + error).all()
        assert (end > start).all()


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
