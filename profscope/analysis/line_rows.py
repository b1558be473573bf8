"""The evidence of each source line: its time by spans, its samples, and their stall reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd

from profscope.analysis.sources import Sources
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.summary import summary_without_percentiles
from profscope.binaries.blame import CHARGED
from profscope.instrument_passes.manifest import PATH_SEPARATOR
from profscope.schema import Tables

__all__ = [
    "CONFIGURATION",
    "GAP",
    "PLACE",
    "ROW",
    "TimeSources",
    "call_path_key",
    "configurations",
    "folded_path",
    "placed",
    "stall_counts",
    "stall_shares",
    "stall_text",
    "wait_counts",
    "wait_text",
    "witnesses",
]

CONFIGURATION = ["kernel", "variant"]
PLACE = ["file", "line", "way"]
ROW = [*CONFIGURATION, *PLACE]
"""What tells lines apart. way: the call path without names of functions, which a binary may not know."""

GAP = "gap"

_STEP = re.compile(r"(?P<function>\w+ )?(?P<line>.+?:\d+)(?::\d+)?", re.DOTALL)


class TimeSources(NamedTuple):
    """Sources of the times of a profile's lines.

    times: of spans, one row per scope: ROW, call_path, kind, scope and self_time, in the tables' unit.
    Asynchronous work takes no time of a warp and has no row. samples: the table of samples, with ROW.
    summary: of the profile, without percentiles.
    """

    times: pd.DataFrame
    samples: pd.DataFrame
    summary: pd.DataFrame


@asked_once
def witnesses(tables: Tables) -> TimeSources:
    """Those of a profile."""
    table = summary_without_percentiles(tables)
    return TimeSources(_times(table, tables.unit), placed(tables.samples), table)


def _times(rows: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Rows of the summary as those of `TimeSources.times`."""
    rows = rows[rows["kind"] != "async"]
    rows = placed(rows).rename(columns={f"self_{unit}": "self_time"})
    return rows[[*ROW, "call_path", "kind", "scope", "self_time"]]


def configurations(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    """The rows of each kernel and variant."""
    for key, group in rows.groupby(CONFIGURATION, sort=False):
        yield cast(tuple[str, int], key), group


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with kernel, file, line and call_path, folded by line: see `folded_path`; and `way`."""
    texts = dict.fromkeys(("kernel", "file", "call_path"), "str")
    rows = rows.astype(texts).reset_index(drop=True)
    places = zip(rows["file"], rows["line"].tolist(), rows["call_path"], strict=True)
    paths = [folded_path(*place) for place in places]
    ways = [call_path_key(path) for path in paths]
    return rows.assign(
        call_path=pd.Series(paths, dtype="str"),
        way=pd.Series(ways, dtype="str"),
        line=rows["line"].astype("int64"),
    )


@cache
def folded_path(file: str, line: int, call_path: str) -> str:
    """The lines that lead to the one shown; every table of lines folds call paths by this rule.

    Work of Triton's own functions belongs to the line that calls them. Calls that share a line are one,
    although columns tell them apart in tables of scopes.

    f.py:25 of "kernel f.py:25 > sum math.py:2" -> ""
    f.py:9 of "kernel f.py:3:11 > half f.py:9 > sum math.py:2" -> "kernel f.py:3 > half f.py:9"
    """
    steps = call_path.split(PATH_SEPARATOR)
    shown = re.split(r"[\\/]", file)[-1] + f":{line}"
    last = max((at for at, step in enumerate(steps) if _bare(step) == shown), default=len(steps) - 1)
    return PATH_SEPARATOR.join(map(_without_column, steps[: last + 1])) if last else ""


@cache
def call_path_key(path: str) -> str:
    """The lines of a folded path, without names of functions."""
    return PATH_SEPARATOR.join(map(_bare, path.split(PATH_SEPARATOR)))


def _bare(step: str) -> str:
    """The file and the line of a step, "standard.py:293" of "sum standard.py:293:11"."""
    parts = _STEP.fullmatch(step)
    return parts["line"] if parts else step


def _without_column(step: str) -> str:
    """ "sum standard.py:293" of "sum standard.py:293:11"."""
    parts = _STEP.fullmatch(step)
    return (parts["function"] or "") + parts["line"] if parts else step


ISSUED = "selected"
"""The reason of a warp that does go on."""

BARRIER = "barrier"
WAITS = ("long_scoreboard", "short_scoreboard", "gmma", BARRIER)
"""The reasons that are about another instruction, of a latency that a kernel's author can do something about;
see `profscope.binaries.blame`."""

_MMA = "mma"
MOST_STALLS, MOST_WAITS, MOST_KEPT = 3, 2, 8
LEAST_SHARE = 0.05  # of a line's samples, of what is worth a word


def stall_counts(rows: pd.DataFrame) -> list[list[Any]]:
    """[stall, samples], most first, of a line's rows of the table of samples."""
    counts = rows.groupby("stall")["samples"].sum().sort_values(ascending=False, kind="stable")
    return [[str(stall), int(count)] for stall, count in counts.items()]


def stall_shares(counts: list[list[Any]]) -> list[tuple[str, float]]:
    """The main stall reasons: shares of all samples of the line, issuing ones included."""
    total = sum(count for _, count in counts)
    shares = [(stall, count / total) for stall, count in counts if stall != ISSUED]
    return [(stall, share) for stall, share in shares if share >= LEAST_SHARE][:MOST_STALLS]


def stall_text(shares: Iterable[tuple[str, float]]) -> str:
    """ "long_scoreboard 62 %, wait 11 %"."""
    return ", ".join(f"{stall} {100 * share:.0f} %" for stall, share in shares)


def wait_counts(rows: pd.DataFrame, sources: Sources) -> list[dict[str, Any]]:
    """The instructions that a line's samples waited for, most first: stall; on, the class of the producer, ""
    for other warps at a barrier; variable, assigned at the producer's line, "" if unknown; file and line;
    samples. Without a known producer there is no entry."""
    rows = rows[rows["stall"].isin(WAITS) & ~_is_unknown(rows)]
    of_others = rows["stall"] == BARRIER
    of_others &= (rows["class"] != BARRIER) | (rows["blamed_class"] != _MMA)  # that is a wait for wgmma
    rows = rows.assign(on=rows["blamed_class"].mask(of_others, ""))
    key = ["stall", "on", "blamed_file", "blamed_line"]
    counts = rows.groupby(key)["samples"].sum().sort_values(ascending=False, kind="stable").head(MOST_KEPT)
    columns = zip(*(counts.index.get_level_values(name) for name in key), strict=True)
    return [
        {
            "stall": str(stall),
            "on": str(on),
            "variable": sources.variable(file, int(line)),
            "file": str(file),
            "line": int(line),
            "samples": int(count),
        }
        for (stall, on, file, line), count in zip(columns, counts, strict=True)
    ]


def _is_unknown(rows: pd.DataFrame) -> pd.Series[bool]:
    """Whether a wait is charged to the instruction that waits, for want of another, see `blame`. A load may
    wait for itself, round a loop."""
    known = [
        cls in CHARGED.get(stall, ()) and cls != BARRIER
        for stall, cls in zip(rows["stall"], rows["class"], strict=True)
    ]
    return (rows["blamed_pc"] == rows["pc"]) & (rows["stall"] != BARRIER) & ~np.array(known, np.bool_)


def wait_text(waits: list[dict[str, Any]], total: int) -> str:
    """ "long_scoreboard on load x, line 46 (62 %)": of `total`, all samples of the line."""
    told = [wait for wait in waits if wait["samples"] >= LEAST_SHARE * total]
    return "; ".join(f"{_on(wait)} ({_percent(wait['samples'], total)})" for wait in told[:MOST_WAITS])


def _on(wait: dict[str, Any]) -> str:
    """A global load is a load to whoever wrote the kernel; at a barrier it is other warps that are late; of
    moves only those from special registers, such as a thread's id, take long enough for this stall."""
    at = f", line {wait['line']}" if wait["line"] else ""
    if wait["stall"] == BARRIER and not wait["on"]:
        return f"barrier on other warps{at}"
    what = wait["on"].removeprefix("global ") or "something"
    if (wait["stall"], what) == ("short_scoreboard", "move"):
        what = "special register"
    name = f"{what} {wait['variable']}" if wait["variable"] and wait["on"] else what
    return f"{wait['stall']} on {name}{at}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
