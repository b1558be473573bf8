"""What a record costs: read off a kernel's times, and None where it cannot run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from profscope.device import record_cost as measuring
from profscope.device.record_cost import RecordCost, record_cost


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    record_cost.cache_clear()
    yield
    record_cost.cache_clear()


def test_a_row_is_what_reads_do_not_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_times", lambda device: [8_000, 8_000 + 256 * 24, 2])
    assert record_cost(0) == RecordCost(read=2.0, row=20.0)


def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def times(device: int) -> list[int]:
        asked.append(device)
        return [100, 100, 2]

    monkeypatch.setattr(measuring, "_times", times)
    assert record_cost(1) == record_cost(1) == RecordCost(2.0, 0.0)
    assert asked == [1]


@pytest.mark.parametrize("error", [OSError("no libcuda"), RuntimeError("an error that stays")])
def test_none_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def times(device: int) -> list[int]:
        raise error

    monkeypatch.setattr(measuring, "_times", times)
    assert record_cost(0) is None


def test_the_kernel_assembles() -> None:
    """The PTX, by the assembler that Triton ships, with its reads and stores where they were put."""
    import subprocess
    import tempfile
    from pathlib import Path

    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(measuring._ptx())
        for arch in ("sm_80", "sm_90"):
            subprocess.run(
                [knobs.nvidia.ptxas.path, f"-arch={arch}", str(source), "-o", str(cubin)], check=True
            )
            assert cubin.stat().st_size > 0
