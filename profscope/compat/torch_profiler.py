"""What profscope uses of the private parts of torch's profiler, versions 2.11 to 2.15."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.autograd import profiler

from profscope.compat.patches import Method, patched

__all__ = ["Method", "is_profiling", "of_all_threads", "on_host", "quiet"]

_BEGINS: Final = "_run_on_profiler_start"  # puts the flag up by which torch knows that a profiler watches


def of_all_threads() -> Any:
    """The configuration that watches all threads, and tells CUPTI of no operator: in which one a call lies,
    its time and thread say. Raises AttributeError or TypeError where this torch has another one."""
    getattr(profiler, _BEGINS)
    return torch._C._profiler._ExperimentalConfig(profile_all_threads=True, disable_external_correlation=True)


def is_profiling() -> bool:
    """Whether a profiler watches: one that watches all threads is known by the flag alone."""
    return bool(torch.autograd._profiler_enabled() or profiler._is_profiler_enabled)


@contextlib.contextmanager
def quiet(counting: Method) -> Iterator[None]:
    """In the body of a with statement torch does not know of the profiler that watches, so Inductor does
    not tell it of each launch. counting: wraps what another profiler calls when it begins."""
    with patched(profiler, _BEGINS, counting):
        profiler._is_profiler_enabled = False
        yield


def on_host(event: Any) -> bool:
    """Whether an event is one of the host's."""
    return bool(event.device_type() == torch._C._autograd.DeviceType.CPU)
