"""What the hardware's samples say of a line, where a profile has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from profscope.analysis.estimates import FEWEST_SAMPLES
from profscope.schema import Tables

__all__ = ["most_blamed", "no_waits", "stalled_on"]

# A warp that issues, and one that could and was not chosen: neither is a stall.
_NO_STALL: Final = ("selected", "not_selected")
# What a warp that needs a load's data is seen in.
_FOR_LOADS: Final = "long_scoreboard"


def stalled_on(tables: Tables, kernel: str, variant: int, file: str, lines: Sequence[int]) -> str:
    """A clause for the evidence: which part of the samples are stalls that some lines are to blame for.

    lines: all whose time is in the finding. The samples of the bare binary are taken where there are some. ""
    where nobody sampled it, or the lines are to blame for less than 1 %.
    """
    if not len(tables.samples):  # as of most profiles, and this is asked of every finding
        return ""
    blamed, every = _blamed(tables, kernel, variant, file, lines)
    here = int(blamed["samples"].sum())
    if here < max(1, every / 100):
        return ""
    by_stall = blamed.groupby("stall")["samples"].sum().sort_values()
    what = _what(tables)
    return (
        f"; {100 * here / every:.0f} % of {every:,} {what} are stalls that {_named(lines)} "
        f"to blame for, most of them {by_stall.index[-1]}"
    )


def no_waits(tables: Tables, kernel: str, variant: int, pct: float) -> str:
    """A clause against a finding that `pct` % of warp time goes to waits for loads: that the samples saw less
    than half as much, at any line. "" where they saw more, or are fewer than FEWEST_SAMPLES."""
    if not len(tables.samples):
        return ""
    mine = _sampled(tables, kernel, variant)
    every = int(mine["samples"].sum())
    waits = int(mine.loc[mine["stall"] == _FOR_LOADS, "samples"].sum())
    if every < FEWEST_SAMPLES or 100 * waits / every >= pct / 2:
        return ""
    seen_pct = 100 * waits / every
    return f"; but only {seen_pct:.0f} % of {every:,} {_what(tables)} are such waits ({_FOR_LOADS})"


def most_blamed(tables: Tables, kernel: str, variant: int, file: str, lines: Sequence[int]) -> int | None:
    """Of some lines the one that is to blame for most of the sampled stalls, see `stalled_on`; None where
    nobody sampled them, or none is."""
    if not len(tables.samples):
        return None
    blamed, _ = _blamed(tables, kernel, variant, file, lines)
    by_line = blamed.groupby("blamed_line")["samples"].sum()
    return int(str(by_line.idxmax())) if len(by_line) else None


def _blamed(
    tables: Tables, kernel: str, variant: int, file: str, lines: Sequence[int]
) -> tuple[pd.DataFrame, int]:
    """The samples that are stalls for which some lines are to blame, and how many samples there are."""
    mine = _sampled(tables, kernel, variant)
    at_fault = (mine["blamed_file"] == file) & mine["blamed_line"].isin(lines)
    return mine[at_fault & ~mine["stall"].isin(_NO_STALL)], int(mine["samples"].sum())


def _sampled(tables: Tables, kernel: str, variant: int) -> pd.DataFrame:
    """The samples of the bare binary where there are some, else those of the others."""
    samples = tables.samples
    mine = samples[(samples["kernel"] == kernel) & (samples["variant"] == variant)]
    bare = mine[mine["binary"] == "bare"]
    return bare if len(bare) else mine


def _what(tables: Tables) -> str:
    return "cycles of its warps" if tables.emulated else "hardware samples"


def _named(lines: Sequence[int]) -> str:
    """ "this line is", "lines 115, 116 and 132 are"."""
    numbers = [str(line) for line in sorted(set(lines))]
    return "this line is" if len(numbers) == 1 else f"lines {', '.join(numbers[:-1])} and {numbers[-1]} are"
