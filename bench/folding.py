"""How fast launches that kept sums are folded on one core: made-up ones, as large as a matmul's."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from bench.table import Cell, Row
from profscope.decoding.alike import alike
from profscope.decoding.folding import Folded
from tests.support.synth.sums import site, sum_launch, sum_manifest

__all__ = ["folded_launches"]

_WARPS: Final = 4
_SITES: Final = 8
_SMS: Final = 132
_BATCH: Final = 100  # launches that are folded at a time: an arena has about so many


def folded_launches(launches: int, ctas: int) -> list[Row]:
    """Launches of 4 warps a CTA and 8 sites, from raw bytes to figures; seconds of one core."""
    title = f"folding sums: {ctas} CTAs of {_WARPS} warps and {_SITES} sites a launch, one core"
    rows = []
    for longest in (False, True):
        sites = [site(0 if at else -1, at, longest=longest) for at in range(_SITES)]
        manifest = sum_manifest([sites], _WARPS)
        batch = [sum_launch(manifest, index, ctas, sms=_SMS) for index in range(min(_BATCH, launches))]
        folded, took_s = Folded(), 0.0
        with ThreadPoolExecutor(1) as pool:
            for _ in range(-(-launches // len(batch))):
                start = time.process_time()
                folded.add(alike(batch), pool)
                took_s += time.process_time() - start
        what = "sums and longest" if longest else "sums"
        rate = Cell((launches / took_s,))
        rows.append(Row(title, f"{what}, {batch[0].buffer.nbytes:,} bytes: launches/s", "", {"folded": rate}))
    return rows
