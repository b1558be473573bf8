"""A folder with the parts of a job's ranks: `trace/rank=0`, `trace/rank=1`, ..., each of any format.

A part is what a rank has written, or, where it was killed, what it had recorded by then. What is missing or
of another run is named in the notes; the rest is read.
"""

from dataclasses import replace
from pathlib import Path

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.store.chunks import SUFFIX
from profscope.traces.formats import PARTIAL, rank_folders
from profscope.traces.loading import load_part
from profscope.traces.merging import Part, merged
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]


def recognises(file: TraceFile) -> bool:
    return file.is_folder and bool(rank_folders(file.path))


def read(file: TraceFile) -> Tables:
    """Raises TraceError where none of the parts can be read."""
    parts: list[Part] = []
    notes: list[str] = []
    # Launches and variants have other numbers in the whole than in a part.
    only = replace(file.only, rank=None, launch=None, variant=None)
    for rank, folder in sorted(rank_folders(file.path).items()):
        try:
            path = _part(folder)
            if path is None:
                notes.append(f"rank {rank} is missing: it has written nothing")
                continue
            loaded = load_part(path, only)
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
            continue
        file.left_out += loaded.left_out
        parts.append(Part(loaded.tables, str(path.relative_to(file.path)), rank))
        if path.name.endswith(PARTIAL):
            notes.append(f"rank {rank} did not come to its end: what it had recorded by then is here")
    kept, old = _of_one_run(parts)
    for part in old:
        notes.append(f"{part.name} is left out: it is of another run, which began before")
    if not kept:
        raise TraceError(f"{file} has no part that can be read: {'; '.join(notes)}")
    return merged(kept, [*notes, *_never_seen(file.path, kept)], samples_of=file.only.rank)


def _part(folder: Path) -> Path | None:
    """What a rank has written; None where there is nothing. Raises TraceError where there is too much."""
    inside = sorted(folder.iterdir())
    written = [path for path in inside if path.is_file() and path.suffix != SUFFIX]
    if len(written) > 1:
        raise TraceError(f"it has written several parts: {', '.join(path.name for path in written)}")
    cut_short = [path for path in [folder, *inside] if path.is_dir() and any(path.glob(f"*{SUFFIX}"))]
    return next(iter([*written, *cut_short]), None)


def _of_one_run(parts: list[Part]) -> tuple[list[Part], list[Part]]:
    """Those of the run that began last, with those that may be of it; and the others: of another job, or of
    a rank that this run had not."""
    jobs = [part.tables.metadata.get("job") or {} for part in parts]
    newest = max(jobs, key=lambda job: job.get("began_unix_ns") or 0, default={})
    last = {None, "", newest.get("id")} if newest.get("id") else {job.get("id") for job in jobs}
    size = newest.get("world_size") or max((part.rank + 1 for part in parts), default=0)
    kept: list[Part] = []
    old: list[Part] = []
    for part, job in zip(parts, jobs, strict=True):
        (kept if job.get("id") in last and part.rank < size else old).append(part)
    return kept, old


def _never_seen(folder: Path, parts: list[Part]) -> list[str]:
    """Ranks of the job of which there is no folder at all."""
    sizes = [(part.tables.metadata.get("job") or {}).get("world_size") or 0 for part in parts]
    missing = sorted(set(range(max(sizes))) - set(rank_folders(folder)))
    return [f"rank {rank} of {max(sizes)} is missing: there is no part of it" for rank in missing]
