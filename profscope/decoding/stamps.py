"""When CTAs that did not record began and ended, from their stamps.

A stamp has the low halves of clocks. The CTAs of the launch that recorded have them in full, so the upper
halves follow, if a CTA ended within 2 s of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.records import PLACE_RANK_SHIFT
from profscope.decoding.decoded import DecodedLaunch
from profscope.decoding.raw import RawLaunch
from profscope.errors import RecordError

__all__ = ["Stamped", "sms_of_stamps", "stamped"]

Ints = npt.NDArray[np.int64]
_MOST_SMS: Final = 1 << PLACE_RANK_SHIFT


class Stamped(NamedTuple):
    """CTAs of L launches that did not record and came to their end, by launch and linear id; arrays of shape
    (CTAs,).

    launch: from 0 to L - 1. sm: as decoding numbers it. Cycles are of the SM's clock64; those of an SM that
    no recorded CTA ran on may all be off by the same multiple of 2^32. end_ns: the globaltimer's.
    """

    launch: Ints
    cta: Ints
    sm: Ints
    start_cycle: Ints
    end_cycle: Ints
    end_ns: Ints


def sms_of_stamps(raws: Sequence[RawLaunch]) -> int:
    """One more than the greatest SM that stamps name. Raises RecordError if that cannot be one."""
    sms = max((int(stamps["sm"].max()) + 1 for raw in raws if len(stamps := raw.stamps)), default=0)
    if sms > _MOST_SMS:
        raise RecordError(
            f"damaged profile buffer of kernel {raws[0].manifest.kernel}: it has a CTA on SM {sms - 1}"
        )
    return sms


def stamped(raws: Sequence[RawLaunch], decoded: DecodedLaunch) -> Stamped:
    """Of launches that are decoded as one. Those of a launch none of whose recorded CTAs came to its end are
    left out."""
    stamps = np.stack([raw.stamps for raw in raws])
    ended = decoded.headers["end_clock"] != 0
    headers = decoded.headers[ended]
    of = np.zeros(len(headers), np.int64) if decoded.several is None else decoded.several.header[ended]
    known, known_at = np.unique(of, return_index=True)
    launch, cta = np.nonzero((stamps["duration_cycles"] != 0) & np.isin(range(len(raws)), known)[:, None])
    if not len(launch):
        return Stamped(*(np.zeros(0, np.int64) for _ in Stamped._fields))
    stamps = stamps[launch, cta]
    clock, ns = (headers[name].astype(np.int64) for name in ("end_clock", "end_globaltimer"))
    start_clock, start_ns = (headers[n].astype(np.int64) for n in ("start_clock", "start_globaltimer"))
    cycles_per_ns = float((clock - start_clock).sum() / max(1, (ns - start_ns).sum()))
    reference = known_at[np.searchsorted(known, launch)]
    end_ns = _nearest(ns[reference], stamps["end_ns_low"])
    low = stamps["start_clock_low"] + stamps["duration_cycles"]
    sm = stamps["sm"].astype(np.int64)
    if decoded.several is not None:
        sm += launch * decoded.several.apart.sms
    # By SM a moment of its clock: of a recorded CTA; if there is none, of a stamp, as if clocks were in step.
    sms, first, of_sm = np.unique(sm, return_index=True, return_inverse=True)
    since = (end_ns[first] - ns[reference[first]]) * cycles_per_ns
    moment = _nearest(clock[reference[first]] + since.astype(np.int64), low[first])
    moment_ns = end_ns[first]
    recorded, recorded_at = np.unique(headers["sm"].astype(np.int64), return_index=True)
    _, at, where = np.intersect1d(sms, recorded, assume_unique=True, return_indices=True)
    moment[at], moment_ns[at] = clock[recorded_at[where]], ns[recorded_at[where]]
    since = (end_ns - moment_ns[of_sm]) * cycles_per_ns
    end = _nearest(moment[of_sm] + since.astype(np.int64), low)
    return Stamped(launch, cta, sm, end - stamps["duration_cycles"], end, end_ns)


def _nearest(expected: Ints, low: npt.NDArray[np.unsignedinteger[Any]]) -> Ints:
    """The numbers next to those that are expected that have these low 32 bits."""
    return expected + (low - expected.astype(np.uint32)).astype(np.int32)
