"""Which machine runs the kernels of a session: the GPU that is there, or the emulator."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from profscope.errors import SessionError

__all__ = ["Backend", "select"]


@dataclass(frozen=True)
class Backend:
    """device_type: torch device type of its buffers; metadata(): the entries "backend" and "device"."""

    device_type: str
    metadata: Callable[[], dict[str, Any]]


@contextlib.contextmanager
def select(name: str) -> Iterator[Backend]:
    """The backend for a session: "gpu", "emulator", or "auto". Raises SessionError where there is none."""
    if name == "gpu" and not torch.cuda.is_available():
        raise SessionError('backend="gpu": no GPU is active; use backend="emulator" or "auto"')
    if name == "gpu" or (name == "auto" and torch.cuda.is_available() and not _forced()):
        yield Backend("cuda", _gpu)
        return
    from profscope import emulator

    with emulator.activate():
        yield Backend("cpu", lambda: {"backend": "emulator", "device": emulator.describe()})


def _forced() -> bool:
    return os.environ.get("PROFSCOPE_EMULATOR") == "1"


def _gpu() -> dict[str, Any]:
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "backend": "gpu",
        "device": {
            "name": device.name,
            "arch": f"sm_{device.major}{device.minor}",
            "sm_count": device.multi_processor_count,
        },
    }
