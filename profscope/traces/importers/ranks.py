"""A folder with the parts of a job's ranks: `trace/rank=0`, `trace/rank=1`, ..., each of any format.

A part is what a rank has written, or, where it was killed, what it had recorded by then. What is missing or
of another run is named in the notes; the rest is read.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from profscope.errors import TraceError
from profscope.installed import missing
from profscope.schema import Tables
from profscope.store.chunks import SUFFIX
from profscope.traces.formats import PARTIAL, holds_a_trace, rank_folders
from profscope.traces.jobs.folder import JobFolder, of_one_run
from profscope.traces.jobs.manifest import MANIFEST_START, StatedPart, read_manifest
from profscope.traces.jobs.manifest import NAME as MANIFEST
from profscope.traces.jobs.merging import OF_RANKS, merged
from profscope.traces.jobs.stack import Part
from profscope.traces.loading import load_part
from profscope.traces.places import is_remote
from profscope.traces.trace_file import TraceFile
from profscope.traces.trace_filter import TraceFilter

__all__ = ["job_folder", "read", "recognises"]


def recognises(file: TraceFile) -> bool:
    if file.is_folder:
        return bool(rank_folders(file.path)) or (file.path / MANIFEST).exists()
    return file.head.startswith(MANIFEST_START)


MOST_SPANS: Final = 16_000_000
"""Up to so many spans of all ranks are held in memory: they take 4 GB while they are read."""


def read(file: TraceFile) -> Tables:
    """Raises TraceError where none of the parts can be read."""
    job = job_folder(file.path if file.is_folder else file.path.parent)
    if file.only.rank is not None and file.only.rank in job.paths:
        return _one_rank(file, job, file.only.rank)
    if sum(job.spans.values()) > MOST_SPANS:
        from profscope.traces.jobs.large import read_large_job

        return read_large_job(file, job)
    notes = [*job.notes]
    parts: list[Part] = []
    # Launches and variants have other numbers in the whole than in a part.
    only = replace(file.only, rank=None, launch=None, variant=None)
    for rank, path in job.paths.items():
        try:
            loaded = load_part(path, only)
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
            continue
        file.left_out += loaded.left_out
        parts.append(Part(loaded.tables, str(path.relative_to(job.folder)), rank))
        if path.name.endswith(PARTIAL):
            notes.append(f"rank {rank} did not come to its end: what it had recorded by then is here")
    kept, notes = of_one_run(job, parts, notes)
    return merged(kept, notes, samples_of=file.only.rank)


def _one_rank(file: TraceFile, job: JobFolder, rank: int) -> Tables:
    """Launches and variants have the numbers of the rank's own part; times are of rank 0's host."""
    only = replace(file.only, rank=None)
    loaded = load_part(job.paths[rank], only)
    file.left_out = loaded.left_out
    parts = [Part(loaded.tables, str(job.paths[rank].relative_to(job.folder)), rank)]
    notes = []
    try:
        if rank:
            first = _metadata_of(job, 0)
            clocks = {name: first[name] for name in ("job", "host_clock") if name in first}
            alike = {name: value for name, value in loaded.tables.metadata.items() if name not in OF_RANKS}
            parts.append(Part(Tables(metadata=alike | clocks), "", 0))
    except TraceError as error:
        notes.append(f"times are of the clock of rank {rank}'s own host: rank 0 is missing: {error}")
    merged_parts = merged(parts, notes, samples_of=rank)
    ranks = [each for each in merged_parts.metadata["ranks"] if each["rank"] == rank]
    return replace(merged_parts, metadata=merged_parts.metadata | {"ranks": ranks})


def job_folder(folder: Path) -> JobFolder:
    """What is in a folder, by its manifest and by what is there."""
    paths: dict[int, Path] = {}
    spans: dict[int, int] = {}
    notes: list[str] = []
    stated: dict[int, StatedPart] = {}
    try:
        stated = read_manifest(folder)
    except TraceError as error:
        notes.append(f"the folders of ranks were looked through: {error}")
    folders = rank_folders(folder)
    for rank in sorted({*stated, *folders}):
        path, count = stated.get(rank, (None, None))
        try:
            if path is None or (rank in folders and not is_remote(folder) and not path.exists()):
                path, count = _part(folders[rank]), None
            if path is None:
                raise TraceError("it has written nothing")
            spans[rank] = _known_spans(path, count)
        except (
            TraceError,
            OSError,
            ValueError,
        ) as error:  # ValueError: a server that gives whole files alone
            notes.append(f"rank {rank} is missing: {error}")
            continue
        paths[rank] = path
    return JobFolder(folder, paths, spans, frozenset((*stated, *folders)), notes)


def _known_spans(path: Path, stated: int | None) -> int:
    """How many spans a part has that can be read without them; 0 of any other. stated: by the manifest."""
    if not _has_head(path):
        return 0
    if stated is not None:
        return stated
    from profscope.traces.jobs.heads import span_count

    return span_count(path) if path.is_file() else 0


def _has_head(path: Path) -> bool:
    """Whether it can be read without its spans."""
    return path.suffix == ".parquet" and not missing("parquet")


def _metadata_of(job: JobFolder, rank: int) -> Mapping[str, Any]:
    """Of a part, without its spans if that can be. Raises TraceError."""
    if rank not in job.paths:
        raise TraceError("there is no part of it")
    if not _has_head(job.paths[rank]):
        return load_part(job.paths[rank], TraceFilter(launch=0)).tables.metadata
    from profscope.traces.jobs.heads import read_heads

    heads, notes = read_heads(job.folder, {rank: job.paths[rank]})
    if not heads:
        raise TraceError(notes[0])
    return heads[0].metadata


def _part(folder: Path) -> Path | None:
    """What a rank has written; None where there is nothing. Raises TraceError where there is too much."""
    inside = sorted(folder.iterdir())
    written = [path for path in inside if path.is_file() and path.suffix != SUFFIX]
    if len(written) > 1:  # beside a trace there may be logs
        written = [path for path in written if holds_a_trace(path.name)] or written
    if len(written) > 1:
        raise TraceError(f"it has written several parts: {', '.join(path.name for path in written)}")
    cut_short = [path for path in [folder, *inside] if path.is_dir() and any(path.glob(f"*{SUFFIX}"))]
    return next(iter([*written, *cut_short]), None)
