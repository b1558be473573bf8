"""Why the samples of a line did not go on, in words and as lists."""

from typing import Any

import pandas as pd

from profscope.analysis.sources import Sources

__all__ = ["ISSUED", "LEAST_SHARE", "MOST_STALLS", "stall_counts", "stall_text", "wait_counts", "wait_text"]

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


def stall_text(counts: list[list[Any]]) -> str:
    """ "long_scoreboard 62 %, wait 11 %": of all samples of the line, those that went on among them."""
    total = sum(count for _, count in counts)
    told = [(stall, count) for stall, count in counts if stall != ISSUED and count >= LEAST_SHARE * total]
    return ", ".join(f"{stall} {_percent(count, total)}" for stall, count in told[:MOST_STALLS])


def wait_counts(rows: pd.DataFrame, sources: Sources) -> list[dict[str, Any]]:
    """What the samples of a line waited for, most first: stall; on, the class of what they waited for, "" of
    other warps at a barrier; variable, that the line there assigns to, "" if none is known; file and line;
    samples."""
    rows = rows[rows["stall"].isin(WAITS)]
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


def wait_text(waits: list[dict[str, Any]], total: int) -> str:
    """ "long_scoreboard on load x, line 46 (62 %)": of `total`, all samples of the line."""
    told = [wait for wait in waits if wait["samples"] >= LEAST_SHARE * total]
    return "; ".join(f"{_on(wait)} ({_percent(wait['samples'], total)})" for wait in told[:MOST_WAITS])


def _on(wait: dict[str, Any]) -> str:
    """A global load is a load to whoever wrote the kernel; at a barrier it is others that are late."""
    nothing = "others" if wait["stall"] == BARRIER else "something"
    what = wait["on"].removeprefix("global ") or nothing
    name = f"{what} {wait['variable']}" if wait["variable"] and wait["on"] else what
    return f"{wait['stall']} on {name}" + (f", line {wait['line']}" if wait["line"] else "")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
