"""A folder with the parts of a job's ranks: `trace/rank=0`, `trace/rank=1`, ..., each of any format.

A part is what a rank has written, or, where it was killed, what it had recorded by then. What is missing or
of another run is named in the notes; the rest is read.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from profscope.errors import TraceError
from profscope.installed import missing
from profscope.schema import Tables
from profscope.store.chunks import SUFFIX
from profscope.traces.formats import PARTIAL, rank_folders
from profscope.traces.loading import load_part
from profscope.traces.merging import merged
from profscope.traces.rank_runs import of_one_run
from profscope.traces.rank_stack import Part
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]


def recognises(file: TraceFile) -> bool:
    return file.is_folder and bool(rank_folders(file.path))


MOST_SPANS: Final = 16_000_000
"""Up to so many spans of all ranks are held in memory: they take 4 GB while they are read."""


def read(file: TraceFile) -> Tables:
    """Raises TraceError where none of the parts can be read."""
    paths, notes = _paths(file)
    if file.only.rank is not None and file.only.rank in paths:
        return _one_rank(file, paths, file.only.rank)
    spans = _known_spans(paths)
    if spans > MOST_SPANS:
        from profscope.traces.large_jobs import read_large_job

        return read_large_job(file, paths, notes, spans)
    parts: list[Part] = []
    # Launches and variants have other numbers in the whole than in a part.
    only = replace(file.only, rank=None, launch=None, variant=None)
    for rank, path in paths.items():
        try:
            loaded = load_part(path, only)
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
            continue
        file.left_out += loaded.left_out
        parts.append(Part(loaded.tables, str(path.relative_to(file.path)), rank))
        if path.name.endswith(PARTIAL):
            notes.append(f"rank {rank} did not come to its end: what it had recorded by then is here")
    kept, notes = of_one_run(file, parts, notes)
    return merged(kept, notes, samples_of=file.only.rank)


def _one_rank(file: TraceFile, paths: Mapping[int, Path], rank: int) -> Tables:
    """Launches and variants have the numbers of the rank's own part; times are of rank 0's host."""
    only = replace(file.only, rank=None)
    loaded = load_part(paths[rank], only)
    file.left_out = loaded.left_out
    parts = [Part(loaded.tables, str(paths[rank].relative_to(file.path)), rank)]
    if rank and 0 in paths:
        with suppress(TraceError):  # then the times are the rank's own, and a note says so
            first = load_part(paths[0], replace(only, launch=0)).tables
            parts.append(Part(Tables(metadata=first.metadata), "", 0))
    merged_parts = merged(parts, samples_of=rank)
    ranks = [each for each in merged_parts.metadata["ranks"] if each["rank"] == rank]
    return replace(merged_parts, metadata=merged_parts.metadata | {"ranks": ranks})


def _paths(file: TraceFile) -> tuple[dict[int, Path], list[str]]:
    """The part of each rank, and notes of ranks that have none."""
    paths: dict[int, Path] = {}
    notes: list[str] = []
    for rank, folder in sorted(rank_folders(file.path).items()):
        try:
            path = _part(folder)
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
            continue
        if path is None:
            notes.append(f"rank {rank} is missing: it has written nothing")
        else:
            paths[rank] = path
    return paths, notes


def _known_spans(paths: Mapping[int, Path]) -> int:
    """How many spans those have that can be read without them."""
    known = [path for path in paths.values() if path.suffix == ".parquet" and path.is_file()]
    if not known or missing("parquet"):
        return 0
    from profscope.traces.rank_heads import span_count

    return sum(map(span_count, known))


def _part(folder: Path) -> Path | None:
    """What a rank has written; None where there is nothing. Raises TraceError where there is too much."""
    inside = sorted(folder.iterdir())
    written = [path for path in inside if path.is_file() and path.suffix != SUFFIX]
    if len(written) > 1:
        raise TraceError(f"it has written several parts: {', '.join(path.name for path in written)}")
    cut_short = [path for path in [folder, *inside] if path.is_dir() and any(path.glob(f"*{SUFFIX}"))]
    return next(iter([*written, *cut_short]), None)
