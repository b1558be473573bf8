"""A folder with the parts of a job's ranks: `trace/rank=0`, `trace/rank=1`, ..., each of any format.

A part is what a rank has written, or, where it was killed, what it had recorded by then. What is missing or
of another run is named in the notes; the rest is read.
"""

from dataclasses import replace
from pathlib import Path

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.store.chunks import SUFFIX
from profscope.traces.formats import PROFILE, rank_of
from profscope.traces.importers.profscope_parquet import spans_in
from profscope.traces.loading import load_part
from profscope.traces.merging import Part, merged
from profscope.traces.trace_file import TraceFile, check_room

__all__ = ["read", "recognises"]

PARTIAL = ".partial"


def recognises(file: TraceFile) -> bool:
    return file.is_folder and bool(_ranks(file.path))


def read(file: TraceFile) -> Tables:
    """Raises TraceError where none of the parts can be read."""
    parts: list[Part] = []
    notes: list[str] = []
    check_room(str(file), sum(_spans_in(folders) for folders in _ranks(file.path).values()))
    # Launches and variants have other numbers in the whole than in a part.
    only = replace(file.only, rank=None, launch=None, variant=None)
    for rank, folders in sorted(_ranks(file.path).items()):
        try:
            path = _part(folders)
            if path is None:
                notes.append(f"rank {rank} is missing: it has written nothing")
                continue
            loaded = load_part(path, only, verify=file.verify)
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
            continue
        file.left_out += loaded.left_out
        parts.append(Part(loaded.tables, str(path.relative_to(file.path)), rank))
        if path.name.endswith(PARTIAL):
            notes.append(f"rank {rank} did not come to its end: what it had recorded by then is here")
    kept, old = _of_one_run(parts)
    for part in old:
        notes.append(f"rank {part.rank} is missing: {part.name} is of another run, which began before")
    if not kept:
        raise TraceError(f"{file} has no part that can be read: {'; '.join(notes)}")
    return merged(kept, [*notes, *_never_seen(file.path, kept)], samples_of=file.only.rank)


def _ranks(folder: Path) -> dict[int, list[Path]]:
    """By rank, the folders in which its part may be: `rank=3`, and `rank=3.partial` until it is written."""
    ranks: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("rank=*")):
        rank = rank_of(path.with_name(path.name.removesuffix(PARTIAL)))
        if rank is not None and path.is_dir():
            ranks.setdefault(rank, []).append(path)
    return ranks


def _part(folders: list[Path]) -> Path | None:
    """What a rank has written; None where there is nothing. Raises TraceError where there is too much."""
    written = [folder for folder in folders if (folder / PROFILE).exists()]
    inside = [path for folder in folders if folder not in written for path in sorted(folder.iterdir())]
    written += [path for path in inside if path.is_file() and path.suffix != SUFFIX]
    if len(written) > 1:
        raise TraceError(f"it has written several parts: {', '.join(path.name for path in written)}")
    cut_short = [path for path in [*folders, *inside] if path.is_dir() and any(path.glob(f"*{SUFFIX}"))]
    return next(iter([*written, *cut_short]), None)


def _spans_in(folders: list[Path]) -> int:
    """Of a rank's part, where it is a folder in Parquet: of other files nobody knows before they are read."""
    return sum(spans_in(TraceFile(folder)) for folder in folders if (folder / PROFILE).exists())


def _of_one_run(parts: list[Part]) -> tuple[list[Part], list[Part]]:
    """Those of the run that began last, with those that do not say; and the others."""
    began: dict[str, int] = {}
    for part in parts:
        job = part.tables.metadata.get("job") or {}
        if job.get("id"):
            began[job["id"]] = max(began.get(job["id"], 0), job.get("began_unix_ns") or 0)
    last = max(began, key=lambda each: began[each], default=None)
    old = [
        part for part in parts if (part.tables.metadata.get("job") or {}).get("id") not in (None, "", last)
    ]
    return [part for part in parts if part not in old], old


def _never_seen(folder: Path, parts: list[Part]) -> list[str]:
    """Ranks of the job of which there is no folder at all."""
    sizes = [(part.tables.metadata.get("job") or {}).get("world_size") or 0 for part in parts]
    missing = sorted(set(range(max(sizes))) - set(_ranks(folder)))
    return [f"rank {rank} of {max(sizes)} is missing: there is no part of it" for rank in missing]
