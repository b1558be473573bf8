"""uncoalesced-load: the lanes of a warp load from places that lie apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.causes.exposed_load import exposed_cycles
from profscope.analysis.devices import load_latency_cycles
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["causes"]

_HELD_UP: Final = 200  # cycles to issue a load; 10 to 50 where its lanes share sectors
_SLOW: Final = 3.0
_IDLE_LATENCY: Final = load_latency_cycles(emulated=False)  # what loads take beyond that is queueing
_LOW_USE: Final = 0.35


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """Loads queue for memory although few bytes are asked for.

    A load that takes 200 cycles to issue, on average, finds the way to memory full, and one whose data
    takes three times the 690 cycles of an idle DRAM waits for others before it. Where all loads and stores
    together ask for less than 35 % of the peak bandwidth at that time, memory moves bytes that nobody asked
    for: sectors of 32 bytes of which a lane takes a few. Gain: the waiting for that load beyond 690 cycles,
    over the time of all warps. Confidence: medium; the peak and the bytes must be known. On the emulator
    addresses do not matter.
    """
    if judged.emulated:
        return
    peak, work = judged.peak, judged.work
    loads = judged.of_class("load")
    if not loads.any():
        return
    if peak is None or work.empty or not judged.launch_ns:
        yield NotMeasured("uncoalesced-load: the device's peak bandwidth is not known")
        return
    spans, sites = judged.spans, judged.sites
    used = float(work.loc[work["cls"].isin(("load", "store", "atomic", "async_copy")), "bytes"].sum())
    rate = used / judged.launch_ns
    if rate > _LOW_USE * peak.memory_gb_per_s:
        return
    waits, _ = exposed_cycles(judged, most=1 << 20)
    lost = np.where(loads & (waits > _SLOW * _IDLE_LATENCY), waits - _IDLE_LATENCY, 0)
    issue = judged.total(spans.duration) / np.maximum(np.bincount(spans.site, minlength=len(sites)), 1)
    by_site = np.where(issue >= _HELD_UP, judged.total(lost), 0)
    site = int(np.argmax(by_site))
    if not by_site[site]:
        return
    here = spans.site == site
    file, line = judged.at(site)
    pct = judged.share_pct(float(by_site[site]))
    yield Finding(
        "uncoalesced-load",
        file,
        line,
        f"{sites['scope'].iloc[site]} takes {issue[site]:,.0f} cycles to issue and "
        f"{waits[here].mean():,.0f} until its data is there, where an idle memory answers in "
        f"{_IDLE_LATENCY}, while the kernel asks for {rate:,.0f} GB/s, "
        f"{100 * rate / peak.memory_gb_per_s:.0f} % of the peak ({peak.source})",
        "let neighbouring lanes load neighbouring elements: swap axes or strides, pack fields (structure "
        "of arrays), or load a block and transpose it in shared memory",
        pct,
        "medium",
    )
