"""What kernels of ours measure of an H200, and what `profscope doctor` finds there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from profscope.commands.doctor import rows
from profscope.commands.doctor_rows import MISSING, OK
from profscope.device.gpus import known_peaks
from profscope.tuning.peaks import measure_peaks


def test_an_h200_does_what_it_should(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if torch.cuda.get_device_name() != "NVIDIA H200":
        pytest.skip("needs an H200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    peaks = measure_peaks(0)
    assert 3000 < peaks.dram_gb_s < 5000
    assert peaks.dram_gb_s < peaks.l2_gb_s < 12_000
    assert 80 < peaks.l2_latency_ns < 300
    assert 1.5 * peaks.l2_latency_ns < peaks.dram_latency_ns < 1200
    assert 40 < peaks.fma_tflops < 70
    assert 500 < peaks.dot_fp16_tflops < 1000
    assert known_peaks(0) == peaks


def test_the_doctor_finds_this_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = rows()
    gpu = found["gpu"].facts["gpus"][torch.cuda.current_device()]
    assert gpu["name"] == torch.cuda.get_device_name()
    assert gpu["capability"] == "{}.{}".format(*torch.cuda.get_device_capability())
    assert gpu["sm_count"] == torch.cuda.get_device_properties().multi_processor_count
    assert found["gpu"].facts["driver"]
    assert found["peaks"].state == MISSING
    for name in ("triton", "torch", "ptxas", "cupti", "records", "experiments"):
        assert found[name].state == OK, found[name].text
    if found["permission"].state == OK:
        assert {found[name].text for name in ("counts", "samples", "counters")} == {"allowed"}
