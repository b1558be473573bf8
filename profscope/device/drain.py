"""Memory of the host that the driver has locked, and what is moved out of it.

pieces = pin(128 << 20)
host = move([piece.numpy() for piece in first(pieces, used)], copied.synchronize, movers, 4)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from instrument_passes.records import align

__all__ = ["first", "move", "pin"]

Bytes = npt.NDArray[np.uint8]
_PAGE_BYTES: Final = 4096
_PINNED_BYTES: Final = 4 << 20  # at a time
_BETWEEN_PIECES_S: Final = 0.004  # for those who wait to launch


def pin(size: int) -> list[torch.Tensor]:
    """So many bytes of the host, in pieces.

    While the driver locks memory no thread can launch: 128 MiB at once hold launches for 42 to 57 ms, and
    pieces without pauses for as long, since who pins has the lock again first (`python -m bench.held`, NVIDIA
    H200, torch 2.11.0, 2026-11-23). So a piece takes 2 ms, and launches have twice as long to themselves.
    """
    pieces = []
    for begin in range(0, size, _PINNED_BYTES):
        piece = min(_PINNED_BYTES, size - begin)
        try:
            pieces.append(torch.empty(piece, dtype=torch.uint8, device="cpu", pin_memory=True))
        except RuntimeError:  # no memory can be locked: draining then waits for its copies
            pieces.append(torch.empty(piece, dtype=torch.uint8, device="cpu"))
        time.sleep(_BETWEEN_PIECES_S)
    return pieces


def move(pinned: Sequence[Bytes], wait: Callable[[], object], movers: Executor, parts: int) -> Bytes:
    """A copy of pinned memory, one piece after the other, in new pages, which are made while `wait` waits for
    what is to be copied.

    parts: of the copy, as many as threads, of which each takes the interpreter from the others for a moment.
    """
    host = np.empty(sum(map(len, pinned)), np.uint8)
    step = align(-(-len(host) // parts), _PAGE_BYTES)
    ranges = [slice(at, min(at + step, len(host))) for at in range(0, len(host), step)]
    list(movers.map(lambda part: np.copyto(host[part][::_PAGE_BYTES], 0), ranges))
    wait()
    list(movers.map(lambda part: _copy(host, pinned, part), ranges))
    return host


def _copy(host: Bytes, pinned: Sequence[Bytes], part: slice) -> None:
    """Copy what belongs into a part of the host's pages."""
    at = 0
    for piece in pinned:
        begin, end = max(part.start, at), min(part.stop, at + len(piece))
        if begin < end:
            np.copyto(host[begin:end], piece[begin - at : end - at])
        at += len(piece)


def first(pieces: Sequence[torch.Tensor], size: int) -> list[torch.Tensor]:
    """The first so many bytes of them."""
    firsts = []
    for piece in pieces:
        firsts.append(piece[:size])
        size -= len(firsts[-1])
        if not size:
            break
    return firsts
