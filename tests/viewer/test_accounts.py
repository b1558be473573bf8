"""The first screen's bars: they add up, fit the terminal, and what is unknown is shown as such."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from profscope.analysis.breakdown import breakdown
from profscope.profiles import Profile, load
from profscope.viewer.kernels import MOST_ACCOUNTS, render_account
from profscope.viewer.screen import show_first_screen
from tests.support.command_line import run
from tests.support.models import kernels
from tests.support.profiles import profiles

DATA = Path(__file__).parents[1] / "data"
MATMUL = DATA / "diff" / "matmul-1-stage.pftrace.gz"
NO_SAMPLES = "unknown: no PC samples: `profscope run --evidence true` takes some"


def first_screen(profile: Profile) -> list[str]:
    stream = io.StringIO()
    show_first_screen(profile, "trace", stream)
    return stream.getvalue().splitlines()


def drawn(profile: Profile, width: int) -> list[str]:
    entries = kernels(profile, parts=["accounts"])[:MOST_ACCOUNTS]
    lines, told = [], list[str]()
    for entry in entries:
        if entry.account:
            lines += render_account(entry.name, entry.account, "goes", width, told)
            told += entry.account.caveats
    return [line.plain for line in lines]


def test_the_first_screen_leads_with_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    profile = load(MATMUL)
    lines = first_screen(profile)
    at = lines.index("Where its time goes")
    assert at < next(n for n, line in enumerate(lines) if line.startswith("Findings, "))
    text = " ".join(map(str.strip, lines[at:]))
    table = breakdown(profile.tables)
    unknown = table.loc[table["part"] == "unknown", "share"].sum()
    assert f"· unknown {100 * unknown:.1f}%" in text
    assert "(from spans)" in text
    assert NO_SAMPLES in text
    assert "tail, imbalance, between-ctas are not in the bar: not every CTA of its launches is known" in text
    assert run(str(MATMUL), "--width", "80").stdout.splitlines().count("Where its time goes") == 1


@given(profiles(), st.sampled_from([40, 80]))
def test_bars_add_up_and_fit(profile: Profile, width: int) -> None:
    assume(len(profile.launches))
    lines = drawn(profile, width)
    assert all(cell_len(line) <= width for line in lines)
    bars = [line for line in lines if re.search(r"  [█▓▒░▚▖·-]+$", line)]
    assert 1 <= len(bars) <= 3
    assert {cell_len(bar) for bar in bars} == {width}
    legend = " ".join(line for line in lines if line.startswith("  "))
    for told in legend.split("(from ")[:-1]:
        assert sum(map(float, re.findall(r" ([\d.]+)%", told))) == pytest.approx(100.0)
