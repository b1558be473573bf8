"""Formats of files by their names and suffixes, and how the files of a run are called."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from profscope.errors import OptionError
from profscope.installed import EXTRAS, require
from profscope.traces.exporters import FORMATS, PACKED, WHOLE

__all__ = [
    "DEFAULT",
    "GZIP",
    "PARTIAL",
    "holds_a_trace",
    "importer_names",
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


def importer_names(folder: ModuleType, own: Sequence[str]) -> list[str]:
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
    names = {_suffix_of(name): name for name in FORMATS}
    fitting = [suffix for suffix, name in names.items() if _fits(file_name, name)]
    if not fitting or given.endswith("/"):
        known = ", ".join(
            suffix + f", {suffix}{GZIP}" * (name not in PACKED) for suffix, name in names.items()
        )
        raise OptionError(f"cannot save {given!r}: the suffix must be one of {known}")
    suffix = max(fitting, key=len)
    if names[suffix] in EXTRAS:
        require(names[suffix], f"cannot save {given!r}: {suffix}", OptionError)
    return suffix, names[suffix]


def holds_a_trace(file_name: str) -> bool:
    """Whether the name is that of a saved profile."""
    return any(_fits(file_name, name) for name in WHOLE)


def _suffix_of(name: str) -> str:
    return f".{name.replace('_', '.')}"


def _fits(file_name: str, name: str) -> bool:
    return (file_name if name in PACKED else file_name.removesuffix(GZIP)).endswith(_suffix_of(name))


# How the folders are called in which the ranks of a job have their parts: trace/rank=3/trace.pftrace.gz

_RANK: Final = re.compile(r"rank=(\d+)")


def rank_of(path: Path) -> int | None:
    """The rank whose part a folder of this name is; None where it is no part."""
    match = _RANK.fullmatch(path.name)
    return None if match is None else int(match[1])


def rank_paths(folder: Path) -> dict[int, Path]:
    """By rank, what is named as its part."""
    named = {rank_of(path): path for path in sorted(folder.glob("rank=*"))}
    return {rank: path for rank, path in named.items() if rank is not None}


def rank_folders(folder: Path) -> dict[int, Path]:
    """By rank, the folder in which its part may be."""
    return {rank: path for rank, path in rank_paths(folder).items() if path.is_dir()}


def newest_run(folder: Path) -> Path | None:
    """The newest trace in a folder of those that have a default's name, also if it is not complete."""
    named = [path for path in folder.glob("profscope*") if _DEFAULTS.fullmatch(path.name)]
    traces = [path for path in named if path.suffix or rank_folders(path)]
    return max(traces, key=lambda path: path.stat().st_mtime_ns, default=None)
