"""The pointer chase on the emulator: that it runs, goes through all of its memory, and can say no."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import cold


def test_a_tiny_chase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "OPTIONS", {"light": {"instrument": "light"}, "wrong": {"memory": 0}})
    file = tmp_path / "cold.json"
    assert cold.main(["--tiny", "--rounds", "1", "--json", str(file)]) == 1
    said = capsys.readouterr().out
    assert "triton 3." in said
    assert "date 20" in said
    found = {row["name"]: row["cells"] for row in json.loads(file.read_text())["rows"]}
    assert list(found) == ["bare, by its own clock", "light", "wrong"]
    bare, light, wrong = ([cell["samples"] for cell in cells.values()] for cells in found.values())
    assert wrong == [[], []]
    assert "memory=0" in found["wrong"]["first launch"]["error"]
    for (of_bare,), (of_light,) in zip(bare, light, strict=True):
        assert of_light == pytest.approx(of_bare, rel=0.2)


def test_a_chase_goes_through_every_line_once() -> None:
    chase = cold.Chase.through(1 << 14, "cpu")
    pointers, at, seen = chase.pointers.tolist(), 0, set()
    for _ in range(chase.steps):
        seen.add(at)
        at = pointers[at]
    assert at == 0
    assert seen == set(range(0, len(pointers), 32))


def test_without_a_gpu_it_says_how_to_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as caught:
        cold.main([])
    assert caught.value.code == 2
    assert "there is no GPU; --tiny" in capsys.readouterr().err
