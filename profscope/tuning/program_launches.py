"""The launches of a program's kernels, kept so that one can be repeated when the program has ended."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from profscope.compat.kernels import watched_launches
from profscope.device.backend import Backend
from profscope.errors import OptionError
from profscope.tuning.launches import Arguments, Launch
from profscope.tuning.trials import PairTimer

__all__ = ["ProgramLaunches"]

_SHOWN: Final = 8


@dataclass
class _Seen:
    """The last launch of a configuration, and how many there were."""

    launch: Launch
    count: int = 0


class ProgramLaunches:
    """One launch is kept of each kernel and of each set of shapes, dtypes, constexprs and options, with
    references to its arguments. What an autotuner launches belongs to the launch of the autotuner. Kernels of
    torch.compile are launched by other means and are not seen."""

    def __init__(self) -> None:
        self._seen: dict[Any, _Seen] = {}
        self._inside = threading.local()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """In the body of a with statement launches are kept."""
        with watched_launches(self._wrap):
            yield

    def biggest(self, kernels: str | None, machine: Backend) -> Launch:
        """That of the configuration whose launches took longest in total, by the bare time of one launch,
        repeated. kernels: a regular expression that its name matches; None: any.

        Raises OptionError if no launch, or none that it matches, was seen.
        """
        known = list(self._seen.values())
        if not known:
            raise OptionError("the program launched no Triton kernel that can be launched again")
        own = [each for each in known if re.search(kernels or "", each.launch.name)]
        if not own:
            names = list(dict.fromkeys(each.launch.name for each in known))
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise OptionError(
                f"no launched kernel matches {kernels!r}; there are: {', '.join(names[:_SHOWN])}{more}"
            )
        if len(own) == 1:
            return own[0].launch
        return max(own, key=lambda each: each.count * _time(each.launch, machine)).launch

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "launch", False) or kwargs.get("warmup"):
                return original(kernel, *args, **kwargs)
            self._inside.launch = True
            try:
                compiled = original(kernel, *args, **kwargs)
            finally:
                self._inside.launch = False
            own = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            self._keep(Launch(kernel, kwargs["grid"], args, own))
            return compiled

        return run

    def _keep(self, launch: Launch) -> None:
        key = launch.kernel, _shape(launch.function, launch.args, launch.kwargs)
        with self._lock:
            seen = self._seen.setdefault(key, _Seen(launch))
            seen.launch = launch
            seen.count += 1


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


def _time(launch: Launch, machine: Backend) -> float:
    """Of one bare launch, behind one that is not timed."""
    arguments = Arguments(launch.values)
    launch()
    arguments.keep_result()
    arguments.restore()
    took = PairTimer(machine, arguments.restore).once(launch)
    arguments.restore()
    return took
