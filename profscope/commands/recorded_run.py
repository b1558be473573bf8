"""A program's recording: it begins at the first launch and is written whatever way the program ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from profscope.around.job import ranks
from profscope.commands.output import Output
from profscope.commands.program import OwnImports, Program, before_exec, without_ours
from profscope.compat.first_launch import FirstLaunch
from profscope.compat.torch_parts import CppKernels, cpp_kernels, launched_from_cpp
from profscope.emulator import say_how
from profscope.errors import ProfscopeError
from profscope.options import Options
from profscope.recording.open_sessions import OPEN
from profscope.threads import daemon
from profscope.viewer.flags import in_flags

__all__ = ["RecordedRun"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)  # that end a process that does not handle them
_WRITING_S: Final = 60.0  # a signal waits no longer for the trace to be written
# What has been recorded is written again and again while the program runs.
_FIRST_S: Final = 1.0
_LONGER: Final = 1.2  # each pause than the one before,
_LONGEST_S: Final = 10.0  # up to that
_HUNG: Final = 6  # exit code
_INTERRUPT_S: Final = 2.0  # that a program has to handle Ctrl-C while a launch hangs
_SHARE: Final = 0.01  # of the time that goes into it at most


class RecordedRun:
    """report: called with the profile and its path, once written; None to show nothing. emulated: whether
    there is no GPU. hang_exit: end the program when a launch hangs.

    The program keeps its exit code, output and traceback. If it ends with 0 and the recording cannot be
    written, the exit code is 1.
    """

    def __init__(
        self,
        program: Program,
        options: Options,
        output: Output,
        *,
        rank: int | None,
        report: Callable[[Any, Output], None] | None,
        emulated: bool = False,
        hang_exit: bool = False,
    ) -> None:
        self._program = program
        self._imports = OwnImports()
        self._options = options
        self._output = output
        self._rank = rank
        self._emulated = emulated
        self._report = report
        self._hang_exit = hang_exit
        self._pid = os.getpid()
        self._session: Any = None
        self._first_launch = FirstLaunch(self._open)
        self._flushing: threading.Thread | None = None
        self._closing = threading.Event()
        self._finished = False
        self._written_by = 0.0  # while it ends: until when signals wait, of time.monotonic()
        self._failed = False
        self._failures: list[str] = []
        self._code: int | None = 0
        self._cut_short = ""
        self._interrupted = False
        self._notes: list[str] = []
        self._exit_at_once = os._exit

    def run(self) -> None:
        """Run the program; ends as it ends."""
        atexit.register(self._at_exit)  # before any of the program's, so that it is called after these
        os._exit = self._exiting  # type: ignore[assignment]
        before_exec(self._replaced)
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, self._signalled)
        OPEN.append(self)
        self._first_launch.await_it()
        try:
            self._program.run(self._imports)
        except SystemExit as stop:
            self._code = 0 if stop.code is None else stop.code if isinstance(stop.code, int) else 1
            raise
        except BaseException as error:
            self._interrupted = isinstance(error, KeyboardInterrupt)
            self._code = _killed_by(signal.SIGINT) if self._interrupted else 1
            self._cut_short = f"{type(error).__name__} was raised"
            self._show(error)
            raise

    def _show(self, error: BaseException) -> None:
        """Print the traceback as the program's own, without frames of ours, in place of the interpreter."""
        if self._emulated:
            say_how(error)
        without_ours(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.excepthook = lambda *_: None

    def pause(self) -> None:
        """As a session's; before the first launch, too."""
        if os.getpid() != self._pid:
            return
        if self._session is None:
            self._first_launch.stop()
        elif self._session.is_open:
            self._session.pause()

    def resume(self) -> None:
        """As a session's."""
        if os.getpid() != self._pid:
            return
        if self._session is None:
            self._first_launch.await_it()
        elif self._session.is_open:
            self._session.resume()

    # The session

    def _open(self) -> Any:
        """The program is about to launch its first kernel. See `FirstLaunch`."""
        try:
            with self._imports.apart():
                from profscope.commands.run_session import RunSession
                from profscope.dispatch.running import is_recording

                if is_recording():
                    self._notes.append(
                        "the program had opened its own session, which records instead of this run"
                    )
                    return None
                self._session = RunSession(self._options, self._gave_way, program=self._about()).__enter__()
        except Exception as error:  # noqa: BLE001  the program's launch goes on
            self._fail(f"nothing is recorded: {_told(error)}")
            return None
        self._watch_hangs(self._session.watcher)
        self._flushing = daemon("flush", self._flush, self._session)
        return self._session.entered

    def _watch_hangs(self, watcher: Any) -> None:
        if watcher is None:
            return
        watcher.reported = self._hangs if self._hang_exit else self._save_so_far
        watcher.interrupted = self._interrupted_in_hang

    def _save_so_far(self) -> None:
        """While a launch hangs, in the thread that has found it."""
        try:
            with self._imports.apart():
                self._marked(self._session.profile).save(self._output.path)
            self._say(f"wrote {self._output.name} so far")
        except Exception as error:  # noqa: BLE001  the program goes on
            self._fail(_told(error))

    def _hangs(self) -> None:
        self._code, self._cut_short = _HUNG, "a launch hung, and --hang-exit ended it"
        self._finish()
        self._exit_at_once(_HUNG)

    def _interrupted_in_hang(self) -> None:
        """Ctrl-C: if the program waits for the launch, it never learns of it."""
        self._save_so_far()
        time.sleep(_INTERRUPT_S)
        if not (self._finished or self._interrupted):
            self._code, self._cut_short = _killed_by(signal.SIGINT), "interrupted while a launch hung"
            self._finish()
            self._exit_at_once(_killed_by(signal.SIGINT))  # only the main thread may die of a signal

    def _gave_way(self, why: str) -> None:
        """The program records by other means: this run's session ends, and what it has recorded stays."""
        self._notes.append(why)
        self._close()

    def _close(self) -> None:
        self._closing.set()
        if self._flushing not in (None, threading.current_thread()):
            self._flushing.join()  # it may be writing
        try:
            self._session.__exit__(None, None, None)
        except ProfscopeError as error:  # the disk is full, say: what was written before is there
            self._fail(str(error))

    def _flush(self, session: Any) -> None:
        """In a thread, until the session is about to end, or nothing can be written any more."""
        from profscope.device.cuda_driver import allow_capture

        allow_capture()
        pause_s = _FIRST_S
        while not self._closing.wait(pause_s):
            begin_s = time.perf_counter()
            try:
                with self._imports.apart():
                    session.flush_news()
            except ProfscopeError as error:
                self._fail(str(error))
                return
            took_s = time.perf_counter() - begin_s
            pause_s = max(took_s / _SHARE, min(_LONGEST_S, pause_s * _LONGER))

    # The end

    def _at_exit(self) -> None:
        self._finish()
        if os.getpid() != self._pid:
            return
        if self._interrupted:  # as Python ends after an interrupt that nobody caught
            _last_calls()
            _die_of(signal.SIGINT)
        if self._failed and self._code == 0:
            _last_calls()
            self._exit_at_once(1)

    def _exiting(self, code: int) -> None:
        """In place of os._exit."""
        try:
            if os.getpid() == self._pid:
                self._code, self._cut_short = code, f"os._exit({code}) was called"
                self._finish()
        finally:
            self._exit_at_once(code or int(self._failed))

    def _replaced(self, call: str, command: str) -> None:
        """Another program takes this one's place."""
        if self._finished:
            return
        says = f"{call} replaces the program; `{command}` runs bare, unless started with `profscope run`"
        self._code, self._cut_short = None, f"{call} was called"
        is_said = self._session is None and not self._failed
        if is_said:
            self._notes.append(says)
        self._finish()
        if not is_said:
            self._say(says)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        """In place of dying at once. Another thread writes: this one may hold any lock just now.

        `timeout` sends its signal twice, and other managers of jobs do: the second one waits for the trace,
        too, as one does that comes when the program has ended by itself.
        """
        if os.getpid() == self._pid and time.monotonic() < self._written_by:
            return
        name = signal.Signals(number).name
        if os.getpid() == self._pid and not self._finished:
            self._written_by = time.monotonic() + _WRITING_S
            self._code, self._cut_short = _killed_by(number), f"{name} ended it"
            writing = daemon("last", self._finish)
            if writing is not None:  # or the interpreter ends already
                writing.join(_WRITING_S)
        _die_of(number)

    def _finish(self) -> None:
        """Write what was recorded; once, and not in a forked process."""
        if os.getpid() != self._pid or self._finished:
            return
        self._written_by = time.monotonic() + _WRITING_S
        self._finished = True
        self._first_launch.stop()
        try:
            with self._imports.apart():
                self._write()
        except Exception as error:  # noqa: BLE001  such as from limits that the program has set
            self._fail(f"{_told(error)}{self._where_it_is()}")
        except KeyboardInterrupt:
            self._fail(f"interrupted while writing{self._where_it_is()}")
        finally:
            self._written_by = 0.0

    def _where_it_is(self) -> str:
        """Where what was recorded is when the trace is not there."""
        name = f"{self._output.name}.partial"
        return (
            f"; what was recorded is in {name}" if self._output.folder.exists() else f", and {name} is gone"
        )

    def _write(self) -> None:
        if self._session is None:
            unseen = CppKernels().why_unseen(cpp_kernels())
            why = [*self._notes] or [
                "no Triton kernel was launched",
                *filter(None, (unseen, launched_from_cpp())),
            ]
            if not self._failed:
                self._say(f"{'; '.join(why)}; nothing is written")
            self._output.release()
            return
        if self._session.is_open:
            self._close()
        profile = self._marked(self._session.profile)
        recorded = any(len(each) for each in (profile.launches, profile.events, profile.host))
        reported = bool(profile.metadata.get("hang_reports"))
        if not (recorded or reported or self._failed):
            unhung = [] if self._options.hang_s is None else ["no launch was reported to hang"]
            self._say(f"nothing is written: {'; '.join([*unhung, *profile.metadata['notes']])}")
            self._output.release()
            return
        self._output.check()
        profile.save(self._output.path)
        count = ranks(os.environ)
        if self._rank == 0 and count is not None:
            for note in self._output.remove_ranks_from(count):
                self._say(note)
        self._output.release()
        if self._report is not None:
            with contextlib.suppress(OSError):  # nobody reads it any more
                self._report(profile, self._output)

    def _marked(self, profile: Any) -> Any:
        """The profile with what is known of the program, and first among the notes if it was cut short."""
        about, notes = self._about(), list(self._notes)
        if self._code is not None:
            about["exit_code"] = self._code
        if self._cut_short:
            about["cut_short"] = self._cut_short
            notes.insert(0, f"partial: the program was cut short: {self._cut_short}")
        notes += profile.metadata.get("notes", [])
        return replace(profile, metadata=profile.metadata | {"program": about, "notes": notes})

    def _about(self) -> dict[str, Any]:
        return {"command": self._program.words} | ({} if self._rank is None else {"rank": self._rank})

    def _fail(self, why: str) -> None:
        self._failed = True
        if why not in self._failures:  # what fails while the program runs may fail again at its end
            self._failures.append(why)
            self._say(why)

    def _say(self, text: str) -> None:
        if sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                sys.stderr.write(f"profscope run: {' '.join(in_flags(text).split())}\n")
                sys.stderr.flush()


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, ProfscopeError) else f"{type(error).__name__}: {error}"


def _killed_by(number: int) -> int:
    """The exit code that a shell shows of a process that died of a signal."""
    return 128 + number


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _last_calls() -> None:
    """What the interpreter would do after the run's own last call, which ends the process."""
    if "logging" in sys.modules:
        sys.modules["logging"].shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
