"""Scopes of the host's code: named parts of a program, their times, threads and launches.

    with profscope.scope("step", tokens=4096):
        train_step()

Needs the standard library only: a program that uses `scope` imports nothing else for it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from numbers import Real
from typing import Any, Final, ParamSpec, TypeVar

from profscope.errors import OptionError

__all__ = [
    "HOST_NAMES",
    "MOST_ROWS",
    "RECORDING",
    "HostScopes",
    "Row",
    "called",
    "launched_in",
    "runs_later",
    "scope",
]

P = ParamSpec("P")
T = TypeVar("T")
HOST_NAMES: Final = ("scope", "source", "thread", "start_unix_ns", "end_unix_ns", "depth", "parent", "rank")
"""The columns of `Profile.host`; a metric cannot have one of these names."""

_SCOPE: Final = "scope"
MOST_ROWS: Final = 1 << 20
"""Of a session: some 300 MB."""
RECORDING: Final[list[HostScopes]] = []  # those of the open session; none while it is paused
_NOTHING: Final[dict[str, Any]] = {}  # stays empty, as this does
_NOWHERE: Final[list[Any]] = []
_now: Final = time.time_ns


class Entered:
    """A scope that was entered. It belongs to the context that entered it, such as an asyncio task (see
    `contextvars`), and to the contexts made from that.

    above: the one around it in its context; scope: the object that was entered, None for a range of other
    tools; row: the last that it was recorded as; nested: whether others lie in it.
    """

    __slots__ = ("above", "left", "nested", "row", "scope", "thread")

    def __init__(self, scope: Any, *, nested: bool = True) -> None:
        self.above = _standing(_INNERMOST.get())
        self.left = False
        self.nested = nested
        self.row: Row | None = None
        self.scope = scope
        self.thread = _HERE.thread

    def enter(self) -> None:
        self.thread.open.append(self)
        _INNERMOST.set(self)

    def leave(self) -> None:
        if self.left:
            return
        self.left = True
        if self in self.thread.open:
            self.thread.open.remove(self)
        _INNERMOST.set(_standing(_INNERMOST.get()))


class HostThread:
    """number: the system's. open: the scopes entered here, the last one last; also while nothing records.
    of_python: Python has begun it, and not a library, as autograd's; launches: whether it has launched."""

    __slots__ = ("launches", "number", "of_python", "open")

    def __init__(self) -> None:
        self.number = threading.get_native_id()
        self.of_python = not isinstance(threading.current_thread(), threading._DummyThread)
        self.launches = False
        self.open: list[Entered] = []


class _Here(threading.local):
    """thread: the calling one."""

    def __init__(self) -> None:
        self.thread = HOST_THREADS[threading.get_ident()] = HostThread()


HOST_THREADS: Final[dict[int, HostThread]] = {}  # those that have entered a scope, or launched
_INNERMOST: Final[ContextVar[Entered | None]] = ContextVar("INNERMOST", default=None)
_HERE: Final = _Here()


def launched_in() -> int:
    """The row of the host scope in which the calling thread is about to launch; -1 for none.

    A launch by a library's thread belongs to the Python thread that waits for it: the only thread with an
    open scope or, if there are several, the only one of these that launches kernels itself.
    """
    thread = _HERE.thread
    thread.launches = True
    if not RECORDING:
        return -1
    entered = _INNERMOST.get()
    row = None if entered is None else _recorded(entered)
    if row is None and not thread.of_python:
        row = RECORDING[-1].waiting()
    return -1 if row is None else row.number


def _standing(entered: Entered | None) -> Entered | None:
    """It, or the innermost around it that has not been left."""
    while entered is not None and entered.left:
        entered = entered.above
    return entered


class Row:
    """One scope. number: its place among those of a session; end_unix_ns: 0 while it is open."""

    __slots__ = (
        "_scopes", "end_unix_ns", "entered", "metrics", "name", "number", "parent", "source", "start_unix_ns",
        "thread",
    )  # fmt: skip

    def __init__(
        self, scopes: HostScopes, number: int, name: str, source: str, thread: int, entered: Entered
    ) -> None:
        self._scopes, self.number = scopes, number
        self.name, self.source, self.thread, self.entered = name, source, thread, entered
        above = _recorded(entered.above)
        while above is not None and (above.thread != thread or not above.entered.nested):
            above = _recorded(above.entered.above)
        self.parent = above
        self.metrics: dict[str, float] = {}
        self.start_unix_ns, self.end_unix_ns = _now(), 0

    def end(self) -> None:
        """It ends now, if it has not."""
        self._scopes.end(self)


def _recorded(entered: Entered | None) -> Row | None:
    """Its row, or that of the innermost around it that has one that is open."""
    while entered is not None and (entered.left or entered.row is None or entered.row.end_unix_ns):
        entered = entered.above
    return None if entered is None else entered.row


class HostScopes:
    """The scopes of a session. Thread-safe. most_rows: the most it keeps. changes: a counter of changes of
    `columns`."""

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._most_rows = most_rows
        self.changes = 0
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._open: dict[int, list[Row]] = {}  # by thread, rows that have not ended, the innermost last
        self._own = _HERE.thread
        self._left_out = 0
        self._unsure = 0  # launches
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(this()))

    def __len__(self) -> int:
        return len(self._rows)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Scopes of the body of a with statement are recorded: those that are open begin, and those that are
        open at its end, end there."""
        self._adopt()
        RECORDING.append(self)
        try:
            yield
        finally:
            _forget(self)
            for rows in list(self._open.values()):
                for row in reversed(rows[:]):
                    self.end(row)
                    if row.source != _SCOPE:  # which goes on where recording does
                        row.entered.leave()

    def _adopt(self) -> None:
        """Scopes that are open begin, those of other threads, too."""
        alive = {thread.ident for thread in threading.enumerate()}
        for ident, thread in list(HOST_THREADS.items()):
            for entered in thread.open[:] if ident in alive else ():
                with contextlib.suppress(OptionError):  # where nothing recorded, nobody looked at it
                    if entered.scope is not None:
                        entered.scope.begin(self, entered)

    def begin(self, name: str, source: str, *, nested: bool = True) -> Row | None:
        """A range of the calling thread's begins; None if there have been too many. nested: those that
        begin before it ends lie in it."""
        entered = Entered(None, nested=nested)
        row = self.begin_as(entered, name, source)
        if row is not None:
            entered.enter()
        return row

    def begin_as(self, entered: Entered, name: str, source: str) -> Row | None:
        """As `begin`, for an entered scope."""
        thread = entered.thread.number
        with self._lock:
            if len(self._rows) >= self._most_rows:
                self._left_out += 1
                return None
            row = entered.row = Row(self, len(self._rows), name, source, thread, entered)
            self._rows.append(row)
            self._open.setdefault(thread, []).append(row)
            self.changes += 1
        return row

    def end(self, row: Row) -> None:
        """It ends now, if it has not. One that began in it and goes on does not lie in it."""
        with self._lock:
            if row.end_unix_ns:
                return
            row.end_unix_ns = _now()
            self.changes += 1
            rows = self._open[row.thread]
            rows.remove(row)
            for other in rows:
                if other.parent is row:
                    other.parent = row.parent

    def end_innermost(self, source: str) -> None:
        """The calling thread's innermost range of this source ends, where one is open: that of this context,
        or else the one that began last."""
        row = _recorded(_INNERMOST.get())
        while row is not None and (row.source != source or not row.entered.nested):
            row = _recorded(row.entered.above)
        if row is None:
            mine = self._open.get(_HERE.thread.number, [])
            row = next((each for each in mine[::-1] if each.entered.nested and each.source == source), None)
        if row is not None:
            self.leave(row)

    def leave(self, row: Row) -> None:
        """A range that `begin` began ends."""
        self.end(row)
        row.entered.leave()

    def waiting(self) -> Row | None:
        """The innermost row of the thread that waits for one of a library's, which launches."""
        threads = [each for each in list(HOST_THREADS.values()) if self._open.get(each.number)]
        if len(threads) > 1:
            threads = [each for each in threads if each.launches or each is self._own]
            self._unsure += len(threads) > 1
        rows = self._open.get(threads[0].number, []) if len(threads) == 1 else []
        return rows[-1] if rows else None

    def columns(self) -> dict[str, list[Any]]:
        """JSON-able: HOST_NAMES except rank, in order of beginning; open scopes end now. Also `metrics`, a
        dict for each row."""
        now = _now()
        with self._lock:
            rows = self._rows[:]
            parent = [-1 if row.parent is None else row.parent.number for row in rows]
        depth: list[int] = []
        for above in parent:  # which comes first
            depth.append(0 if above < 0 else depth[above] + 1)
        return {
            "scope": [row.name for row in rows],
            "source": [row.source for row in rows],
            "thread": [row.thread for row in rows],
            "start_unix_ns": [row.start_unix_ns for row in rows],
            "end_unix_ns": [row.end_unix_ns or now for row in rows],
            "depth": depth,
            "parent": parent,
            "metrics": [row.metrics for row in rows],
        }

    def notes(self) -> list[str]:
        """Missing data, one line each."""
        notes = []
        if self._left_out:
            notes.append(
                f"{self._left_out:,} host scopes are left out: a session keeps the first {self._most_rows:,}"
            )
        if self._unsure:
            launches = "launch is" if self._unsure == 1 else "launches are"
            notes.append(
                f"{self._unsure:,} {launches} in no host scope: a library's thread launched, and several "
                "threads had scopes open that may have waited for it"
            )
        return notes


class scope:  # noqa: N801  it reads as a statement
    """A scope of the host's code, with numbers that belong to it; also as a decorator of a function.

        with profscope.scope("step", tokens=4096) as step:
            loss = train_step()
            step.add(loss=loss.item())

    While a session records, it becomes a row of `prof.host`, and its launches refer to it
    (`launches["host"]`). A scope that is open when recording begins or resumes begins at that moment. Without
    a session it costs next to nothing. Scopes nest in each thread and asyncio task; a task begins in the
    scope that created it. For scopes inside a kernel there is `profscope.language.scope`.

    name: text. metrics: numbers, each a float64 column of `prof.host`. While a session records, entering the
    scope raises OptionError if the name is no text, a metric is no number, or a metric has the name of a
    column of the table. Decorating a generator raises it too, since a generator runs after its call.
    """

    __slots__ = ("_added", "_entered", "_metrics", "_name")

    def __init__(self, name: str, /, **metrics: float) -> None:
        self._name = name
        self._metrics = metrics
        self._added = _NOTHING  # what `add` said
        self._entered: list[Entered] = _NOWHERE  # where it is open; it may be entered again

    def __enter__(self) -> scope:
        entered = Entered(self)
        if RECORDING:
            self.begin(RECORDING[-1], entered)
        entered.enter()
        self._entered = [*self._entered, entered]
        return self

    def __exit__(self, *error: object) -> None:
        entered = self._here()
        if entered is None:
            return
        self._entered = [each for each in self._entered if each is not entered] or _NOWHERE
        entered.leave()
        if entered.row is not None:
            entered.row.end()
        if not self._entered:
            self._added = _NOTHING

    def _here(self) -> Entered | None:
        """Where it is open in this context; in another one, as a generator's may be, where it was entered
        last."""
        entered = _standing(_INNERMOST.get())
        while entered is not None and entered.scope is not self:
            entered = _standing(entered.above)
        return entered or (self._entered[-1] if self._entered else None)

    def begin(self, scopes: HostScopes, entered: Entered) -> None:
        """It is recorded from now on. Raises OptionError."""
        if not isinstance(self._name, str) or not _is_unicode(self._name):
            raise OptionError(_no_text(self._name))
        metrics = _checked({**self._metrics, **self._added})
        row = scopes.begin_as(entered, self._name, _SCOPE)
        if row is not None:
            row.metrics.update(metrics)

    def add(self, **metrics: float) -> None:
        """Further metrics, or other values of those it has. Raises OptionError as entering does; does
        nothing where it is not recorded."""
        entered = self._here()
        if entered is not None and entered.row is not None:
            entered.row.metrics.update(_checked(metrics))
        self._added = {**self._added, **metrics}

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, each call of which is this scope; of an async one, until it has been awaited."""
        later = runs_later(function)
        if later == "generator":
            raise OptionError(
                f"@profscope.scope({self._name!r}) cannot see {called(function)} run: a generator "
                "runs after its call returned; use `with profscope.scope(...)` inside it"
            )
        if later == "coroutine":

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                with scope(self._name, **self._metrics):
                    return await function(*args, **kwargs)  # type: ignore[misc]

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def scoped(*args: P.args, **kwargs: P.kwargs) -> T:
            with scope(self._name, **self._metrics):
                return function(*args, **kwargs)

        return scoped


def runs_later(function: Callable[..., Any]) -> str:
    """ "coroutine" or "generator" if it runs after its call has returned, else "". Also of an object that has
    a `__call__`, and of a partial."""
    while isinstance(function, functools.partial):
        function = function.func
    for each in (function, type(function).__call__):
        if inspect.iscoroutinefunction(each):
            return "coroutine"
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            return "generator"
    return ""


def called(function: Callable[..., Any]) -> str:
    """A function's name for an error, "f()"; of a partial or an object its `repr`."""
    name = getattr(function, "__name__", None)
    return repr(function) if name is None else f"{name}()"


def _is_unicode(name: str) -> bool:
    """Whether tables and files can hold it: a lone surrogate has no spelling in UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_text(name: object) -> str:
    if isinstance(name, str):
        return f"scope({name!r}): the name has a lone surrogate, which files cannot spell"
    hint = "; inside a kernel, use profscope.language.scope" if hasattr(name, "value") else ""
    return f"scope({name!r}): the name of a scope must be text{hint}"


def _checked(metrics: dict[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in metrics.items():
        if name in HOST_NAMES:
            raise OptionError(f"metric {name}= is called like a column of prof.host; give it another name")
        if isinstance(value, bool) or not isinstance(value, Real):
            hint = "; give value.item()" if hasattr(value, "item") else ""
            raise OptionError(f"metric {name}= must be a number, not {type(value).__name__}{hint}")
        numbers[name] = float(value)
    return numbers


def _forget(scopes: HostScopes | None) -> None:
    """It records no more; also in a child process, where nobody would read it."""
    if scopes in RECORDING:
        RECORDING.remove(scopes)
