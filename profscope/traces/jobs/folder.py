"""Which parts in a job's folder are of one run: a folder may have some of a run before, and lack others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from profscope.errors import TraceError
from profscope.traces.trace_file import one_line

__all__ = ["JobFolder", "of_one_run"]


class _Part(Protocol):
    @property
    def rank(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


P = TypeVar("P", bound=_Part)


@dataclass(frozen=True)
class JobFolder:
    """What is in a job's folder.

    paths: by rank, its part. spans: by rank, how many spans can be left out. named: ranks that have a folder,
    or stand in the manifest. notes: of ranks without a part.
    """

    folder: Path
    paths: Mapping[int, Path]
    spans: Mapping[int, int]
    named: frozenset[int]
    notes: Sequence[str]


def of_one_run(job: JobFolder, parts: Sequence[P], notes: Sequence[str]) -> tuple[list[P], list[str]]:
    """The parts of the run that began last, with those that may be of it, and notes of the others: of another
    job, of a rank that this run had not, or not there at all.

    Raises TraceError if no part is left.
    """
    jobs = [part.metadata.get("job") or {} for part in parts]
    newest = max(jobs, key=lambda told: told.get("began_unix_ns") or 0, default={})
    last = {None, "", newest.get("id")} if newest.get("id") else {told.get("id") for told in jobs}
    size = newest.get("world_size") or max((part.rank + 1 for part in parts), default=0)
    kept: list[P] = []
    said = [*notes]
    for part, told in zip(parts, jobs, strict=True):
        why = _why_not(part, told, last, size)
        if why:
            said.append(f"{part.name} is left out: {why}")
        else:
            kept.append(part)
    if not kept:
        raise TraceError(f"{one_line(job.folder)} has no part that can be read: {'; '.join(said)}")
    ranks = max((part.metadata.get("job") or {}).get("world_size") or 0 for part in kept)
    absent = sorted(set(range(ranks)) - job.named)
    said += [f"rank {rank} of {ranks} is missing: there is no part of it" for rank in absent]
    return kept, said


def _why_not(part: _Part, told: Mapping[str, Any], last: Collection[str | None], size: int) -> str:
    """Why a part is not of the run; "" if it may be. told: what it says of its job; last: the run's names."""
    if told.get("id") not in last:
        return "it is of another run"
    if part.rank >= size:
        return f"the run had {size} ranks"
    if told.get("rank") not in (None, part.rank):
        return f"it is of rank {told['rank']}"
    return ""
