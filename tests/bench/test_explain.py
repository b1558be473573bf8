"""The benchmark of `explain` runs without a GPU, small."""

from __future__ import annotations

import pytest

from bench.explain import main


def test_a_dry_run_has_what_was_predicted_and_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "--rows", "add"]) == 0
    said = capsys.readouterr().out
    assert "== add by 64 elements\nEMULATED" in said
    assert "predicted" in said
    assert "kcycles, " in said.splitlines()[-1]
