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
_OPEN: Final[dict[int, list[scope]]] = {}  # by thread, those entered and not left; also where nothing records
_NOTHING: Final[dict[str, Any]] = {}  # stays empty, as this does
_NOWHERE: Final[list[Any]] = []
_now: Final = time.time_ns
_thread_id: Final = threading.get_ident


class _Thread:
    """number: the system's. open: its scopes that have not ended, the innermost last."""

    def __init__(self, number: int) -> None:
        self.open: list[Row] = []
        self.number = number


class Row:
    """One scope. first_launch, end_launch: the session's launches so far when it began and when it ended;
    end_unix_ns: 0 while it is open."""

    __slots__ = (
        "end_launch", "end_unix_ns", "first_launch", "metrics", "name", "parent", "source",
        "start_unix_ns", "thread",
    )  # fmt: skip

    def __init__(
        self, name: str, source: str, thread: _Thread, parent: Row | None, first_launch: int
    ) -> None:
        self.name, self.source, self.thread, self.parent = name, source, thread, parent
        self.first_launch = self.end_launch = first_launch
        self.metrics: dict[str, float] = {}
        self.start_unix_ns, self.end_unix_ns = _now(), 0


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

    def _adopt(self) -> None:
        """Scopes that are open begin, those of other threads, too."""
        numbers = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, entered in list(_OPEN.items()):
            number = numbers.get(ident)
            if number is None or not entered:  # the first: a thread that is gone
                continue
            known = next((thread for thread in self._threads if thread.number == number), None)
            thread = known or self._adopted.setdefault(ident, _Thread(number))
            if known is None:
                self._threads.append(thread)
            for each in entered[:]:
                with contextlib.suppress(OptionError):  # where nothing recorded, nobody looked at it
                    each.begin(self, thread)

    def thread(self) -> _Thread:
        """The calling thread."""
        thread: _Thread | None = getattr(self._local, "thread", None)
        if thread is None:
            thread = self._adopted.pop(_thread_id(), None)
            if thread is None:
                thread = _Thread(threading.get_native_id())
                self._threads.append(thread)
            self._local.thread = thread
        return thread

    def begin(self, name: str, source: str, *, nested: bool = True) -> Row | None:
        """As `begin_on`, of the calling thread's."""
        return self.begin_on(self.thread(), name, source, nested=nested)

    def begin_on(self, thread: _Thread, name: str, source: str, *, nested: bool = True) -> Row | None:
        """A scope of the thread's begins; None where there have been too many. nested: those that begin
        before it ends lie in it."""
        if len(self._rows) >= _MOST:
            self._left_out += 1
            return None
        self._look()
        row = Row(name, source, thread, thread.open[-1] if thread.open else None, self._launches())
        self._rows.append(row)
        self.changes += 1
        if nested:
            thread.open.append(row)
        return row

    def end(self, row: Row) -> None:
        """It ends now, if it has not. One that began in it and goes on does not lie in it."""
        if not row.end_unix_ns:
            self._look()
            row.end_unix_ns = _now()
            row.end_launch = self._launches()
            self.changes += 1
            open_rows = row.thread.open
            if row in open_rows:  # else it was not nested
                open_rows.remove(row)
                for other in open_rows:
                    if other.parent is row:
                        other.parent = row.parent

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
            inside = {thread.number for thread in threads if thread.open}
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
        """The calling thread's innermost scope of this source ends, where one is open."""
        thread = getattr(self._local, "thread", None)
        row = next((row for row in reversed(thread.open) if row.source == source), None) if thread else None
        if row is not None:
            self.end(row)

    def columns(self) -> dict[str, list[Any]]:
        """JSON-able: HOST_NAMES but rank, in order of beginning; what is open ends now. Also `first_launch`
        and `end_launch`, the same where no launch can be in it, and `metrics`, a dict for each row. And
        `outside`: thread, first and last launch, less one, of stretches in which it launched in no scope."""
        self._look()
        rows = self._rows[:]
        now, launches, threads = _now(), self._launches(), self._of_threads()
        number = {id(row): at for at, row in enumerate(rows)}
        parent = [-1 if row.parent is None else number[id(row.parent)] for row in rows]
        depth: list[int] = []
        for above in parent:  # which comes first
            depth.append(0 if above < 0 else depth[above] + 1)
        return {
            "scope": [row.name for row in rows],
            "source": [row.source for row in rows],
            "thread": [row.thread.number for row in rows],
            "start_unix_ns": [row.start_unix_ns for row in rows],
            "end_unix_ns": [row.end_unix_ns or now for row in rows],
            "depth": depth,
            "parent": parent,
            "first_launch": [row.first_launch for row in rows],
            "end_launch": [
                row.first_launch
                if threads and row.thread.number not in threads
                else (row.end_launch if row.end_unix_ns else launches)
                for row in rows
            ],
            "metrics": [row.metrics for row in rows],
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
    and costs next to nothing. Scopes nest, on each thread by itself. For scopes
    inside a kernel there is `profscope.language.scope`.

    name: text. metrics: numbers, each a float64 column of `prof.host`. Where a session records, beginning it
    raises OptionError for a name that is no text, a metric that is no number, and one that is called like a
    column of the table. What Python calls between two `await`s may run in other scopes: there it takes in
    whatever its thread does meanwhile.
    """

    __slots__ = ("_added", "_begun", "_metrics", "_name")

    def __init__(self, name: str, /, **metrics: float) -> None:
        self._name = name
        self._metrics = metrics
        self._added = _NOTHING  # what `add` said
        self._begun: list[tuple[HostScopes, Row]] = _NOWHERE  # where it is open; it may be entered again

    def __enter__(self) -> scope:
        if _RECORDING:
            scopes = _RECORDING[-1]
            self.begin(scopes, scopes.thread())
        try:
            _OPEN[_thread_id()].append(self)
        except KeyError:
            _OPEN[_thread_id()] = [self]
        return self

    def __exit__(self, *error: object) -> None:
        entered = _OPEN.get(_thread_id())
        if entered and entered[-1] is self:
            entered.pop()
        else:
            entered = self._leave()
        if self._begun or self._added:
            again = self in entered
            for scopes, row in self._begun[-1:] if again else self._begun:
                scopes.end(row)  # which has ended where recording has
            self._begun = self._begun[:-1] if again else _NOWHERE
            self._added = self._added if again else _NOTHING

    def _leave(self) -> list[scope]:
        """As leaving the innermost one, where another is, or that of another thread, as of a generator's.
        Returns what is open there."""
        for entered in (_OPEN.get(_thread_id(), []), *list(_OPEN.values())):
            if self in entered:
                del entered[len(entered) - 1 - entered[::-1].index(self)]
                return entered
        return []

    def begin(self, scopes: HostScopes, thread: _Thread) -> None:
        """It is recorded from now on. Raises OptionError."""
        if not isinstance(self._name, str) or not _is_unicode(self._name):
            raise OptionError(_no_text(self._name))
        metrics = _checked({**self._metrics, **self._added})
        row = scopes.begin_on(thread, self._name, "scope")
        if row is not None:
            row.metrics.update(metrics)
            self._begun = [*self._begun, (scopes, row)]

    def add(self, **metrics: float) -> None:
        """Further metrics, or other values of those it has. Raises OptionError as entering does; does
        nothing where it is not recorded."""
        if self._begun:
            self._begun[-1][1].metrics.update(_checked(metrics))
        self._added = {**self._added, **metrics}

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, each call of which is this scope."""

        @functools.wraps(function)
        def scoped(*args: P.args, **kwargs: P.kwargs) -> T:
            with scope(self._name, **self._metrics):
                return function(*args, **kwargs)

        return scoped


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
