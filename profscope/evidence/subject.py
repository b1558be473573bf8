"""What is observed, and what the observers keep of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["CountedLaunch", "CounterValues", "SampledLaunch", "Subject"]


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


@dataclass(frozen=True, eq=False)
class SampledLaunch:
    """One launch of a kernel under the sampler.

    kernel: the function's name, as in `launches["kernel"]`. variant_key: `Build.key` of its configuration,
    which is the same for the bare and the instrumented binary ("" where it is not known): the `key` of the
    entries of metadata["variants"][kernel]. launch: its number in `launches`; -1 for a bare one, which has no
    row there. binary: which one ran, "bare" or "spans". period_log2: the hardware took a sample every
    2^period_log2 cycles on each SM. taken: samples of this kernel, `rows` has them all;
    dropped: samples that the hardware lost meanwhile, whosever they were. rows: dtype `SAMPLE`, all
    of one function: `pc` is bytes from its start, `reason` a place in `reasons`. in_callees: samples of
    noinline functions of the same binary, which are in neither `taken` nor `rows`. cubin, ptx: of the binary
    that ran; "" where there is none.
    """

    kernel: str
    variant_key: str
    launch: int
    binary: str
    period_log2: int
    taken: int
    dropped: int
    rows: npt.NDArray[np.void] = field(repr=False)
    reasons: tuple[str, ...] = field(repr=False)
    cubin: bytes = field(repr=False)
    ptx: str = field(repr=False)
    in_callees: int = 0
