"""Several GPUs in one process: each has arenas and clocks of its own. Needs two."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import triton

import profscope
from tests.kernels.add import add_kernel
from tests.support.validation import validate

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")

N = 65_536


def launch_on(device: int) -> torch.Tensor:
    with torch.cuda.device(device):
        x = torch.arange(N, dtype=torch.float32, device=f"cuda:{device}")
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(N, 1024),)](x, x, out, N, BLOCK=1024)
    return out


def check(prof: profscope.Session, expected: list[int]) -> None:
    launches = prof.launches
    assert launches["device"].tolist() == expected
    assert validate(prof.profile.tables) == []
    assert prof.metadata["notes"] == []
    for device in (0, 1):
        mine = launches[launches["device"] == device]
        assert mine["start_ns"].is_monotonic_increasing  # by its own clock
        assert (mine["end_ns"] > mine["start_ns"]).all()
        assert (mine["end_ns"] - mine["start_ns"] < 10_000_000).all()
        assert mine["clock_ghz"].between(0.3, 4).all()


def test_launches_in_turn(tmp_path: Path) -> None:
    expected = [index % 2 for index in range(400)]
    with profscope.session(backend="gpu", memory=1, spool=tmp_path) as prof:
        outputs = [launch_on(device) for device in expected]
    for device in (0, 1):
        torch.cuda.synchronize(device)
    assert all((out.cpu() == torch.arange(N) * 2).all() for out in outputs)
    check(prof, expected)
    assert profscope.load(tmp_path).launches["device"].tolist() == expected


def test_a_thread_for_each_device() -> None:
    outputs: dict[int, list[torch.Tensor]] = {}

    def work(device: int) -> None:
        outputs[device] = [launch_on(device) for _ in range(200)]
        torch.cuda.synchronize(device)

    with profscope.session(backend="gpu", memory=1) as prof, ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (0, 1)))
    assert all((out.cpu() == torch.arange(N) * 2).all() for mine in outputs.values() for out in mine)
    assert sorted(prof.launches["device"]) == [0] * 200 + [1] * 200
    check(prof, prof.launches["device"].tolist())
