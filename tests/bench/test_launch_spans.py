"""The benchmark of launch spans, in small sizes on the emulator."""

from __future__ import annotations

import pytest

from bench.launch_spans import main


@pytest.mark.exhaustive
def test_it_runs_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tiny", "--rows", "^add"]) == 0
    told = capsys.readouterr().out
    assert told.count("emulated") == 3
    assert "SM clock, GHz" in told
