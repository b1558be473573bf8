"""Launches of any size from one that a GPU recorded (tests/data): what decoding and writing can be timed on.

Every warp replays captured rows: the root's, and for the loop rows drawn at random, each clock a little later
or earlier. Clocks, grids and headers are as a GPU with 132 SMs would have written them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import packed_headers, read_buffer, segments
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import WORD, LaunchBits
from tests.support.synth import launch_header, write_headers

__all__ = ["replay"]

Ints = npt.NDArray[np.int64]
_SMS: Final = 132
_GHZ: Final = 1.755
_STEP_NS: Final = 32  # of the globaltimer
_JITTER: Final = 0.1


def replay(
    capture: Path, launches: int, ctas: int, iterations: int, *, transactions: bool
) -> list[RawLaunch]:
    """Launches of a captured kernel with one loop. transactions: with what its ops leave in flight."""
    with np.load(capture) as arrays:
        buffer = arrays["buffer"]
        captured = Manifest.from_json(arrays["manifest"].tobytes().decode())
    root, loop = _captured_rows(buffer, captured)
    manifest = captured if transactions else _without_roles(captured)
    random = np.random.default_rng(0)
    return [
        RawLaunch(index, manifest, 0, 0, ctas, _launch(manifest, root, loop, index, ctas, iterations, random))
        for index in range(launches)
    ]


def _without_roles(manifest: Manifest) -> Manifest:
    (section,) = manifest.sections
    spans = tuple(replace(span, part="") for span in section.spans)
    return replace(manifest, sections=(replace(section, spans=spans),))


def _captured_rows(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> tuple[Ints, Ints]:
    """Rows as distances to their first clock: the root's, shape (warps, columns), and the loop's."""
    launch = read_buffer(buffer, manifest)
    ring_log2, ctas = launch.bits.ring_log2, len(launch.ctas)
    words = segments(buffer, ctas, manifest, ring_log2)
    table = words.reshape(ctas * manifest.warps, -1).astype(np.int64)
    root_frame, loop_frame = manifest.sections[0].frames
    root = table[:, : len(root_frame.columns)]
    first = manifest.start(loop_frame, ring_log2) // WORD.itemsize
    loop = table[:, first:].reshape(len(table), -1, len(loop_frame.columns))
    (count,) = (at for at, column in enumerate(root_frame.columns) if column.kind == "count")
    ran = int(root[0, count])
    rows = loop[:, :ran]
    # The last row's distance to the next is unknown: the mean of the others' serves.
    length = np.diff(rows[:, :, 0], axis=1)
    length = np.concatenate([length, length[:, -1:]], axis=1)
    spread = np.concatenate([rows - rows[:, :, :1], length[:, :, None]], axis=2)
    return root, spread.reshape(-1, spread.shape[2])


def _launch(
    manifest: Manifest,
    root: Ints,
    loop: Ints,
    index: int,
    ctas: int,
    iterations: int,
    random: np.random.Generator,
) -> npt.NDArray[np.uint8]:
    ring_log2 = max(6, (iterations - 1).bit_length())
    warps = ctas * manifest.warps
    root_frame, loop_frame = manifest.sections[0].frames
    kinds = [column.kind for column in root_frame.columns]
    (count,) = (at for at, kind in enumerate(kinds) if kind == "count")
    # Iterations: gaps between clocks, jittered, then summed.
    rows = loop[random.integers(0, len(loop), warps * iterations)]
    gaps = np.diff(rows, axis=1) * random.normal(1, _JITTER, (len(rows), rows.shape[1] - 1))
    spread = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(np.maximum(gaps, 0), axis=1)], axis=1)
    spread = spread.astype(np.int64).reshape(warps, iterations, -1)
    begin = np.cumsum(spread[:, :, -1], axis=1) - spread[:, :, -1]
    body = begin[:, :, None] + spread[:, :, :-1]
    # The root: what comes before the loop, and after it.
    around = root[random.integers(0, len(root), warps)]
    sm_of = np.arange(ctas) % _SMS
    wave = np.arange(ctas) // (2 * _SMS)
    start_ns = 1_795_207_311_996_296_128 + index * 2_000_000 + wave * 150_000 + random.integers(0, 900, ctas)
    origin = 10_000_000_000 + sm_of * 1_000_003
    start = origin + ((start_ns - 1_795_207_311_996_296_128) * _GHZ).astype(np.int64)
    warp_start = np.repeat(start, manifest.warps) + random.integers(4, 60, warps)
    clocks = np.array([kind == "clock" for kind in kinds])
    first = int(np.flatnonzero(clocks)[0])
    placed = around - around[:, first : first + 1] + warp_start[:, None]
    loop_begin = placed[:, count - 1] + 10
    after = np.arange(len(kinds)) > count
    loop_end = loop_begin + begin[:, -1] + spread[:, -1, -1]
    placed[:, after] += (loop_end - placed[:, count + 1])[:, None]
    table = np.where(clocks, placed & 0xFFFFFFFF, 0)
    table[:, count] = iterations
    size = manifest.cta_bytes(ring_log2)
    header = launch_header(manifest, ctas, LaunchBits(ring_log2=ring_log2))
    buffer = np.concatenate([header, np.zeros(ctas * size, np.uint8)])
    words = segments(buffer, ctas, manifest, ring_log2)
    words[:, :, : len(kinds)] = table.reshape(ctas, manifest.warps, -1)
    at = manifest.start(loop_frame, ring_log2) // WORD.itemsize
    full = (loop_begin[:, None, None] + body).reshape(ctas, manifest.warps, -1)
    words[:, :, at : at + full.shape[2]] = full & 0xFFFFFFFF
    end = placed[:, np.flatnonzero(clocks)[-1]].reshape(ctas, -1).max(axis=1) + 8
    end_ns = start_ns + ((end - start) / _GHZ).astype(np.int64)
    start_ns, end_ns = (ns // _STEP_NS * _STEP_NS for ns in (start_ns, end_ns))
    write_headers(
        packed_headers(buffer, ctas, size), np.arange(ctas), sm_of, (start, end), (start_ns, end_ns)
    )
    return buffer
