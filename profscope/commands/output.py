"""Where a run's trace goes, claimed before the program starts, so that it cannot fail an hour later.

trace.json            the trace, written at the end
trace.json.partial/   what has been recorded, while the program runs and if it is cut short
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from profscope.errors import OptionError, SessionError
from profscope.traces.formats import GZIP, own_suffix

__all__ = ["DEFAULT", "Output", "claim", "rank", "with_rank"]

DEFAULT: Final = "profscope.pftrace.gz"
_RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")  # torchrun and accelerate, Open MPI, MPICH


@dataclass(frozen=True)
class Output:
    """path: of the trace, absolute, since the program may go to another folder. folder: of what is recorded
    until then. name: of the trace, as messages have it. lock: a descriptor that holds the folder."""

    name: str
    path: Path
    folder: Path
    lock: int

    def release(self) -> None:
        """The trace is written, or there is none: the folder goes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


def rank(environment: Mapping[str, str]) -> int | None:
    """Which process of a job this is; None where nothing says that there is a job."""
    texts = [environment[name] for name in _RANKS if environment.get(name, "").isdecimal()]
    return int(texts[0]) if texts else None


def with_rank(path: Path, number: int | None) -> Path:
    """`trace.json` as `trace.rank3.json`. Raises OptionError for a suffix that no exporter has."""
    suffix, _ = own_suffix(path.name, str(path))
    suffix += GZIP if path.name.endswith(GZIP) else ""
    if number is None:
        return path
    return path.with_name(f"{path.name.removesuffix(suffix)}.rank{number}{suffix}")


def claim(given: str | None, *, force: bool, number: int | None) -> Output:
    """Claim a place for this process's trace. given: None for the first free name of the default's.

    Raises OptionError where a file is in the way or the suffix says no format, SessionError where another
    run writes there or nothing can be written.
    """
    for path in _candidates(given):
        output = _claim(with_rank(path, number), force=force, must=given is not None)
        if output is not None:
            return output
    raise AssertionError("names are without end")


def _candidates(given: str | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    yield Path(DEFAULT)
    suffix, _ = own_suffix(DEFAULT, DEFAULT)
    stem = DEFAULT.removesuffix(suffix + GZIP)
    yield from (Path(f"{stem}-{number}{suffix}{GZIP}") for number in count(2))


def _claim(path: Path, *, force: bool, must: bool) -> Output | None:
    """None where the name is taken and need not be had."""
    if not must and (path.exists() or _folder(path).exists()):
        return None
    if path.is_dir():
        raise OptionError(f"cannot write {str(path)!r}: it is a folder")
    if path.exists() and not force:
        raise OptionError(f"{str(path)!r} exists; -f overwrites it")
    folder = _folder(path)
    try:
        folder.mkdir()
    except FileExistsError:
        if not must:
            return None
    except OSError as error:
        raise SessionError(f"cannot write {str(path)!r}: {error.strerror}") from error
    lock = _locked(path, folder, force=force)
    return Output(str(path), path.absolute(), folder.absolute(), lock)


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _locked(path: Path, folder: Path, *, force: bool) -> int:
    """A descriptor that holds a folder, which is empty now."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SessionError(
            f"another run is writing {str(path)!r}; give this one a name of its own"
        ) from error
    left = sorted(folder.iterdir())
    if left and not force:
        os.close(lock)
        raise OptionError(
            f"{str(folder)!r} has what a run that was cut short recorded; `profscope view` shows it, "
            "-f throws it away"
        )
    for file in left:
        file.unlink()
    return lock
