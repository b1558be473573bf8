"""How the files and folders of a trace in Parquet are called; known without pyarrow.

trace/_profile.parquet                    a row for each launch; all of the profile but its spans is beside
trace/rank=0/launch=12/spans.parquet      the spans of a launch

A rank of a job writes its part by itself: `trace/rank=3/_profile.parquet`, `trace/rank=3/launch=12/...`.
Names with `_` are passed over by engines that read the whole folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["PROFILE", "SPANS", "is_folder_name", "is_part", "launch_folder", "rank_of"]

PROFILE: Final = "_profile.parquet"
SPANS: Final = "spans.parquet"
_RANK: Final = re.compile(r"rank=(\d+)")
_PART: Final = re.compile(rf"(rank=\d+/?)?({re.escape(PROFILE)}|launch=\d+(/{re.escape(SPANS)})?)?")


def rank_of(path: Path) -> int | None:
    """The rank whose part a folder of this name is; None where it is no part."""
    match = _RANK.fullmatch(path.name)
    return None if match is None else int(match[1])


def is_folder_name(given: str | Path) -> bool:
    """Whether a path to save to means a folder: `trace/`, or a rank's part of one, `trace/rank=3`."""
    return str(given).endswith("/") or rank_of(Path(given)) is not None


def is_part(inside: Path) -> bool:
    """Whether a file or folder of this path inside a trace's folder is of the trace."""
    return _PART.fullmatch(inside.as_posix()) is not None


def launch_folder(folder: Path, rank: int, launch: int) -> Path:
    """Where a launch's spans are, in a trace or in a rank's part of one."""
    inside = folder if rank_of(folder) is not None else folder / f"rank={max(0, rank)}"
    return inside / f"launch={launch}"
