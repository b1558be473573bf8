"""What made-up programs are made of, and what a decoder must find of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Manifest


@dataclass(frozen=True)
class Work:
    """Code that is not recorded."""

    cycles: int


@dataclass(frozen=True)
class Scope:
    """A span around other nodes; with `on`, around one predicated op, which is on or off in turn."""

    body: tuple[Node, ...] = ()
    on: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Loop:
    """A loop; `trips` are the trip counts of its executions in turn, over and over."""

    trips: tuple[int, ...]
    body: tuple[Node, ...]
    iterations: bool = True  # one span per iteration, where the loop has one
    span: bool = True


@dataclass(frozen=True)
class Branch:
    """scf.if; `taken` are its conditions in turn, over and over."""

    taken: tuple[bool, ...]
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Return:
    """Leave the kernel early in the CTAs whose id `taken` picks; only at the top level of a program."""

    taken: tuple[bool, ...]


Node = Work | Scope | Loop | Branch | Return


@dataclass(frozen=True)
class Program:
    """A warp program: the kernel's body (group 0) or a partition of the `group`-th warp_specialize op.

    entries: how often a partition in a loop is entered; None for one that is in no loop.
    """

    body: tuple[Node, ...]
    warps: int = 1
    group: int = 0
    entries: int | None = None


class Seen(NamedTuple):
    """A span that a decoder must find, or found. `parent` is the whole span above it."""

    section: int
    span: int
    cta: int
    warp: int
    sm: int
    start: int
    end: int
    iteration: int
    depth: int
    parent: Seen | None


@dataclass(frozen=True)
class Launch:
    """A launch that was made up. buffer: uint8, the areas of the recorded CTAs. spans: those that a decoder
    must find; happened: these and what rings overwrote."""

    manifest: Manifest
    buffer: npt.NDArray[np.uint8]
    spans: list[Seen]
    happened: list[Seen]
    records: int
    dropped: int
