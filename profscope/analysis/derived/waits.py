"""What warps wait for, by experiments: a table in the form of PC samples.

What a launch takes less without an op is the time that waits for it: it stands at the op's instructions, as
samples with the stall that such instructions have. What nothing saved is spent on issuing instructions, by
how often each ran, as far as issue slots and pipes are used; the rest waits for loads in loops that could not
be left out, because other loops, addresses or masks rest on them, if there are any, and is unexplained if
there are none. Shares overlap: together they are scaled to the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.binaries.listing import class_of
from profscope.instrument_passes.ablation.groups import GROUPS
from profscope.schema import samples_frame

__all__ = ["SAMPLES", "waits_of"]

SAMPLES: Final = 100_000
"""That the whole time is divided into."""
_LEAST_PCT: Final = 1.0
_LOADED: Final = ("global load", "async copy", "tma")
_EXCHANGED: Final = ("shared load", "shared store", "matrix load", "warp exchange")
_OUTSIDE: Final = ("global load", "global store", "async copy", "tma", "atomic")
_BY_LABEL: Final[tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]] = (
    (("load", "async copy", "tma load", "gather"), "long_scoreboard", _LOADED),
    (("store", "tma store"), "lg_throttle", ("global store", "tma")),
    (("atomic",), "long_scoreboard", ("atomic",)),
    (("dot", "mma"), "wait", ("mma",)),
    (("reduce", "scan", "convert layout", "local", "fence", "barrier"), "short_scoreboard", _EXCHANGED),
)
"""By how an op's name begins: the stall of those that wait for it, and the classes of its instructions."""
_MATH: Final = "math_pipe_throttle"
_ISSUED: Final = "selected"
_UNEXPLAINED: Final = "unexplained"
_IN_MEMORY: Final = ("load", "store", "atomic", "async copy", "tma", "gather")


def waits_of(counts: pd.DataFrame, experiments: pd.DataFrame, busy: float) -> pd.DataFrame:
    """Rows of `prof.samples`, of one configuration; none without a valid experiment.

    counts, experiments: its rows of these tables. busy: the part of the time in which its busiest pipe or the
    issue slots are used.
    """
    timed = experiments[
        experiments["valid"] & (experiments["experiment"] == "off") & experiments["saved_pct"].notna()
    ]
    if not len(timed) or not len(counts):
        return samples_frame()
    own = _Counted(counts)
    shares: defaultdict[tuple[int, str], float] = defaultdict(float)
    for share, rows, stall in _found(own, timed):
        for pc, part in own.divided(rows, share):
            shares[pc, stall] += part
    left = max(0.0, 1 - sum(shares.values()))
    issued, every, fixed = min(left, busy), np.ones(len(counts), np.bool_), _fixed_loads(own, experiments)
    rest = (fixed, "long_scoreboard") if fixed.any() else (every, _UNEXPLAINED)
    for share, (rows, stall) in ((issued, (every, _ISSUED)), (left - issued, rest)):
        for pc, part in own.divided(rows, share):
            shares[pc, stall] += part
    return own.samples(shares)


def _found(own: _Counted, timed: pd.DataFrame) -> Iterator[tuple[float, Any, str]]:
    """By line and group: the part of the time, the instructions that it waits for, and the stall.

    While one of several accesses is left out, the others may be in its way, or do its part of the waiting: if
    the lines of a group do not add up to what the group saves, those that wait for each other have the rest,
    and if they add up to more, each has less.
    """
    lines = timed[(timed["line"] != 0) & (timed["saved_pct"] >= _LEAST_PCT)]
    in_memory = lines["op"].str.startswith(_IN_MEMORY)
    whole = float(timed.loc[timed["op"] == GROUPS["memory"], "saved_pct"].max())
    told = float(lines.loc[in_memory, "saved_pct"].sum())
    less = whole / told if 0 < whole < told else 1.0
    for row, moves in zip(lines.to_dict("records"), in_memory.tolist(), strict=True):
        share = row["saved_pct"] / 100 * (less if moves else 1.0)
        yield share, *own.waited_for(row["op"], row["file"], row["line"])
    named = timed[(timed["line"] != 0) & timed["op"].str.startswith("atomic")]
    for row in named.to_dict("records") if whole > told else ():
        rest = (whole - told) / 100 / len(named)
        yield rest, *own.waited_for(row["op"], row["file"], row["line"])


def _fixed_loads(own: _Counted, experiments: pd.DataFrame) -> Any:
    """The instructions of loads that could not be left out, in what runs more than once a warp."""
    fixed = experiments[
        experiments["saved_pct"].isna()
        & (experiments["experiment"] == "off")
        & experiments["op"].str.startswith("load")
    ]
    rows = np.zeros(len(own.cls), np.bool_)
    for row in fixed.to_dict("records"):
        rows |= own.at(row["file"], row["line"]) & np.isin(own.cls, _LOADED)
    return rows & (own.executed > own.executed.min(initial=np.inf, where=own.executed > 0))


class _Counted:
    """The instructions of one configuration."""

    def __init__(self, counts: pd.DataFrame) -> None:
        self._counts = counts
        self._pcs = counts["pc"].to_numpy(np.int64)
        self._lines = counts["line"].to_numpy(np.int64)
        self._files = counts["file"].to_numpy(dtype=str)
        self.executed = counts["executed"].to_numpy(np.float64)
        opcodes = counts["opcode"].to_numpy(dtype=str)
        self.cls = np.array([class_of(opcode.partition(".")[0]) for opcode in opcodes], dtype=str)

    def at(self, file: str, line: int) -> Any:
        return (self._lines == line) & (self._files == file)

    def waited_for(self, op: str, file: str, line: int) -> tuple[Any, str]:
        """The instructions of an op, and the stall of those that wait for it: at the barriers of an exchange,
        if it has some."""
        here = self.at(file, line)
        for labels, stall, classes in _BY_LABEL:
            if op.startswith(labels):
                rows = here & np.isin(self.cls, classes)
                meetings = here & (self.cls == "barrier")
                if classes == _EXCHANGED and meetings.any():
                    return meetings, "barrier"
                return (rows if rows.any() else here), stall
        return here & ~np.isin(self.cls, _OUTSIDE), _MATH

    def divided(self, rows: Any, share: float) -> Iterator[tuple[int, float]]:
        """A share, by pc of these instructions."""
        total = float(self.executed[rows].sum())
        if total and share > 0:
            for pc, count in zip(self._pcs[rows].tolist(), self.executed[rows].tolist(), strict=True):
                yield pc, share * count / total

    def samples(self, shares: Mapping[tuple[int, str], float]) -> pd.DataFrame:
        whole = sum(shares.values())
        place = {pc: at for at, pc in enumerate(self._pcs.tolist())}
        at = np.array([place[pc] for pc, _ in shares], np.int64)
        rows = self._counts.iloc[at]
        own = {
            "pc": self._pcs[at], "file": self._files[at], "line": self._lines[at], "class": self.cls[at],
        }  # fmt: skip
        taken = [round(SAMPLES * share / whole) for share in shares.values()]
        return samples_frame(
            own
            | {f"blamed_{name}": values for name, values in own.items()}
            | {
                "kernel": rows["kernel"].astype(str).to_numpy(),
                "variant": rows["variant"].to_numpy(),
                "launch": np.full(len(at), -1),
                "binary": ["bare"] * len(at),
                "call_path": rows["call_path"].astype(str).to_numpy(),
                "stall": [stall for _, stall in shares],
                "samples": taken,
            }
        )
