"""The kernels that measure a GPU's peaks, on the emulator: what they compute, and what follows from times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton

import profscope
from profscope.device import backend, gpus
from profscope.device.gpus import Gpu, Peaks, keep, peaks_file
from profscope.device.gpus import known_peaks as kept
from profscope.emulator import activate
from profscope.errors import SessionError
from profscope.tuning.peaks import (
    Sizes,
    cached_copy_kernel,
    chase_kernel,
    copy_kernel,
    dot_kernel,
    fma_kernel,
    measure_peaks,
    peaks_of_sizes,
    ring_of,
)

PEAKS = Peaks(4300.0, 5900.0, 160.0, 420.0, 60.0, 700.0)
SMALL = Sizes(sm_count=1, copied_bytes=1 << 15, cached_bytes=1 << 14, copies=2, fmas=2, dots=2, steps=8)


@pytest.fixture
def emulator() -> Iterator[Any]:
    with activate(sm_count=2) as driver:
        yield driver


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two of them, and a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    both = [Gpu(f"NVIDIA Z1 / {number}", (12, 0), 170, 24 << 30, 96 << 20) for number in range(2)]
    monkeypatch.setattr(gpus, "gpus", lambda: both)
    monkeypatch.setattr(gpus, "driver_version", lambda: "580.1")


@pytest.mark.usefixtures("emulator")
def test_copies_copy_all_blocks() -> None:
    source = torch.arange(4 * 256, dtype=torch.int32)
    out = torch.zeros_like(source)
    copy_kernel[(4,)](out, source, BLOCK=256)
    assert torch.equal(out, source)
    out.zero_()
    cached_copy_kernel[(2,)](out, source, 4, 3, 1, BLOCK=256)
    assert torch.equal(out != 0, (torch.arange(4 * 256) < 2 * 256) & (source != 0))
    cached_copy_kernel[(2,)](out, source, 4, 3, 4, BLOCK=256)
    assert torch.equal(out, source)


@pytest.mark.usefixtures("emulator")
def test_a_chase_comes_to_every_line_once() -> None:
    ring, at = ring_of(37, "cpu"), torch.zeros(1, dtype=torch.int32)
    seen = []
    for _ in range(37):
        chase_kernel[(1,)](ring, at, 1, num_warps=1)
        seen.append(int(at))
    assert sorted(seen) == list(range(0, 37 * 32, 32))
    assert seen[-1] == 0
    chase_kernel[(1,)](ring, at, 37 + 5, num_warps=1)
    assert int(at) == seen[4]


@pytest.mark.usefixtures("emulator")
def test_fmas_and_dots_are_all_done() -> None:
    out = torch.zeros(256)
    fma_kernel[(2,)](out, 0.75, 1.0, 2, BLOCK=128, UNROLLED=3)
    expected = np.arange(256, dtype=np.float32)
    for _ in range(2 * 3):  # a product of two float32 is exact in float64
        expected = (expected.astype(np.float64) * 0.75 + 1).astype(np.float32)
    assert out.tolist() == expected.tolist()
    a, b = torch.randn(32, 16).to(torch.float16), torch.randn(16, 32).to(torch.float16)
    sums = torch.zeros(2, 32, 32)
    dot_kernel[(2,)](sums, a, b, 3, M=32, N=32, K=16)
    torch.testing.assert_close(sums, (3 * (a.double() @ b.double())).float().expand(2, 32, 32))


@pytest.mark.usefixtures("emulator")
def test_rates_are_the_work_over_the_time() -> None:
    """Each launch takes 100 us."""

    def time_us(launch: Callable[[], object]) -> float:
        launch()
        return 100.0

    found = peaks_of_sizes(SMALL, time_us, "cpu")
    assert found.dram_gb_s == pytest.approx(2 * (1 << 15) / 100e-6 / 1e9)
    assert found.l2_gb_s == pytest.approx(2 * 16 * 2 * 4096 / 100e-6 / 1e9)
    assert found.l2_latency_ns == pytest.approx(100e3 / ((1 << 14) / 128))
    assert found.dram_latency_ns == pytest.approx(100e3 / 8)
    assert found.fma_tflops == pytest.approx(2 * 48 * 1024 * 16 * 2 / 100e-6 / 1e12)
    assert found.dot_fp16_tflops == pytest.approx(2 * 12 * 128 * 128 * 64 * 2 / 100e-6 / 1e12)


@pytest.mark.usefixtures("gpu")
def test_peaks_are_kept_by_gpu_driver_and_triton(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kept(0) is None
    path = keep(0, PEAKS)
    assert path == peaks_file(0)
    assert path.parent == tmp_path / "profscope" / "peaks"
    assert path.name == f"NVIDIA Z1 - 0, driver 580.1, Triton {triton.__version__}.json"
    assert kept(0) == PEAKS
    assert kept(1) is None
    for damaged in ("", "[]", '{"dram_gb_s": 1.0}', path.read_text().replace("4300.0", '"fast"')):
        path.write_text(damaged)
        assert kept(0) is None
    keep(0, PEAKS)
    monkeypatch.setattr(gpus, "driver_version", lambda: "590.1")
    assert kept(0) is None


@pytest.mark.usefixtures("gpu")
def test_a_profile_has_the_peaks_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, major, minor, multi_processor_count = "NVIDIA Z1", 12, 0, 170

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    monkeypatch.setattr(backend, "uses_gpu", lambda name: True)
    monkeypatch.setattr(backend, "HostClocks", lambda: None)
    with backend.select("auto") as machine:
        assert "peaks" not in machine.metadata()["device"]
        keep(0, PEAKS)
        assert machine.metadata()["device"]["peaks"]["l2_latency_ns"] == 160.0


def test_nothing_is_measured_in_a_session() -> None:
    with profscope.session(backend="emulator"), pytest.raises(SessionError, match="outside of sessions"):
        measure_peaks(0)
