"""What the sampler saw of one launch, with the binary that ran: all that the table of samples is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

__all__ = ["BINARIES", "BINARY_BARE", "BINARY_SPANS", "BINARY_SUMS", "NOT_LISTED", "SampledLaunch"]

BINARY_BARE: Final = "bare"
BINARY_SPANS: Final = "spans"
BINARY_SUMS: Final = "sums"
BINARIES: Final = (BINARY_BARE, BINARY_SPANS, BINARY_SUMS)
"""Which binary of a kernel ran: the one that Triton alone would run, or one that keeps spans or sums."""
NOT_LISTED: Final = -1
"""The number of a launch that has no row in `prof.launches`, since nothing of it was recorded."""


@dataclass(frozen=True, eq=False)
class SampledLaunch:
    """One launch under the sampler.

    kernel       the function's name, as in `launches["kernel"]`
    variant_key  the configuration's key, `Build.key`; "" where it is not known
    launch       its number in `prof.launches`, NOT_LISTED for a bare one
    binary       one of BINARIES
    period_log2  a sample was taken every 2^period_log2 cycles of each SM sub-partition
    taken        the samples that the hardware took, `dropped` ones among them
    dropped      those of them that were lost
    rows         of dtype SAMPLE or any with its fields `pc`, bytes from the function's start, `reason`, a
                 place in `reasons`, `samples` and `not_issued`, which is a part of `samples`
    reasons      the names of the stall reasons, as the device gives them, without prefix: "long_scoreboard"
    cubin, ptx   of the binary that ran; launches of one binary share the objects
    """

    kernel: str
    variant_key: str
    launch: int
    binary: str
    period_log2: int
    taken: int
    dropped: int
    rows: npt.NDArray[Any]
    reasons: tuple[str, ...]
    cubin: bytes
    ptx: str
