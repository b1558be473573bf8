"""The formats that have a file in a folder: adding the file is all that makes a format known."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from profscope.errors import OptionError
from profscope.installed import EXTRAS, require
from profscope.traces import exporters
from profscope.traces.exporters import PACKED

__all__ = [
    "DEFAULT",
    "GZIP",
    "PARTIAL",
    "PROFILE",
    "SPANS",
    "exporter_named",
    "format_names",
    "is_folder_name",
    "is_part",
    "launch_folder",
    "newest_run",
    "own_suffix",
    "rank_folders",
    "rank_of",
]

GZIP = ".gz"
PARTIAL = ".partial"
"""Ends the name of the folder of what is recorded until the trace is written."""

DEFAULT: Final = "profscope.pftrace.gz"
"""What a run writes if it is not told otherwise: then profscope-2.pftrace.gz, ...; a job's, profscope/."""

_DEFAULTS: Final = re.compile(rf"profscope(-\d+)?(\.pftrace\.gz({re.escape(PARTIAL)})?)?")


def format_names(folder: ModuleType, own: Sequence[str]) -> list[str]:
    """The names of a folder's files: `own`, profscope's own formats, first, then the others by name.

    Nothing is imported. A file whose name begins with an underscore is no format.
    """
    names = {file.name for file in pkgutil.iter_modules(folder.__path__) if not file.name.startswith("_")}
    return [*own, *sorted(names.difference(own))]


def own_suffix(file_name: str, given: str) -> tuple[str, str]:
    """The suffix of a file to write, without `.gz`, and the exporter of that name.

    given: the path, as an error names it. Raises OptionError for a suffix that no exporter has, and for a
    format whose extra is not installed.
    """
    names = {f".{name.replace('_', '.')}": name for name in format_names(exporters, exporters.OWN)}
    fitting = [suffix for suffix, name in names.items() if _fits(file_name, suffix, name)]
    if not fitting:
        known = ", ".join(
            suffix + f", {suffix}{GZIP}" * (name not in PACKED) for suffix, name in names.items()
        )
        raise OptionError(
            f"cannot save {given!r}: the suffix must be one of {known}, or the path end in / for a folder; "
            "`profscope convert --format NAME` takes any suffix"
        )
    suffix = max(fitting, key=len)
    if names[suffix] in EXTRAS:
        require(names[suffix], f"cannot save {given!r}: {suffix}", OptionError)
    return suffix, names[suffix]


def exporter_named(path: str | Path, name: str | None = None) -> str:
    """The exporter for a path to save to: of that name, or that of its suffix; "parquet" for a folder.

    Raises OptionError where there is none, or its extra is not installed.
    """
    given = str(path)
    if name is not None and name not in format_names(exporters, exporters.OWN):
        known = ", ".join(format_names(exporters, exporters.OWN))
        raise OptionError(f"there is no format {name!r}; there are: {known}")
    if is_folder_name(path):
        if name not in (None, "parquet"):
            raise OptionError(f"cannot save {given!r}: only Parquet is written as a folder")
        name = "parquet"
    chosen = name or own_suffix(Path(path).name, given)[1]
    if chosen in EXTRAS:
        require(chosen, f"cannot save {given!r}: {chosen}", OptionError)
    return chosen


def _fits(file_name: str, suffix: str, name: str) -> bool:
    return (file_name if name in PACKED else file_name.removesuffix(GZIP)).endswith(suffix)


# How the files and folders of a trace in Parquet are called; known without pyarrow.
#
# trace/_profile.parquet                    a row for each launch; all of the profile but its spans is beside
# trace/rank=0/launch=12/spans.parquet      the spans of a launch
#
# A rank of a job writes its part by itself: `trace/rank=3/_profile.parquet`, `trace/rank=3/launch=12/...`.
# Names with `_` are passed over by engines that read the whole folder.

PROFILE: Final = "_profile.parquet"
SPANS: Final = "spans.parquet"
_RANK: Final = re.compile(r"rank=(\d+)")
_PART: Final = re.compile(rf"(rank=\d+/?)?({re.escape(PROFILE)}|launch=\d+(/{re.escape(SPANS)})?)?")


def rank_of(path: Path) -> int | None:
    """The rank whose part a folder of this name is; None where it is no part."""
    match = _RANK.fullmatch(path.name)
    return None if match is None else int(match[1])


def rank_paths(folder: Path) -> dict[int, list[Path]]:
    """By rank, what is named as its part: `rank=3`, and `rank=3.partial` until it is written."""
    ranks: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("rank=*")):
        rank = rank_of(path.with_name(path.name.removesuffix(PARTIAL)))
        if rank is not None:
            ranks.setdefault(rank, []).append(path)
    return ranks


def rank_folders(folder: Path) -> dict[int, list[Path]]:
    """By rank, the folders in which its part may be."""
    ranks = {rank: [path for path in paths if path.is_dir()] for rank, paths in rank_paths(folder).items()}
    return {rank: paths for rank, paths in ranks.items() if paths}


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


def newest_run(folder: Path) -> Path | None:
    """The newest trace in a folder of those that have a default's name, also if it is not complete."""
    named = [path for path in folder.glob("profscope*") if _DEFAULTS.fullmatch(path.name)]
    traces = [path for path in named if path.suffix or rank_folders(path)]
    return max(traces, key=lambda path: path.stat().st_mtime_ns, default=None)
