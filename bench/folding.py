"""How fast launches that kept sums are folded on one core: made-up ones, as large as a matmul's."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from bench.table import Cell, Row
from instrument_passes.manifest import Column, Frame, Manifest, Span, layout
from instrument_passes.manifest import Section as WarpProgram
from instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, WORD, LaunchBits
from profscope.decoding.folding import Folded
from profscope.decoding.raw import RawLaunch

__all__ = ["folded_launches"]

_WARPS: Final = 4
_SITES: Final = 8
_SMS: Final = 132
_CLOCK_GHZ: Final = 1.75
_BATCH: Final = 100  # launches that are made at a time: an arena has about so many


def folded_launches(launches: int, ctas: int) -> list[Row]:
    """Launches of 4 warps a CTA and 8 sites, from raw bytes to figures."""
    title = f"folding on one core: {launches} launches of {ctas} CTAs, {_WARPS} warps and {_SITES} sites"
    rows = []
    for longest in (False, True):
        manifest = _manifest(longest=longest)
        batch = [_launch(manifest, index, ctas) for index in range(min(_BATCH, launches))]
        folded, took_s = Folded(), 0.0
        with ThreadPoolExecutor(1) as pool:
            for _ in range(-(-launches // len(batch))):
                start = time.perf_counter()
                folded.add(batch, pool)
                took_s += time.perf_counter() - start
        line = f"launches of {batch[0].buffer.nbytes:,} bytes a second" + (
            ", longest kept" if longest else ""
        )
        rows.append(Row(title, line, "", {"folded": Cell((launches / took_s,))}))
    return rows


def _manifest(*, longest: bool) -> Manifest:
    kinds = ("sum", "longest") if longest else ("sum",)
    columns = tuple(Column(kind) for _ in range(_SITES) for kind in kinds)
    width = len(kinds)
    spans = tuple(
        Span(
            id=site, parent=0 if site else -1, kind="op" if site else "kernel", name=f"site {site}", op="",
            frame=0, file="matmul.py", line=site, begin=-1, total=site * width,
            longest=site * width + 1 if longest else -1,
        )
        for site in range(_SITES)
    )  # fmt: skip
    program = WarpProgram("kernel", _WARPS, (Frame(0, -1, columns, 1),), spans)
    sections, fixed, ring = layout([program], [0])
    return Manifest("matmul_kernel", "cuda:90", _WARPS, fixed, ring, sections)


def _launch(manifest: Manifest, index: int, ctas: int) -> RawLaunch:
    noise = np.random.default_rng(index)
    buffer = np.zeros(LAUNCH_HEADER.itemsize + ctas * manifest.cta_bytes(0), np.uint8)
    header = buffer[: LAUNCH_HEADER.itemsize].view(LAUNCH_HEADER)
    header["digest"], header["launch_bits"] = manifest.digest, LaunchBits(0, 0).encode()
    header["grid_x"], header["grid_y"] = ctas, 1
    areas = buffer[LAUNCH_HEADER.itemsize :].reshape(ctas, -1)
    packed = areas[:, : CTA_HEADER.itemsize].view(CTA_HEADER)[:, 0]
    took = noise.integers(80_000, 120_000, ctas)
    end = (index + 1) * 400_000 + noise.integers(0, 200_000, ctas)
    start_ns, end_ns = ((cycle / _CLOCK_GHZ).astype(np.int64) // 32 * 32 for cycle in (end - took, end))
    packed["start_clock_low"], packed["end_clock"] = end - took, end
    packed["start_ns_low"], packed["end_globaltimer"] = start_ns, end_ns
    packed["cta"], packed["place"] = np.arange(ctas), np.arange(ctas) % _SMS
    words = areas[:, CTA_HEADER.itemsize :].view(WORD)
    words[:] = noise.integers(1, 80_000, words.shape)
    return RawLaunch(index, manifest, 0, 0, ctas, buffer)
