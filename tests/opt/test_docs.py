"""docs/passes.md against the passes, levels and options there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profscope.commands.opt import main
from profscope.instrument_passes import LOWERING
from profscope.instrument_passes.passes import passes, signature, spelled, summary
from tests.support.generated_pages import OURS, passes_page

TEXT = (Path(__file__).parent.parent.parent / "docs" / "passes.md").read_text()


def test_tables_are_up_to_date() -> None:
    assert passes_page(TEXT) == TEXT, "run: python -m tests.support.generated_pages docs"
    assert f"`{LOWERING}`" in TEXT


def test_every_pass_and_option_is_explained() -> None:
    for name, cls in passes().items():
        if not cls.__module__.startswith(OURS):
            continue
        said = summary(cls)
        assert said, f"{name} has no docstring"
        assert said[0].endswith(".")
        assert {p.partition(": ")[0] for p in said if ": " in p} >= set(signature(cls)), name
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
        assert all(f"`{option}={spelled(default)}`" in row for option, (_, default) in signature(cls).items())


def test_options(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    offered = set(re.findall(r"--[a-z][a-z-]+", capfd.readouterr().out)) - {"--help", "--passes", "--output"}
    assert offered == set(re.findall(r"^\| `(--[a-z-]+)", TEXT, re.MULTILINE))
