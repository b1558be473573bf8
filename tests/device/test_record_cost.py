"""What a record costs: read off a kernel's times, and None where it cannot run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from triton import knobs

from profscope.device.record_cost import RecordCost, cost_of, kernel_ptx, record_cost


@pytest.mark.parametrize(
    ("recorded", "row"), [(8_000 + 256 * 24, 20.0), (8_000, 0.0)], ids=["longer", "hidden"]
)
def test_a_row_is_what_reads_do_not_explain(recorded: int, row: float) -> None:
    assert cost_of(8_000, recorded, 2) == RecordCost(read=2.0, row=row)


@pytest.mark.parametrize(
    ("device", "error"), [(98, OSError("no libcuda")), (99, RuntimeError("an error that stays"))]
)
def test_none_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch, device: int, error: Exception) -> None:
    def fails(number: int) -> None:
        raise error

    monkeypatch.setattr(torch.cuda, "set_device", fails)
    assert record_cost(device) is None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_kernel_assembles(arch: str, tmp_path: Path) -> None:
    """By the assembler that Triton ships."""
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(kernel_ptx())
    subprocess.run([knobs.nvidia.ptxas.path, f"-arch={arch}", source, "-o", cubin], check=True)
    assert cubin.stat().st_size > 0
