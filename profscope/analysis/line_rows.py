"""What is known of each source line: its time by spans and by sums, and its samples."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import cast

import pandas as pd

from instrument_passes.span_columns import PATH_SEPARATOR
from profscope.analysis.sum_rows import summed
from profscope.analysis.summary import summary
from profscope.schema import Tables, sums_frame

__all__ = [
    "CONFIGURATION",
    "GAP",
    "PLACE",
    "ROW",
    "configurations",
    "counts_of",
    "folded_path",
    "times_of",
    "way_of",
]

CONFIGURATION = ["kernel", "variant"]
PLACE = ["file", "line", "way"]
ROW = [*CONFIGURATION, *PLACE]
"""What tells lines apart. way: the call path without what differs between spans and samples."""

GAP = "gap"


def times_of(tables: Tables, source: str) -> pd.DataFrame:
    """ROW and call_path, kind, scope, self_ns: one row per scope of the launches that kept "spans" or "sums".

    Asynchronous work takes no time of a warp and has no row; nor have an autotuner's trials.
    """
    if source == "sums":
        rows = summed(tables.sums)
    else:
        kept = tables.launches[tables.launches["keeps"] == "spans"].reset_index(drop=True)
        rows = summary(replace(tables, launches=kept, sums=sums_frame()))
    rows = rows[~rows["trial"] & (rows["kind"] != "async")]
    return _placed(rows)[[*ROW, "call_path", "kind", "scope", "self_ns"]]


def counts_of(tables: Tables, binary: str) -> pd.DataFrame:
    """ROW, call_path and the columns of samples, of those of one binary: "bare", "spans" or "sums"."""
    return _placed(tables.samples[tables.samples["binary"] == binary])


def configurations(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    """The rows of each kernel and variant."""
    for key, group in rows.groupby(CONFIGURATION, sort=False):
        yield cast(tuple[str, int], key), group


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """With the path to the line alone as `call_path`, and `way`."""
    texts = dict.fromkeys(("kernel", "file", "call_path"), "str")
    rows = rows.astype(texts).reset_index(drop=True)
    places = zip(rows["file"], rows["line"].tolist(), rows["call_path"], strict=True)
    paths = [folded_path(*place) for place in places]
    ways = [way_of(path) for path in paths]
    return rows.assign(
        call_path=pd.Series(paths, dtype="str"),
        way=pd.Series(ways, dtype="str"),
        line=rows["line"].astype("int64"),
    )


@cache
def folded_path(file: str, line: int, call_path: str) -> str:
    """A call path up to the line that is shown: what Triton's own functions do there belongs to the line.

    f.py:25 of "kernel f.py:25 > sum math.py:2" -> ""
    f.py:9 of "kernel f.py:3 > half f.py:9 > sum math.py:2" -> "kernel f.py:3 > half f.py:9"
    """
    steps = call_path.split(PATH_SEPARATOR)
    shown = re.split(r"[\\/]", file)[-1] + f":{line}"
    last = max((at for at, step in enumerate(steps) if _bare(step) == shown), default=len(steps) - 1)
    return PATH_SEPARATOR.join(steps[: last + 1]) if last else ""


@cache
def way_of(path: str) -> str:
    """The lines of a path: without names of functions, which a binary may not know, and without columns."""
    return PATH_SEPARATOR.join(map(_bare, path.split(PATH_SEPARATOR)))


def _bare(step: str) -> str:
    """The file and the line of a step, "standard.py:293" of "sum standard.py:293:11"."""
    parts = re.fullmatch(r"(?:\w+ )?(.+?:\d+)(?::\d+)?", step, re.DOTALL)
    return parts[1] if parts else step
