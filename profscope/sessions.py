"""The session: what a kernel author opens around launches."""

from __future__ import annotations

import atexit
import contextlib
import platform
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from profscope.errors import ProfscopeError, SessionError
from profscope.installed import require
from profscope.options import Options
from profscope.profiles import Profile, Questions, held
from profscope.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from profscope.launching.bare import BareLaunches
    from profscope.launching.inductor import InductorLaunches
    from profscope.launching.sampling import Sampling
    from profscope.recording.collect import Collector
    from profscope.recording.spooler import Spooler

__all__ = ["Session", "session"]


def session(
    *,
    kernels: str = "",
    instrument: str | Sequence[str] = "default",
    buffer: int | None = None,
    ctas: int | str | Sequence[int] = 1,
    sms: int | Sequence[int] | None = None,
    warps: int | Sequence[int] = 1,
    memory: int = 256,
    backend: str = "auto",
    measure: str = "issue",
    every: int = 1,
    trials: bool = False,
    spool: str | Path | None = None,
    limit_s: float | None = None,
) -> Session:
    """Profile every Triton kernel launched inside the `with` block, from the inside.

        with profscope.session() as prof:
            kernel[grid](...)
        prof.df

    kernels: regular expression; only kernels whose name it matches somewhere are instrumented.
    instrument: "light" (kernel, loops and the scopes of `profscope.language`), "default", "heavy" (also every
    iteration, memory op, wait, MMA, barrier, reduction, layout conversion), or a list of passes with options
    ("op-spans{classes=load;wait}").
    buffer: records that one warp's rings hold at most; a loop with more keeps its newest iterations, and the
    profile says how many it dropped. By default the rings fit the kernel: its first launch shows what it
    needs, and the second waits for that once. ctas: record every so-manieth CTA (rounded up to a power of
    two), or those of a list of linear ids, or "first wave". sms: record what runs on this SM, or on a list of
    them. warps: record every so-manieth warp, or those of a list. memory: MiB of device memory for profile
    buffers; a grid that needs more is recorded in part, at regular distances, and the profile says so.
    backend: "auto", "gpu" or "emulator".
    measure: where spans on loads, atomics and shared-memory reads end: at their "issue", or, with "latency",
    when their data has arrived. Loads then no longer overlap: that measures memory, not the kernel.
    every: record one launch of a kernel in so many, the first one first; the others run the bare binary, so
    that a session can stay open around a training job. trials: record one launch of each configuration that
    an autotuner tries, too; what it times is the bare binary in either case.
    spool: a folder; launches are written to a file in it as they drain, and leave memory. The file can be
    loaded with `profscope.load` while it grows, and after its process was killed. limit_s: seconds after
    which nothing is recorded any more; launches run on.

    Raises OptionError for a bad option at once. Entering raises SessionError where another session is active,
    the backend is not there, a sanitizer of Triton's is on that cannot stand beside a session, or the spool
    cannot be created.
    """
    return Session(
        Options(
            kernels=kernels,
            instrument=instrument,
            buffer=buffer,
            backend=backend,
            ctas=ctas,
            sms=sms,
            warps=warps,
            memory=memory,
            measure=measure,
            every=every,
            trials=trials,
            spool=spool,
            limit_s=limit_s,
        )
    )


class Session(Questions):
    """A running or finished session: what a `Profile` can be asked it can be asked, too.

    The tables may be read inside the block as well: they then cover the launches so far, and reading them
    waits for those launches.
    """

    def __init__(self, options: Options) -> None:
        require("triton", "profscope.session()")
        self.options = options
        self._stack = contextlib.ExitStack()
        self._collector: Collector | None = None
        self._bare: BareLaunches | None = None
        self._sampling: Sampling | None = None
        self._inductor: InductorLaunches | None = None
        self._metadata: dict[str, Any] = {}
        self._profile: tuple[tuple[int, int], Profile] | None = None  # by launches recorded and seen
        self._lock = threading.Lock()
        self._open = False

    def __repr__(self) -> str:
        if self._open:  # to count what has come since would mean to wait for the device
            so_far = "not read yet" if self._profile is None else f"{held(self._profile[1])} when last read"
            return f"<Session: open, {so_far}>"
        try:
            return f"<Session: closed, {held(self.profile)}>"
        except ProfscopeError as error:
            return f"<Session: {error}>"

    def __enter__(self) -> Session:
        if self._collector is not None:
            raise SessionError("this session has run already; open a new one with profscope.session()")
        # Triton and torch are imported here and not above, so that traces open where neither is installed.
        from profscope.launching.bare import BareLaunches
        from profscope.launching.hook import CompileHook
        from profscope.launching.inductor import InductorLaunches
        from profscope.launching.sampling import Sampling
        from profscope.recording.backend import select
        from profscope.recording.collect import Collector

        if Collector.active():
            raise SessionError("a profscope session is already active in this process; sessions do not nest")
        with self._stack:
            backend = self._stack.enter_context(select(self.options.backend))
            collector = Collector(self.options, backend)
            self._bare = BareLaunches(self.options, collector.listening, collector.trial)
            hook = CompileHook(self.options)
            self._sampling = Sampling(self.options, self._bare, hook.mode, collector)
            # Taken out last: a launch that another thread has begun may have chosen its binary already.
            self._stack.enter_context(collector.installed())
            self._stack.enter_context(hook.installed())
            self._stack.enter_context(self._bare.installed())
            self._stack.enter_context(self._sampling.installed())
            self._inductor = InductorLaunches(self.options, self._bare, self._sampling)
            self._stack.enter_context(self._inductor.installed())
            self._metadata = self._describe(backend.metadata())
            if self.options.spool is not None:
                collector.spooler = self._new_spooler(Path(self.options.spool), collector)
            self._collector = collector
            self._stack = self._stack.pop_all()
        atexit.register(self._at_exit)
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return  # left already, as at the interpreter's end
        atexit.unregister(self._at_exit)
        self._open = False
        self._stack.close()
        collector = self._collector
        if collector is None or collector.forked:
            return
        collector.close()
        if collector.spooler is not None:
            collector.spooler.close(*self._so_far(collector))
            if collector.spooler.error and error is None:
                raise SessionError(collector.spooler.error)

    def _at_exit(self) -> None:
        """The interpreter ends while the session is open: close it, so that nothing drained is lost."""
        self.__exit__(None, None, None)

    def _new_spooler(self, folder: Path, collector: Collector) -> Spooler:
        from profscope.recording.spooler import Spooler

        try:
            return Spooler(folder, self._metadata, collector.take)
        except OSError as error:
            raise SessionError(f"spool={str(folder)!r} cannot be written to: {error}") from error

    def _so_far(self, collector: Collector) -> tuple[dict[str, Any], list[str]]:
        """Metadata and notes beyond what the launches themselves say."""
        from profscope.decoding.raw import ORDINARY

        waiting = [launch.manifest.kernel for launch in collector.launches if launch.mark == ORDINARY]
        assert self._bare is not None
        assert self._sampling is not None
        assert self._inductor is not None
        sampling, sampled = self._sampling.describe(Counter(waiting) + collector.taken + collector.captured)
        return sampling, [*self._inductor.notes(), *sampled, *self._bare.failures, *collector.notes()]

    def _running(self) -> Collector:
        if self._collector is None:
            raise SessionError("the session has not started; use it in a with statement")
        if self._collector.forked:
            raise SessionError("this process was forked from the session's, where the records are")
        return self._collector

    def flush(self) -> None:
        """Wait for the launches so far and bring their records to the host, with `spool=` into its file.

        What has been flushed survives the death of the process. Raises SessionError where the session has not
        started, or its file cannot be written.
        """
        spooler = self._drain(self._running())
        if spooler is not None and spooler.error:
            raise SessionError(spooler.error)

    def _drain(self, collector: Collector) -> Spooler | None:
        """As flush(); what has gone wrong is in the spooler."""
        if self._open:  # leaving the session has done it
            collector.drain()
            if collector.spooler is not None:
                collector.spooler.flush(*self._so_far(collector))
        return collector.spooler

    @property
    def spool(self) -> Path | None:
        """The file that launches are written to, None without `spool=` or before the session began."""
        spooler = None if self._collector is None else self._collector.spooler
        return None if spooler is None else spooler.path

    def _describe(self, backend: dict[str, Any]) -> dict[str, Any]:
        import torch
        import triton

        options = self.options
        return {
            "tool": "profscope",
            "schema": 1,
            "profscope": __version__,
            **backend,
            "triton": triton.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "options": {
                "kernels": options.kernels,
                "instrument": _plain(options.instrument),
                "buffer": options.buffer,
                "ctas": _plain(options.ctas),
                "sms": _plain(options.sms),
                "warps": _plain(options.warps),
                "memory": options.memory,
                "backend": options.backend,
                "measure": options.measure,
                "every": options.every,
                "trials": options.trials,
                "limit_s": options.limit_s,
            },
        }

    @property
    def profile(self) -> Profile:
        """The launches so far as a Profile, of plain tables. Raises SessionError before the session began."""
        from profscope.decoding.assemble import assemble

        collector = self._running()
        assert self._sampling is not None
        with self._lock:
            state = len(collector), self._sampling.launches.total()
            if self._profile is None or self._profile[0] != state:
                metadata, notes = self._so_far(collector)
                spooler = self._drain(collector)
                raw, lost = collector.fetch() if spooler is None else spooler.read()
                profile = Profile.of(assemble(raw, self._metadata | metadata, [*notes, *lost]))
                self._profile = state, profile
            return self._profile[1]

    @property
    def df(self) -> pd.DataFrame:
        """One row per span; see `Profile`."""
        return self.profile.df

    @property
    def launches(self) -> pd.DataFrame:
        """One row per launch; see `Profile`."""
        return self.profile.launches

    @property
    def metadata(self) -> dict[str, Any]:
        """Backend, device, versions, options, and notes on what is missing; see `Profile`."""
        return self.profile.metadata

    @property
    def tables(self) -> Profile:
        """The launches so far, for the questions of `Questions`."""
        return self.profile


def _plain(value: Any) -> Any:
    """An option as JSON has it: sequences but text as lists."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
