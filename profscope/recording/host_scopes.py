"""Scopes of the host's code: which part of a program ran when, on which thread, and what it launched.

    with profscope.scope("step", tokens=4096):
        train_step()

Needs the standard library only: a program that uses `scope` imports nothing else for it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any, Final, ParamSpec, TypeVar

from profscope.errors import OptionError

__all__ = ["HOST_NAMES", "HostScopes", "Row", "scope"]

P = ParamSpec("P")
T = TypeVar("T")
HOST_NAMES: Final = ("scope", "source", "thread", "start_unix_ns", "end_unix_ns", "depth", "parent", "rank")
"""The columns of `Profile.host`; a metric cannot have one of these names."""

_MOST: Final = 1 << 20  # rows of a session: some 300 MB
_RECORDING: Final[list[HostScopes]] = []  # those of the open session; none while it is paused
_NOTHING: Final[list[Any]] = []  # stays empty
_now: Final = time.time_ns


class _Thread:
    """open: its scopes that have not ended, the innermost last."""

    def __init__(self) -> None:
        self.open: list[Row] = []
        self.number = threading.get_native_id()


class Row:
    """One scope. first_launch, end_launch: the session's launches so far when it began and when it ended;
    end_unix_ns: 0 while it is open."""

    __slots__ = (
        "depth", "end_launch", "end_unix_ns", "first_launch", "metrics", "name", "parent", "source",
        "start_unix_ns", "thread",
    )  # fmt: skip

    def __init__(
        self, name: str, source: str, thread: _Thread, parent: Row | None, first_launch: int
    ) -> None:
        self.name, self.source, self.thread, self.parent = name, source, thread, parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.first_launch = self.end_launch = first_launch
        self.metrics: dict[str, float] = {}
        self.start_unix_ns, self.end_unix_ns = _now(), 0


class HostScopes:
    """Of a session. launches(): how many there have been so far. Thread-safe."""

    def __init__(self, launches: Callable[[], int]) -> None:
        self._launches = launches
        self._rows: list[Row] = []
        self._threads: list[_Thread] = []
        self._local = threading.local()
        self._left_out = 0
        self.changes = 0  # of what `columns` says
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(this()))

    def __len__(self) -> int:
        return len(self._rows)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Scopes that begin in the body of a with statement are recorded; those still open then end there."""
        _RECORDING.append(self)
        try:
            yield
        finally:
            _forget(self)
            for thread in self._threads:
                for row in reversed(thread.open[:]):
                    self.end(row)

    def begin(self, name: str, source: str, *, nested: bool = True) -> Row | None:
        """A scope of the calling thread's begins; None where there have been too many. nested: those that
        begin before it ends lie in it."""
        if len(self._rows) >= _MOST:
            self._left_out += 1
            return None
        thread = getattr(self._local, "thread", None)
        if thread is None:
            thread = self._local.thread = _Thread()
            self._threads.append(thread)
        row = Row(name, source, thread, thread.open[-1] if thread.open else None, self._launches())
        self._rows.append(row)
        self.changes += 1
        if nested:
            thread.open.append(row)
        return row

    def end(self, row: Row) -> None:
        """It ends now, if it has not."""
        if not row.end_unix_ns:
            row.end_unix_ns = _now()
            row.end_launch = self._launches()
            self.changes += 1
            with contextlib.suppress(ValueError):  # it was not nested
                row.thread.open.remove(row)

    def end_innermost(self, source: str) -> None:
        """The calling thread's innermost scope of this source ends, where one is open."""
        thread = getattr(self._local, "thread", None)
        row = next((row for row in reversed(thread.open) if row.source == source), None) if thread else None
        if row is not None:
            self.end(row)

    def columns(self) -> dict[str, list[Any]]:
        """JSON-able: HOST_NAMES but rank, in order of beginning; what is open ends now. Also `first_launch`
        and `end_launch`, and `metrics`, a dict for each row."""
        rows = self._rows[:]
        now, launches = _now(), self._launches()
        number = {id(row): at for at, row in enumerate(rows)}
        return {
            "scope": [row.name for row in rows],
            "source": [row.source for row in rows],
            "thread": [row.thread.number for row in rows],
            "start_unix_ns": [row.start_unix_ns for row in rows],
            "end_unix_ns": [row.end_unix_ns or now for row in rows],
            "depth": [row.depth for row in rows],
            "parent": [-1 if row.parent is None else number[id(row.parent)] for row in rows],
            "first_launch": [row.first_launch for row in rows],
            "end_launch": [row.end_launch if row.end_unix_ns else launches for row in rows],
            "metrics": [row.metrics for row in rows],
        }

    def notes(self) -> list[str]:
        """What is missing, one line each."""
        if not self._left_out:
            return []
        return [f"{self._left_out:,} host scopes are left out: a session keeps the first {_MOST:,}"]


class scope:  # noqa: N801  it reads as a statement
    """A scope of the host's code, with numbers that belong to it; also as a decorator of a function.

        with profscope.scope("step", tokens=4096) as step:
            loss = train_step()
            step.add(loss=loss.item())

    While a session records, it becomes a row of `prof.host`, and launches in it know it (`launches["host"]`).
    Otherwise it does nothing, and costs next to nothing. Scopes nest, on each thread by itself. For scopes
    inside a kernel there is `profscope.language.scope`.

    name: text. metrics: numbers, each a float64 column of `prof.host`. Where a session records, beginning it
    raises OptionError for a name that is no text, a metric that is no number, and one that is called like a
    column of the table. What Python calls between two `await`s may run in other scopes: there it takes in
    whatever its thread does meanwhile.
    """

    __slots__ = ("_begun", "_metrics", "_name")

    def __init__(self, name: str, /, **metrics: float) -> None:
        self._name = name
        self._metrics = metrics
        self._begun: list[tuple[HostScopes, Row]] = _NOTHING  # where it is open; it may be entered again

    def __enter__(self) -> scope:
        if not _RECORDING:
            return self
        if not isinstance(self._name, str):
            raise OptionError(_no_text(self._name))
        metrics = _checked(self._metrics)
        scopes = _RECORDING[-1]
        row = scopes.begin(self._name, "scope")
        if row is not None:
            row.metrics.update(metrics)
            self._begun = [*self._begun, (scopes, row)]
        return self

    def __exit__(self, *error: object) -> None:
        if self._begun:  # where recording began or was paused inside, it is none, or has ended
            scopes, row = self._begun.pop()
            scopes.end(row)

    def add(self, **metrics: float) -> None:
        """Further metrics, or other values of those it has. Raises OptionError as entering does; does
        nothing where it is not recorded."""
        if self._begun:
            self._begun[-1][1].metrics.update(_checked(metrics))

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, each call of which is this scope."""

        @functools.wraps(function)
        def scoped(*args: P.args, **kwargs: P.kwargs) -> T:
            with scope(self._name, **self._metrics):
                return function(*args, **kwargs)

        return scoped


def _no_text(name: object) -> str:
    mend = "; inside a kernel, use profscope.language.scope" if hasattr(name, "value") else ""
    return f"scope({name!r}): the name of a scope must be text{mend}"


def _checked(metrics: dict[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in metrics.items():
        if name in HOST_NAMES:
            raise OptionError(f"metric {name}= is called like a column of prof.host; give it another name")
        if isinstance(value, bool) or not isinstance(value, Real):
            mend = "; give value.item()" if hasattr(value, "item") else ""
            raise OptionError(f"metric {name}= must be a number, not {type(value).__name__}{mend}")
        numbers[name] = float(value)
    return numbers


def _forget(scopes: HostScopes | None) -> None:
    """It records no more; also in a child process, where nobody would read it."""
    if scopes in _RECORDING:
        _RECORDING.remove(scopes)
