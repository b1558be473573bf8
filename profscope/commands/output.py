"""The output file of a run, created before the program starts, so that it cannot fail an hour later.

trace.json            the trace, written at the end
trace.json.partial/   the recording, while the program runs and if it is cut short
trace.json.partial.1/ the recording of an earlier run that was killed

A process of a job has these in a folder of its own: trace/rank=3/trace.json.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from profscope.errors import OptionError, SessionError
from profscope.traces.formats import DEFAULT, GZIP, PARTIAL, own_suffix, rank_of, rank_paths
from profscope.traces.output import check_parent
from profscope.traces.own_files import check_replaceable, first_foreign, remove_own

__all__ = ["FORMATS", "Output", "claim", "free_for_ranks", "with_rank"]

FORMATS: Final = ".pftrace or .json, either with .gz, or .parquet"
"""What the commands say of a trace that they write."""


@dataclass(frozen=True)
class Output:
    """path: of the trace, absolute, since the program may change folders. folder: of the recording until
    then. name, whole: of the trace, and of that of all ranks, for messages. lock: a descriptor that holds the
    folder. kept: the folder of an earlier, killed run's launches; "" if there are none."""

    name: str
    whole: str
    path: Path
    folder: Path
    lock: int
    kept: str = ""

    def check(self) -> None:
        """Raises OptionError if something is at the trace's path by now that must stay: the program may have
        written it."""
        check_replaceable(self.path, f"cannot write {self.name!r}")

    def release(self) -> None:
        """The trace is written, or there is none: the folder goes."""
        with contextlib.suppress(OSError):
            remove_own(self.folder)
        os.close(self.lock)
        if self.whole != self.name and not self.path.exists():
            with contextlib.suppress(OSError):  # other ranks have written
                for folder in (self.folder.parent, self.folder.parent.parent):
                    if folder.name == Path(self.whole).name or rank_of(folder) is not None:
                        folder.rmdir()

    def remove_ranks_from(self, number: int) -> list[str]:
        """Remove the parts of these ranks and above, which an earlier run of more ranks has left.

        Returns a note for each part that stays: one with launches that are in no trace, or with foreign files
        added while the program ran.
        """
        notes = []
        for folder in _stale_parts(_whole(self.path), number):
            try:
                why = "it holds launches of a run that was killed" if _hold_launches(folder) else None
                foreign = None if why else remove_own(folder)
                why = why if foreign is None else f"profscope did not write {str(foreign)!r}"
            except OSError as error:
                why = f"{error.filename or folder}: {error.strerror}"
            if why is not None:
                notes.append(f"{folder.name} of an earlier run is left: {why}")
        return notes


def _whole(path: Path) -> Path:
    """The folder of all ranks' parts, of a path in one of them."""
    return next(each for each in path.parents if rank_of(each) is None)


def _stale_parts(whole: Path, number: int) -> list[Path]:
    """Everything in a job's folder that is named as the part of rank `number` or one above it."""
    return [path for rank, path in rank_paths(whole).items() if rank >= number]


def with_rank(given: str | Path, number: int | None) -> Path:
    """A rank's path: `step/rank=3/trace.json` of `step.json` and rank 3; without a rank the path.

    Raises OptionError for a suffix that no exporter has.
    """
    path = Path(given)
    suffix, _ = own_suffix(path.name, str(given))
    suffix += GZIP if path.name.endswith(GZIP) else ""
    if number is None:
        return path
    return path.with_name(path.name.removesuffix(suffix)) / f"rank={number}" / f"trace{suffix}"


def free_for_ranks() -> str:
    """The first of the default's names that is no folder."""
    return next(name for name in _candidates(None) if not with_rank(name, 0).parents[1].exists())


def claim(
    given: str | None, *, number: int | None, of: int | None = None, spool: Path | None = None
) -> Output:
    """Claim a place for the trace of this process, rank `number` of a job `of` so many.

    given: the path, where the trace replaces an older one; None for the first free default name. spool: the
    folder of --spool.

    Raises OptionError if a folder is in the way, the suffix has no format, or the spool has the path of the
    trace; SessionError if another run writes there, if the place is not writable, or if it would replace
    something that profscope did not write.
    """
    for name in _candidates(given):
        path = with_rank(name, number)
        whole = path if number is None else _whole(path)
        if given is None and number is not None and _holds_others(whole):
            continue
        if number == 0 and of is not None:
            for stale in _stale_parts(whole, of):
                _check_stale(stale, of)
        _check_spool(spool, path)
        output = _claim(path, whole, must=given is not None)
        if output is not None:
            return output
    raise AssertionError("names are without end")


def _holds_others(folder: Path) -> bool:
    return folder.is_dir() and any(not each.name.startswith("rank=") for each in folder.iterdir())


def _candidates(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    yield DEFAULT
    suffix, _ = own_suffix(DEFAULT, DEFAULT)
    stem = DEFAULT.removesuffix(suffix + GZIP)
    yield from (f"{stem}-{number}{suffix}{GZIP}" for number in count(2))


def _claim(path: Path, whole: Path, *, must: bool) -> Output | None:
    """None if the name is taken and need not be had."""
    if not must and (path.exists() or _folder(path).exists()):
        return None
    check_replaceable(path, f"cannot write {str(path)!r}")
    folder = _folder(path)
    try:
        check_parent(whole)
        if whole != path:
            whole.mkdir(exist_ok=True)
            folder.parent.mkdir(exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        if not must:
            return None
    except OSError as error:
        raise SessionError(f"cannot write {str(path)!r}: {error.strerror}") from error
    lock, kept = _locked(path, folder)
    return Output(str(path), str(whole), path.absolute(), folder.absolute(), lock, kept)


def _check_spool(spool: Path | None, path: Path) -> None:
    """Raises OptionError if a spool would be in a folder that the run removes, or where the trace goes."""
    if spool is None:
        return
    for taken in (_folder(path), path):
        if spool.resolve().is_relative_to(taken.resolve()):
            raise OptionError(
                f"--spool {spool}: the run writes the trace to {str(path)!r} and uses {str(_folder(path))!r} "
                "until then; choose a folder outside both"
            )


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}{PARTIAL}")


def _locked(path: Path, folder: Path) -> tuple[int, str]:
    """A descriptor that holds a folder, which is empty, and the new name of the one that was there before, if
    that has launches of a run that was killed."""
    lock, kept = _lock_alone(path, folder), ""
    try:
        _check_own(folder, f"{str(folder)!r} is in the way")
        if _hold_launches(folder):
            kept = _set_aside(folder)
            folder.mkdir()
            before, lock = lock, _lock_alone(path, folder)
            os.close(before)
        for file in folder.iterdir():
            file.unlink()
    except OSError as error:
        os.close(lock)
        raise SessionError(f"cannot write in {str(folder)!r}: {error.strerror}") from error
    except SessionError:
        os.close(lock)
        raise
    return lock, kept


def _hold_launches(folder: Path) -> bool:
    """Whether spools at or below a folder have launches."""
    from profscope.store.chunks import SUFFIX, may_hold_launches

    return any(may_hold_launches(spool) for spool in folder.rglob(f"*{SUFFIX}"))


def _set_aside(folder: Path) -> str:
    """Rename a folder to the first free name, such as `t.json.partial.1`; returns that."""
    names = (folder.with_name(f"{folder.name}.{number}") for number in count(1))
    free = next(name for name in names if not os.path.lexists(name))
    folder.rename(free)
    return str(free)


def _lock_alone(path: Path, folder: Path) -> int:
    lock = _lock(folder)
    if lock is None:
        raise SessionError(f"another run is writing {str(path)!r}; give this one a name of its own")
    return lock


def _lock(folder: Path) -> int | None:
    """A descriptor that holds a folder until it is closed; None if another run holds or has renamed it."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.stat()):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _check_stale(path: Path, ranks: int) -> None:
    """Raises SessionError if the part of a rank that this job does not have cannot be removed at its end."""
    _check_own(path, f"{str(path)!r} is in the way, since this job has {ranks} ranks")
    for folder in (path, *path.glob(f"*{PARTIAL}")):
        lock = _lock(folder) if folder.is_dir() else -1
        if lock is None:
            raise SessionError(f"another run is writing in {str(path)!r}; choose another name with -o")
        if lock >= 0:
            os.close(lock)


def _check_own(path: Path, why: str) -> None:
    """Raises SessionError if something at or below `path` is not profscope's to remove."""
    try:
        foreign = first_foreign(path)
    except OSError as error:
        raise SessionError(f"{why}, and cannot be read: {error.strerror}") from error
    if foreign is not None:
        raise SessionError(
            f"{why}, and profscope did not write {str(foreign)!r}; move it, or choose another name with -o"
        )
