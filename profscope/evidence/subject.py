"""What is observed, and what the observers keep of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["CountedLaunch", "CounterValues", "Subject"]


@dataclass(frozen=True)
class Subject:
    """One configuration of a kernel, of which any launch can be observed in place of another.

    kernel: as in `launches["kernel"]`. key: of the configuration in metadata["variants"]. shape: what else
    tells launches of different work apart: the grid and the integer arguments. function: the name in the
    binary. cubin, ptx: the bare binary, and the PTX that it was made of.
    """

    kernel: str
    key: str
    shape: Hashable
    function: str
    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)


@dataclass(frozen=True, eq=False)
class CountedLaunch:
    """Instruction counts. pcs: of the kernel, ascending. counts: by column of `metrics.COUNTS`, one for each
    pc, over `launches`. in_callees: warp instructions of functions that the kernel calls, which have no
    rows."""

    subject: Subject
    pcs: npt.NDArray[np.int64] = field(repr=False)
    counts: dict[str, npt.NDArray[np.int64]] = field(repr=False)
    launches: int
    in_callees: int = 0


@dataclass(frozen=True, eq=False)
class CounterValues:
    """Counters. values: by NVIDIA's name; not finite where the hardware gave none. launches: passes that they
    took, of one launch each."""

    subject: Subject
    values: dict[str, float] = field(repr=False)
    launches: int
