"""The launches of a program's kernels: the configuration with the most time, and a launch of it to repeat
after the program."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from profscope.compat.kernels import capturing_now, trials, watched_binaries, watched_launches
from profscope.compat.triton_parts import CompiledKernel, JITFunction
from profscope.device.backend import Backend
from profscope.errors import OptionError
from profscope.experiments.arguments import Arguments, bytes_reached
from profscope.experiments.timing import LaunchTimer, LaunchTimes, is_power_of_two
from profscope.tuning.launches import Launch

__all__ = ["KeptLaunch", "ProgramLaunches"]

_SHOWN: Final = 8
_MIB: Final = 1 << 20
_CLEARLY: Final = 1.1  # so that two configurations of equal time are not copied in turn


@dataclass(frozen=True)
class KeptLaunch:
    """contents: what the memory of its arguments held before it; None if that was not copied: `why` says why
    not. untimed_of: of how many configurations it is the first, if none could be timed."""

    launch: Launch
    contents: Arguments | None
    why: str = ""
    untimed_of: int = 0

    @property
    def note(self) -> str:
        """The note if the launch can be repeated only with other contents, or may not be the biggest."""
        notes = [f"Its arguments may have changed since the launch: {self.why}"] if self.why else []
        if self.untimed_of:
            notes.append(
                f"It is the first of {self.untimed_of} configurations, and not known to take most time: the "
                "program's own session keeps launches from being timed. Without it the biggest is "
                "explained; kernels= chooses, too"
            )
        return ". ".join(notes)

    def replaces(self, earlier: KeptLaunch) -> bool:
        """Whether it is kept in place of an earlier launch of its configuration."""
        return self.contents is not None or earlier.contents is None


class ProgramLaunches:
    """Watches launches of the kernels whose name `kernels` matches, a regular expression; None: all. A
    configuration is a kernel with shapes, dtypes, constexprs and options.

    The program's own launches are timed: the first, second, fourth, ... of each configuration. Before these
    the memory of their arguments is copied, at most `memory_mib` of it. Only the copy of the configuration
    with most time so far, and its tensors, are kept. An autotuner's launches belong to the launch of the
    autotuner. Kernels of torch.compile are launched by other means and are not seen.
    """

    def __init__(self, kernels: str | None, memory_mib: int, machine: Backend) -> None:
        self._pattern = re.compile(kernels or "")
        self._memory_mib = memory_mib
        self._timer = LaunchTimer(machine)
        self._is_captured = capturing_now() if machine.emulated is None else lambda: False
        self._names: dict[str, None] = {}
        self._configurations: dict[Any, LaunchTimes] = {}
        self._leader = LaunchTimes()
        self._kept: KeptLaunch | None = None
        self._thread = _OfThread()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """In the body of a with statement launches are watched."""
        with watched_launches(self._launcher), watched_binaries(self._timed), trials(self._untimed):
            yield

    def biggest(self) -> KeptLaunch:
        """The launch of a configuration whose launches took longest in total, or within a tenth of that.

        Raises OptionError if no launch, or none that matches, was seen.
        """
        if self._kept is not None:
            found = self._configurations.values()
            is_known = len(found) == 1 or any(each.times for each in found)
            return self._kept if is_known else replace(self._kept, untimed_of=len(found))
        if not self._names:
            raise OptionError("the program launched no Triton kernel that can be launched again")
        more = f" and {len(self._names) - _SHOWN} more" if len(self._names) > _SHOWN else ""
        shown = f"{', '.join(list(self._names)[:_SHOWN])}{more}"
        raise OptionError(f"no launched kernel matches {self._pattern.pattern!r}; there are: {shown}")

    def _launcher(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if self._thread.is_launching or kwargs.get("warmup"):
                return original(kernel, *args, **kwargs)
            own = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            launch = Launch(kernel, kwargs["grid"], args, own)
            if not isinstance(launch.function, JITFunction):  # Triton's interpreter runs it
                return original(kernel, *args, **kwargs)
            self._thread.is_launching = True
            try:
                return self._launched(launch, partial(original, kernel, *args, **kwargs))
            finally:
                self._thread.is_launching = False

        return run

    def _launched(self, launch: Launch, original: Callable[[], Any]) -> Any:
        if not self._pattern.search(launch.name):
            compiled = original()
            self._names[launch.name] = None
            return compiled
        key = launch.kernel, _shape(launch.function, launch.args, launch.kwargs)
        with self._lock:
            own = self._configurations.setdefault(key, LaunchTimes())
        if not self._is_due(own):
            compiled = original()
            own.count += 1
            return compiled
        kept = self._copied(launch)
        times: list[float] = []
        self._thread.times = times
        try:
            compiled = original()
        finally:
            self._thread.times = None
        self._names[launch.name] = None
        with self._lock:
            own.count += 1
            own.times += times[-1:]  # hooks launch theirs before
            again = own is self._leader and self._kept is not None and kept.replaces(self._kept)
            if self._kept is None or again or self._overtakes(own, own.count):
                self._leader, self._kept = own, kept
        return compiled

    def _is_due(self, own: LaunchTimes) -> bool:
        """Whether its next launch is timed, and the memory of the arguments copied."""
        count = own.count + 1
        return is_power_of_two(count) or self._overtakes(own, count)

    def _overtakes(self, own: LaunchTimes, count: int) -> bool:
        """Whether so many launches of it take clearly more time than those of the leader, another one."""
        leader = self._leader
        return own is not leader and own.total(count) > _CLEARLY * leader.total(leader.count)

    def _copied(self, launch: Launch) -> KeptLaunch:
        if self._is_captured():
            return KeptLaunch(launch, None, "it was captured into a CUDA graph")
        needed_mib = -(-bytes_reached(launch.values) // _MIB)
        if needed_mib > self._memory_mib:
            why = f"a copy takes {needed_mib:,} MiB, more than --memory {self._memory_mib} (MiB) allows"
            return KeptLaunch(launch, None, why)
        try:
            return KeptLaunch(launch, Arguments(launch.values))
        except torch.OutOfMemoryError:
            return KeptLaunch(launch, None, "the device has no room for a copy")

    def _timed(self, kernel: CompiledKernel, plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> None:
            times = self._thread.times
            if times is None or self._is_captured():
                plain(*args)
            elif (took := self._timer.time(partial(plain, *args))) is not None:
                times.append(took)

        return run

    def _untimed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An autotuner's trials, whose launches are no time of the program's."""

        def bench(*args: Any, **kwargs: Any) -> Any:
            times, self._thread.times = self._thread.times, None
            try:
                return original(*args, **kwargs)
            finally:
                self._thread.times = times

        return bench


class _OfThread(threading.local):
    """is_launching: within a launch that is watched. times: of the binaries that it launches; None if they
    are not timed."""

    is_launching = False
    times: list[float] | None = None


def _shape(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Shapes, dtypes, values of constexprs and options; other numbers change from launch to launch."""
    runtime = {param.name for param in function.params if not param.is_constexpr}
    named = {**dict(zip(function.arg_names, args, strict=False)), **kwargs}
    parts = []
    for name, value in named.items():
        if isinstance(value, torch.Tensor):
            parts.append(f"{name}: {value.dtype} {tuple(value.shape)}")
        elif name not in runtime:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)
