"""The tables of `bench.agreement`, of a profile at hand and of the emulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import profscope
from bench import kernels
from bench.agreement import main, shown
from profscope.profiles import Profile
from tests.support.profiles import regular_profile
from tests.support.samples import sample_rows


def test_distances_and_lines_are_shown() -> None:
    samples = sample_rows({26: {"long_scoreboard": 300}, 27: {"wait": 100}}, blamed={26: (24, "global load")})
    profile = Profile.of(replace(regular_profile(), samples=samples))
    text = shown(profile, 2)
    assert [line.split()[:3] for line in text.splitlines() if "bare samples" in line] == [
        ["bare", "samples", "spans"]
    ]
    assert "long_scoreboard on load, line 24 (100 %)" in text
    assert sum(line.lstrip().startswith(("26 ", "27 ", "40 ")) for line in text.splitlines()) == 2


def test_it_runs_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "give_scratch", lambda device: None)  # which no kernel here asks for
    options = [
        "--dry-run",
        "--level",
        "light",
        "--rows",
        "512, light",
        "--save",
        str(tmp_path),
    ]
    assert main(options) == 0
    text = capsys.readouterr().out
    assert "layer norm, 8 x 512, light" in text
    assert "no samples" not in text
    assert len(profscope.load(tmp_path / "layer_norm_kernel.json.gz").launches) == 7
    assert main(["--rows", "nothing"]) == 1
    assert "no GPU is active" in capsys.readouterr().err
