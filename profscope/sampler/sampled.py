"""A launch that ran under the sampler: what a session keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["SampledLaunch"]


@dataclass(frozen=True, eq=False)
class SampledLaunch:
    """One launch of a kernel under the sampler.

    kernel: the function's name, as in `launches["kernel"]`. variant_key: `Build.key` of its configuration,
    which is the same for the bare and the instrumented binary ("" where it is not known): the `key` of the
    entries of metadata["variants"][kernel]. launch: its number in `launches`; -1 for a bare one, which has no
    row there. binary: which one ran, "bare" or "spans". period_log2: the hardware took a sample every
    2^period_log2 cycles on each SM. taken: samples of this kernel, `rows` has them all;
    dropped: samples that the hardware lost meanwhile, whosever they were. rows: dtype `sampler.SAMPLE`, all
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
