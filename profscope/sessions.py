"""The session that a user opens around launches."""

from __future__ import annotations

import atexit
import contextlib
import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec

from profscope.emulator import say_how
from profscope.errors import DistrustWarning, EmptyProfileWarning, ProfscopeError, SessionError
from profscope.installed import require
from profscope.options import Options
from profscope.profiles import Profile, Questions, describe
from profscope.progress import working
from profscope.recording.open_sessions import OPEN
from profscope.schema import Tables
from profscope.threads import worker_pool

if TYPE_CHECKING:
    import pandas as pd

    from profscope.dispatch.running import Running
    from profscope.store.spool import Spooler

__all__ = ["Session", "leave_inherited", "session", "uninterrupted"]

P = ParamSpec("P")


class Session(Questions):
    """A running or finished session, with all questions of a `Profile`.

    The tables may be read inside the block as well: they then cover the launches so far, and reading them
    waits for those launches. A copy of a closed session, also a pickled one, is its `Profile`.
    """

    _told: Mapping[str, Any] = MappingProxyType({})  # of what is recorded: entries of the metadata

    def __init__(self, options: Options) -> None:
        require("triton", "profscope.session()")
        self.options = options
        self._stack = contextlib.ExitStack()
        self._running: Running | None = None
        self._profile: tuple[Any, Profile] | None = None  # with what was known when it was made
        self._ended: tuple[dict[str, Any], list[str]] | None = None  # what was known then
        self._lock = threading.Lock()
        self._open = False
        self._judged = False

    def __repr__(self) -> str:
        if self._open:  # to count what has come since would mean to wait for the device
            last = None if self._profile is None else self._profile[1].tables
            so_far = "not read yet" if last is None else f"{describe(last)} when last read"
            return f"<Session: open, {so_far}>"
        try:
            return f"<Session: closed, {describe(self.tables)}>"
        except ProfscopeError as error:
            return f"<Session: {error}>"

    def _repr_html_(self) -> str | None:
        """As of a profile; None, so that a notebook takes `repr`, while it is open, not begun or lost."""
        if self._open or self._running is None or self._is_forked:
            return None
        return super()._repr_html_()

    def __enter__(self) -> Session:
        if self._running is not None:
            raise SessionError("this session has run already; open a new one with profscope.session()")
        leave_inherited()
        # Triton and torch are imported here and not above, so that traces open where neither is installed.
        from profscope.dispatch.running import running

        try:
            with uninterrupted():
                parts = running(self.options, self._told)
                self._running = self._stack.enter_context(parts)
                if self._running.watcher is not None:
                    self._running.watcher.interrupted = self._leave_hang
                OPEN.append(self)
                self._stack.callback(OPEN.remove, self)
                atexit.register(self._at_exit)
                self._open = True
            return self  # the last line that Ctrl-C can reach before the body of the with statement
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # On one line, so that `try` covers the first instruction: an interrupt there must not leave it open.
        try: self._leave(error)  # fmt: skip  # noqa: E701
        except KeyboardInterrupt:
            self._leave(error)
            raise

    def _leave(self, error: BaseException | None) -> None:
        with uninterrupted():
            self._close(error)

    def _close(self, error: BaseException | None) -> None:
        if self._running is None or not self._open:
            return  # left already, as at the interpreter's end
        atexit.unregister(self._at_exit)
        self._open = False
        self._stack.close()
        if error is not None and self._running.metadata["backend"] == "emulator":
            say_how(error)
        recorder = self._running.recorder
        if recorder.forked:
            return
        recorder.close()
        if recorder.spooler is not None:
            recorder.spooler.write()  # first of all: what is stated of the launches may fail
        with contextlib.suppress(RuntimeError):  # a faulted device: whoever reads the profile is told
            metadata, notes = self._running.so_far()
            self._ended = metadata | self._running.host_clock(), notes
        if recorder.spooler is not None:
            self._flush(self._running, recorder.spooler, ends=True)
            if recorder.spooler.error and error is None:
                raise SessionError(recorder.spooler.error)
        is_watched = self.options.hang_s is not None  # which is empty if all is well
        if error is None and not is_watched and not recorder.any_written():
            self._warn()

    def _leave_hang(self) -> None:
        """Ctrl-C has come while a launch hangs, for which this process may wait for ever: leave a trace."""
        path = f"profscope-hang-{os.getpid()}.json"
        self.save(path)
        if sys.stderr is not None:
            sys.stderr.write(f"profscope: wrote {path}\n")

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a closed session, also a pickled one, is its Profile. Raises SessionError before that."""
        if self._open:
            raise SessionError("an open session cannot be copied or pickled; use its `profile`, or close it")
        return Profile.of, (self.tables,)

    @property
    def is_open(self) -> bool:
        """Whether it has begun and has not ended; it may be paused."""
        return self._open

    def pause(self) -> None:
        """Let launches run bare until `resume()`, as without a session: they pay nothing and count nowhere.

        Does nothing where it is paused already, and in a forked process. Raises SessionError if the
        session is not open.
        """
        if not self._is_forked:
            with uninterrupted():
                self._when_open("pause()").pause()

    def resume(self) -> None:
        """Record again after `pause()`; does nothing where it is not paused, and in a forked process.

        Raises SessionError if the session is not open, or another one has begun meanwhile.
        """
        if not self._is_forked:
            with uninterrupted():
                self._when_open("resume()").resume()

    @property
    def _is_forked(self) -> bool:
        return self._running is not None and self._running.recorder.forked

    def _when_open(self, asked: str) -> Running:
        parts = self._parts()
        if not self._open:
            raise SessionError(f"{asked}: the session has ended")
        return parts

    def _warn(self) -> None:
        """Say why the profile is empty, if kernels were launched."""
        from profscope.analysis.texts import UNSEEN

        notes = self.metadata["notes"]
        if UNSEEN not in notes:
            said = "; ".join(notes)
            warnings.warn(f"no launch was recorded: {said}", EmptyProfileWarning, stacklevel=5)

    def _at_exit(self) -> None:
        """The interpreter ends while the session is open: close it, so that nothing drained is lost."""
        self.__exit__(None, None, None)

    def _parts(self) -> Running:
        if self._running is None:
            raise SessionError("the session has not started; use it in a with statement")
        if self._is_forked:
            raise SessionError("this process is a fork: the records are in its parent")
        return self._running

    def flush(self) -> None:
        """Wait for the launches so far and bring their records to the host, with `spool=` into its file.

        Flushed records survive the death of the process. Raises SessionError if the session has not started,
        or its file cannot be written.
        """
        spooler = self._drain(self._parts())
        if spooler is not None and spooler.error:
            raise SessionError(spooler.error)

    def _drain(self, parts: Running) -> Spooler | None:
        """As flush(); what has gone wrong is in the spooler."""
        spooler = parts.recorder.spooler
        if self._open:  # leaving the session has done it
            parts.recorder.drain()
            if spooler is not None:
                self._flush(parts, spooler)
        return spooler

    def _flush(self, parts: Running, spooler: Spooler, *, ends: bool = False) -> None:
        metadata, notes = self._known(parts)
        told = self._with_clocks(parts, metadata)
        spooler.flush(told, notes, parts.evidence(), parts.scopes, ends=ends)

    def _known(self, parts: Running) -> tuple[dict[str, Any], list[str]]:
        """Metadata and notes; those of a session that has ended stay as they were then."""
        return self._ended or parts.so_far()

    def _with_clocks(self, parts: Running, metadata: dict[str, Any]) -> dict[str, Any]:
        """And with what else is not asked for each time that a table is read."""
        return metadata | ({} if self._ended else parts.host_clock()) | parts.lasting()

    @property
    def watcher(self) -> Any:
        """With `hang_s=` what watches launches, None without."""
        return None if self._running is None else self._running.watcher

    @property
    def spool(self) -> Path | None:
        """The file that launches are written to, None without `spool=` or before the session began."""
        spooler = None if self._running is None else self._running.recorder.spooler
        return None if spooler is None else spooler.path

    @property
    def profile(self) -> Profile:
        """The launches so far as a Profile, of plain tables. Raises SessionError before the session began."""
        from profscope.around.host_tables import with_events, with_host
        from profscope.decoding.assemble import assemble
        from profscope.evidence.tables import with_evidence

        parts = self._parts()
        with self._lock:
            metadata, notes = self._known(parts)
            state = len(parts.recorder.log), metadata, notes, parts.around_changes
            if self._profile is None or self._profile[0] != state:
                self._drain(parts)
                raw, lost = parts.recorder.fetch()
                with working(f"decoding {len(raw):,} launches"), worker_pool(1) as pool:
                    measured = pool.submit(parts.evidence)
                    tables = assemble(raw, self._with_clocks(parts, metadata), [*notes, *lost])
                    tables = with_host(tables, parts.scopes.columns())
                    seen = None if parts.kineto is None else parts.kineto.columns()
                    if seen is not None:
                        tables = with_events(tables, seen)
                    evidence = measured.result()
                    if evidence is not None:
                        tables = with_evidence(tables, evidence)
                self._profile = state, Profile.of(tables)
            profile = self._profile[1]
            judges = not self._open and not self._judged
            self._judged |= judges
        if judges:
            self._doubt(profile.tables)
        return profile

    def _doubt(self, tables: Tables) -> None:
        """Say once, when the tables of a session that has ended are first read, that they are not to be
        trusted: to know it when it ends would mean to decode them there and then."""
        from profscope.analysis.verdict import DISTRUST, is_open_to_doubt, verdict

        if is_open_to_doubt(tables) and (judged := verdict(tables)).label == DISTRUST:
            warnings.warn(f"{judged.headline} (prof.verdict says why)", DistrustWarning, stacklevel=4)

    @property
    def tables(self) -> Tables:
        """The launches so far, for what `Questions` ask."""
        return self.profile.tables

    @property
    def df(self) -> pd.DataFrame:
        """One row per span; see `Profile`."""
        return self.profile.df

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch; see `Profile`."""
        return self.profile.launches

    @property
    def ctas(self) -> pd.DataFrame:
        """One row per CTA: when it began and ended, and on which SM; see `Profile`."""
        return self.profile.ctas

    @property
    def sums(self) -> pd.DataFrame:
        """Empty: a session has all its spans; see `Profile`."""
        return self.profile.sums

    @property
    def samples(self) -> pd.DataFrame:
        """PC samples of observed launches, with stall reasons; see `Profile`."""
        return self.profile.samples

    @property
    def counts(self) -> pd.DataFrame:
        """How often each instruction ran, in bare launches or on the emulator; see `Profile`."""
        return self.profile.counts

    @property
    def counters(self) -> pd.DataFrame:
        """Hardware counters of bare launches; see `Profile`."""
        return self.profile.counters

    @property
    def experiments(self) -> pd.DataFrame:
        """The cost of each line, measured by leaving it out; see `Profile`."""
        return self.profile.experiments

    @property
    def host(self) -> pd.DataFrame:
        """One row per scope of the host's code; see `Profile`."""
        return self.profile.host

    @property
    def events(self) -> pd.DataFrame:
        """With `events=True` one row per kernel, copy and operator of the whole program; see `Profile`."""
        return self.profile.events

    @property
    def metadata(self) -> dict[str, Any]:
        """Backend, device, versions, options, and notes on losses; see `Profile`."""
        return self.profile.metadata


def leave_inherited() -> None:
    """In a forked process end the sessions that it has from its parent: they record nothing here, and what
    they have put in the way of launches would stand before a session of its own."""
    for each in [*OPEN]:
        if isinstance(each, Session) and each._is_forked:
            each._close(None)


_DOC = """Profile every Triton kernel launched inside the `with` block, from the inside.

    with profscope.session() as prof:
        kernel[grid](...)
    prof.df

{options}

Raises OptionError for a bad option at once. Entering raises SessionError where another session is active,
the backend is not there, a sanitizer of Triton's is on that cannot stand beside a session, or the spool
cannot be created.
"""


def _opening(options: Callable[P, Options]) -> Callable[P, Session]:
    """A function that takes what `options` takes, so that an option is declared in one place."""

    def session(*args: P.args, **kwargs: P.kwargs) -> Session:
        Options.check_names(args, kwargs)
        return Session(options(*args, **kwargs))

    session.__doc__ = _DOC.format(options=Options.document())
    session.__signature__ = inspect.signature(options).replace(return_annotation="Session")  # type: ignore[attr-defined]
    return session


session = _opening(Options)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C in the body of the with statement raises at its end; pressed twice, it raises at once.

    Python raises KeyboardInterrupt in the main thread alone, so other threads have nothing to wait with.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # ignored, deadly, or handled by a library in C: nothing raises
        return
    waiting = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        waiting = not waiting
        if not waiting:
            handler(number, frame)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, None)
