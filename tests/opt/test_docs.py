"""docs/passes.md against the passes, levels and options there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instrument_passes.opt import main
from instrument_passes.passes import passes, signature
from instrument_passes.pipeline import LEVELS, LOWERING

TEXT = (Path(__file__).parent.parent.parent / "docs" / "passes.md").read_text()


def test_passes_and_their_options() -> None:
    ours = {n: cls for n, cls in passes().items() if cls.__module__.startswith("instrument_passes.")}
    rows = dict(
        re.findall(r"^\| `([a-z][a-z-]+)` \| (.*?) ?\|", TEXT.partition("## profscope-opt")[0], re.MULTILINE)
    )
    assert set(rows) == set(ours)
    for name, cls in ours.items():
        assert set(re.findall(r"([a-z-]+)=", rows[name])) == set(signature(cls))


def test_levels() -> None:
    assert dict(re.findall(r'^\| `"(\w+)"` \| `(.*?)` \|', TEXT, re.MULTILINE)) == LEVELS
    assert f"`{LOWERING}`" in TEXT


def test_options(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    offered = set(re.findall(r"--[a-z][a-z-]+", capfd.readouterr().out)) - {"--help", "--passes", "--output"}
    assert offered == set(re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE))
