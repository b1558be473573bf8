"""A block's launches, watched, and repeated behind it: timed bare, and recorded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from profscope.analysis.comparing.chance import sample_of_launches
from profscope.binaries.spinning import may_wait
from profscope.compat.kernels import capturing_now, watched_binaries, watched_launches
from profscope.compat.triton_parts import JITFunction, driver
from profscope.device.backend import Backend, select
from profscope.errors import DistrustWarning, SessionError
from profscope.experiments.arguments import Arguments, why_not_seen
from profscope.experiments.timing import PairTimer
from profscope.installed import require
from profscope.options import Options
from profscope.profiles import Profile
from profscope.recording.builds import build_of, ptx_of
from profscope.sessions import Session
from profscope.tuning.launches import Launch

__all__ = ["BlockLaunches", "watching"]

_STEP: Final = 20  # launches between two looks at how well their time is known
_MOST: Final = 1000
_LONGEST_S: Final = 10.0  # for the bare launches of one configuration
_OF_BOUND: Final = 0.1  # both sides' noise and the floor have to fit into the bound
_RECORDED: Final = 20  # one recorded, the observed ones (docs/hardware.md), and some more recorded
_CTAS: Final = 64  # on a GPU: baselines are files of a repository


@contextlib.contextmanager
def watching(backend: str) -> Iterator[BlockLaunches]:
    """In the body of a with statement launches are watched, until their profile is asked for."""
    require("triton", "kernel_gate")
    with select(backend) as machine, contextlib.ExitStack() as watched:
        launches = BlockLaunches(machine, watched)
        watched.enter_context(watched_launches(launches.launcher))
        watched.enter_context(watched_binaries(launches.binary))
        yield launches


@dataclass(frozen=True)
class _Seen:
    """A launch. contents: of its arguments' memory before it; compiled: what it ran, with this grid."""

    launch: Launch
    contents: Arguments
    compiled: Any
    grid: list[int]

    @property
    def key(self) -> str:
        """Of its configuration."""
        return build_of(self.compiled).key

    @property
    def why_once(self) -> str:
        """Why it cannot be repeated; "" if it can."""
        if may_wait(ptx_of(self.compiled)):
            return "it may wait for what another kernel writes"
        device = driver.active.get_active_torch_device()
        return why_not_seen(self.compiled.src.signature, self.launch.given, device)


class BlockLaunches:
    """The first launch of each configuration and grid of a block. watched: ends with the block."""

    def __init__(self, machine: Backend, watched: contextlib.ExitStack) -> None:
        self._machine = machine
        self._watched = watched
        self._on_gpu = machine.emulated is None
        self._is_captured = capturing_now() if self._on_gpu else lambda: False
        self._seen: dict[tuple[str, str, tuple[int, ...]], _Seen] = {}
        self._grid: list[int] = []
        self._is_launching = False
        self._has_others = False

    def launcher(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The wrapper around `kernel[grid](...)`."""

        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            plain = partial(original, kernel, *args, **kwargs)
            own = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
            launch = Launch(kernel, kwargs["grid"], args, own)
            if self._is_launching or kwargs.get("warmup") or not isinstance(launch.function, JITFunction):
                return plain()
            if self._is_captured():
                raise SessionError("kernel_gate: a CUDA graph is captured; launch its kernels without it")
            self._is_launching, self._grid = True, []
            try:
                contents = Arguments(launch.values)
                compiled = plain()
            finally:
                self._is_launching = False
            if all(self._grid):
                seen = _Seen(launch, contents, compiled, self._grid)
                self._seen.setdefault((compiled.name, seen.key, tuple(self._grid)), seen)
            return compiled

        return run

    def binary(self, _: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        """The patched launcher of a binary; of an autotuner's launches the last one is the program's."""

        def run(*args: Any) -> Any:
            self._has_others |= not self._is_launching
            self._grid = [int(size) for size in args[:3]]
            return original(*args)

        return run

    def profile(self, backend: str, bound: float) -> Profile:
        """The profile of the launches so far, with their bare times. bound: in percent; their noise has to be
        well below. Raises SessionError if there are none, or one cannot be repeated."""
        self._watched.close()
        if not self._seen:
            raise SessionError(
                "no launch kernel[grid](...) of a Triton kernel was seen; torch.compile's are not judged"
            )
        if self._has_others:
            raise SessionError("a kernel was launched otherwise than kernel[grid](...), and cannot be judged")
        for each in self._seen.values():
            if why := each.why_once:
                raise SessionError(f"{each.launch.name} cannot be launched again: {why}")
        left = Arguments([value for each in self._seen.values() for value in each.launch.values])
        try:
            with _alone() if self._on_gpu else contextlib.nullcontext():
                times: dict[str, list[dict[str, Any]]] = {}
                for each in self._seen.values():
                    entry = {"key": each.key, "grid": each.grid, "times": self._bare_times(each, bound)}
                    times.setdefault(each.compiled.name, []).append(entry)
                tables = self._recorded(backend).tables
        finally:
            left.reset()
        return Profile.of(replace(tables, metadata=tables.metadata | {"bare_times": times}))

    def _bare_times(self, seen: _Seen, bound: float) -> list[float]:
        """In ns; on the emulator, where one is enough, in cycles."""
        seen.contents.reset()
        seen.launch()
        seen.contents.find_written()
        timer, begun = PairTimer(self._machine, seen.contents.restore), time.monotonic()
        times: list[float] = []
        while len(times) < _MOST and time.monotonic() - begun < _LONGEST_S:
            times += [1e3 * timer.once(seen.launch) for _ in range(_STEP if self._on_gpu else 1)]
            if not self._on_gpu or _noise_pct(times) <= _OF_BOUND * bound:
                break
        return [round(each, 3) for each in times]

    def _recorded(self, backend: str) -> Profile:
        options = Options(backend=backend, evidence=True, ctas=_CTAS if self._on_gpu else 1)
        with Session(options) as session:
            for each in self._seen.values():
                each.contents.reset()
                for _ in range(_RECORDED if self._on_gpu else 1):
                    each.contents.restore()
                    each.launch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistrustWarning)  # what is judged are the bare launches
            return session.profile


def _noise_pct(times: list[float]) -> float:
    """Two standard errors of the mean."""
    sample = sample_of_launches(np.asarray([times]))
    return float(200 * np.sqrt(sample.variance[0]) / sample.mean[0])


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """No other process of this user measures meanwhile, such as another worker of xdist."""
    path = Path(tempfile.gettempdir()) / f"profscope-kernel-gate-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
