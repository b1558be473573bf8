"""Scopes of the host's code: which part of a program ran when, on which thread, and what it launched.

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
from numbers import Real
from typing import Any, Final, ParamSpec, TypeVar

from profscope.around.entered_scopes import HERE, HOST_THREADS, INNERMOST, Entered, standing
from profscope.errors import OptionError

__all__ = ["HOST_NAMES", "HostScopes", "Row", "about_to_launch", "called", "runs_later", "scope"]

P = ParamSpec("P")
T = TypeVar("T")
HOST_NAMES: Final = ("scope", "source", "thread", "start_unix_ns", "end_unix_ns", "depth", "parent", "rank")
"""The columns of `Profile.host`; a metric cannot have one of these names."""

_SCOPE: Final = "scope"
_MOST: Final = 1 << 20  # rows of a session: some 300 MB
_RECORDING: Final[list[HostScopes]] = []  # those of the open session; none while it is paused
_NOTHING: Final[dict[str, Any]] = {}  # stays empty, as this does
_NOWHERE: Final[list[Any]] = []
_now: Final = time.time_ns


def about_to_launch() -> None:
    """To be called before each launch: on one thread, contexts such as asyncio's tasks alternate."""
    entered = INNERMOST.get()
    if entered is not HERE.thread.in_force:
        HERE.thread.in_force = entered
        if _RECORDING:
            _RECORDING[-1].in_force(entered)


class _Thread:
    """Of a session. number: the system's. open: its rows that have not ended, the innermost last. row: the
    one that launches belong to, and since which launch."""

    def __init__(self, number: int) -> None:
        self.open: list[Row] = []
        self.number = number
        self.row: Row | None = None
        self.since = 0


class Row:
    """One scope. end_unix_ns: 0 while it is open."""

    __slots__ = (
        "_scopes", "end_unix_ns", "entered", "metrics", "name", "parent", "source", "start_unix_ns", "thread",
    )  # fmt: skip

    def __init__(self, scopes: HostScopes, name: str, source: str, thread: _Thread, entered: Entered) -> None:
        self._scopes = scopes
        self.name, self.source, self.thread, self.entered = name, source, thread, entered
        above = _recorded(entered.above)
        while above is not None and (above.thread is not thread or not above.entered.nested):
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
    """Of a session. launches(): how many there have been so far; of_threads(): the numbers of the threads
    whose scopes they may be in, none for any; launched(), alone(): see
    `Lanes`. Thread-safe."""

    def __init__(
        self,
        launches: Callable[[], int],
        of_threads: Callable[[], frozenset[int]] = frozenset,
        launched: Callable[[], dict[int, tuple[int, bool]]] = dict,
        alone: Callable[[int], bool] = bool,
    ) -> None:
        self._launches = launches
        self._of_threads = of_threads
        self._launched = launched
        self._alone = alone
        self._looked: tuple[int, dict[int, tuple[int, bool]]] = (0, {})  # when `_look` did, at what
        self._outside: dict[int, list[list[int]]] = {}  # by thread, when it launched in no scope
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._stretches: list[tuple[_Thread, Row, int, int]] = []
        self._threads: list[_Thread] = []
        self._local = threading.local()
        self._adopted: dict[int, _Thread] = {}  # whose scopes began before this recorded
        self._left_out = 0
        self.changes = 0  # of what `columns` says
        this = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(this()))

    def __len__(self) -> int:
        return len(self._rows)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Scopes of the body of a with statement are recorded: those that are open begin, and those that are
        open at its end, end there."""
        self._adopt()
        _RECORDING.append(self)
        try:
            yield
        finally:
            _forget(self)
            for thread in self._threads:
                for row in reversed(thread.open[:]):
                    self.end(row)
                    if row.source != _SCOPE:  # which goes on where recording does
                        row.entered.leave()

    def _adopt(self) -> None:
        """Scopes that are open begin, those of other threads, too."""
        numbers = {thread.ident: thread.native_id for thread in threading.enumerate()}
        about_to_launch()  # which is in force here
        for ident, host_thread in list(HOST_THREADS.items()):
            number = numbers.get(ident)
            if number is None or not host_thread.open:  # the first: a thread that is gone
                continue
            known = next((thread for thread in self._threads if thread.number == number), None)
            thread = known or self._adopted.setdefault(ident, _Thread(number))
            if known is None:
                self._threads.append(thread)
            for entered in host_thread.open[:]:
                with contextlib.suppress(OptionError):  # where nothing recorded, nobody looked at it
                    if entered.scope is not None:
                        entered.scope.begin(self, thread, entered)
            self._turn(thread, _recorded(host_thread.in_force))

    def thread(self) -> _Thread:
        """The calling thread."""
        thread: _Thread | None = getattr(self._local, "thread", None)
        if thread is None:
            thread = self._adopted.pop(threading.get_ident(), None)
            if thread is None:
                thread = _Thread(threading.get_native_id())
                self._threads.append(thread)
            self._local.thread = thread
        return thread

    def begin(self, name: str, source: str, *, nested: bool = True) -> Row | None:
        """A range of the calling thread's begins; None where there have been too many. nested: those that
        begin before it ends lie in it."""
        entered = Entered(None, nested=nested)
        row = self.begin_on(self.thread(), name, source, entered)
        if row is not None:
            entered.enter()
        return row

    def begin_on(self, thread: _Thread, name: str, source: str, entered: Entered) -> Row | None:
        """As `begin`, of the thread's."""
        if len(self._rows) >= _MOST:
            self._left_out += 1
            return None
        self._look()
        row = entered.row = Row(self, name, source, thread, entered)
        self._rows.append(row)
        self.changes += 1
        thread.open.append(row)
        self._turn(thread, row)
        return row

    def end(self, row: Row) -> None:
        """It ends now, if it has not. One that began in it and goes on does not lie in it."""
        if not row.end_unix_ns:
            self._look()
            row.end_unix_ns = _now()
            self.changes += 1
            thread = row.thread
            thread.open.remove(row)
            for other in thread.open:
                if other.parent is row:
                    other.parent = row.parent
            if thread.row is row:
                self._turn(thread, _recorded(row.entered.above))

    def in_force(self, entered: Entered | None) -> None:
        """What the calling thread launches from now on is in this scope."""
        thread, row = self.thread(), _recorded(entered)
        if row is not thread.row:
            self._look()
            self._turn(thread, row)

    def _turn(self, thread: _Thread, row: Row | None) -> None:
        launches = self._launches()
        if thread.row is not None and thread.since < launches:
            self._stretches.append((thread, thread.row, thread.since, launches))
            self.changes += 1
        thread.row, thread.since = row, launches

    def _look(self) -> None:
        """Note which threads have launched in no scope of theirs since a scope last began or ended. Since
        they go on meanwhile, stretches overlap by what is launched now."""
        threads = self._threads
        if len(threads) == 1 and self._alone(threads[0].number):  # as in most programs
            self._looked = self._launches(), {}
            return
        with self._lock:
            begin, before = self._looked
            launches, now = self._launches(), self._launched()  # in this order
            self._looked = launches, now
            end = self._launches()
            inside = {thread.number for thread in threads if thread.row is not None}
            for number, each in now.items():
                if number in inside or not (each[1] or each != before.get(number)):
                    continue
                stretches = self._outside.setdefault(number, [])
                if stretches and stretches[-1][1] >= begin:
                    stretches[-1][1] = end
                else:
                    stretches.append([begin, end])
                self.changes += 1

    def end_innermost(self, source: str) -> None:
        """The calling thread's innermost range of this source ends, where one is open: that of this context,
        or else the one that began last."""
        row = _recorded(INNERMOST.get())
        while row is not None and (row.source != source or not row.entered.nested):
            row = _recorded(row.entered.above)
        if row is None:
            mine = (each for each in reversed(self.thread().open) if each.entered.nested)
            row = next((each for each in mine if each.source == source), None)
        if row is not None:
            self.leave(row)

    def leave(self, row: Row) -> None:
        """A range that `begin` began ends."""
        self.end(row)
        row.entered.leave()

    def columns(self) -> dict[str, list[Any]]:
        """JSON-able: HOST_NAMES but rank, in order of beginning; what is open ends now. Also `metrics`, a
        dict for each row. `inside`: stretches in which a thread launched in one row: the thread, the first
        launch, the last one less one, the row. `outside`: the first three, where it launched in no scope."""
        self._look()
        rows, stretches, threads = self._rows[:], self._stretches[:], self._threads[:]
        now, launches, of_threads = _now(), self._launches(), self._of_threads()
        number = {id(row): at for at, row in enumerate(rows)}
        parent = [-1 if row.parent is None else number[id(row.parent)] for row in rows]
        depth: list[int] = []
        for above in parent:  # which comes first
            depth.append(0 if above < 0 else depth[above] + 1)
        stretches += [(each, each.row, each.since, launches) for each in threads if each.row is not None]
        return {
            "scope": [row.name for row in rows],
            "source": [row.source for row in rows],
            "thread": [row.thread.number for row in rows],
            "start_unix_ns": [row.start_unix_ns for row in rows],
            "end_unix_ns": [row.end_unix_ns or now for row in rows],
            "depth": depth,
            "parent": parent,
            "metrics": [row.metrics for row in rows],
            "inside": [
                [thread.number, begin, end, number[id(row)]]
                for thread, row, begin, end in stretches
                if begin < end and (not of_threads or thread.number in of_threads)
            ],
            "outside": [[number, *each] for number, of in self._outside.items() for each in of],
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
    One that is open when recording begins, or goes on, begins there. Otherwise it only notes that it is open,
    and costs next to nothing. Scopes nest, in each thread and each asyncio task by itself; a task begins in
    the scope that created it. For scopes inside a kernel there is `profscope.language.scope`.

    name: text. metrics: numbers, each a float64 column of `prof.host`. Where a session records, beginning it
    raises OptionError for a name that is no text, a metric that is no number, and one that is called like a
    column of the table; decorating a generator does, too, since that runs after its call.
    """

    __slots__ = ("_added", "_entered", "_metrics", "_name")

    def __init__(self, name: str, /, **metrics: float) -> None:
        self._name = name
        self._metrics = metrics
        self._added = _NOTHING  # what `add` said
        self._entered: list[Entered] = _NOWHERE  # where it is open; it may be entered again

    def __enter__(self) -> scope:
        entered = Entered(self)
        if _RECORDING:
            scopes = _RECORDING[-1]
            self.begin(scopes, scopes.thread(), entered)
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
        entered = standing(INNERMOST.get())
        while entered is not None and entered.scope is not self:
            entered = standing(entered.above)
        return entered or (self._entered[-1] if self._entered else None)

    def begin(self, scopes: HostScopes, thread: _Thread, entered: Entered) -> None:
        """It is recorded from now on. Raises OptionError."""
        if not isinstance(self._name, str) or not _is_unicode(self._name):
            raise OptionError(_no_text(self._name))
        metrics = _checked({**self._metrics, **self._added})
        row = scopes.begin_on(thread, self._name, _SCOPE, entered)
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
