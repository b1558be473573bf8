"""Programs made up by the tests, run record by record in plain Python as an instrumented kernel would run.

A program is a tree of nodes. `launch` lays the programs of a kernel out in a manifest, runs every warp of
every CTA, writes the words that the kernel would write, and keeps its own list of the spans that a decoder
must find: what happened, less what rings overwrote.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.instrument_passes.manifest import Manifest, layout
from profscope.instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, LaunchBits
from tests.support.synth.code import Layout
from tests.support.synth.nodes import Branch, Launch, Loop, Node, Program, Return, Scope, Seen, Work
from tests.support.synth.warps import Warp

__all__ = [
    "Branch",
    "Launch",
    "Loop",
    "Node",
    "Program",
    "Return",
    "Scope",
    "Seen",
    "Work",
    "launch",
    "launch_header",
    "write_headers",
]


def launch(
    programs: Sequence[Program],
    ctas: int = 1,
    *,
    ring_log2: int = 4,
    stride_log2: int = 0,
    start_clock: int = 1 << 40,
    seed: int = 0,
) -> Launch:
    """Run a kernel of these warp programs; the first is its body.

    ctas: CTAs of the grid, of which one in 2^stride_log2 records. Clocks but for a constant follow from the
    programs and `seed`; no clock has a low half of 0.
    """
    noise = random.Random(seed)
    plans = [Layout(program, marked=len(programs) > 1) for program in programs]
    drafts = [plan.section(f"s{i}", programs[i].warps) for i, plan in enumerate(plans)]
    first_warp = _first_warps(programs)
    warps = max(first + program.warps for first, program in zip(first_warp, programs, strict=True))
    sections, fixed, ring = layout(drafts, [program.group for program in programs])
    manifest = Manifest("made_up", "cuda:90", warps, fixed, ring, sections)
    areas = [launch_header(manifest, ctas, LaunchBits(stride_log2, ring_log2))]
    spans: list[Seen] = []
    happened: list[Seen] = []
    records, dropped = 0, 0
    for number in range(manifest.selection.areas(ctas, stride_log2)):
        cta = manifest.selection.cta(number, stride_log2)
        if cta >= ctas:  # a vacant area, which recording takes away
            break
        sm = noise.randrange(132)
        area = np.zeros(manifest.cta_bytes(ring_log2), np.uint8)
        words = area.view("<u4")
        clocks: dict[int, int] = {}
        for index, (plan, section) in enumerate(zip(plans, sections, strict=True)):
            for warp in range(first_warp[index], first_warp[index] + section.warps):
                at = clocks.get(warp, start_clock + noise.randrange(-900, 900))
                ran = Warp(plan, section, cta, at, noise)
                ran.run(index + 1)
                clocks[warp] = ran.clock
                base = (CTA_HEADER.itemsize + warp * manifest.segment_bytes(ring_log2)) // 4
                _store(ran, manifest, ring_log2, words[base:])
                kept = ran.kept_rows(ring_log2)
                spans += list(_seen(ran, index, cta, warp, sm, kept))
                happened += list(_seen(ran, index, cta, warp, sm, [set(range(len(r))) for r in ran.rows]))
                records += _records(ran, kept)
                dropped += _dropped(ran, kept)
        end = max(start_clock, *clocks.values()) + 5
        clock = start_clock, end
        ns = [cycle // 64 * 32 for cycle in clock]  # 2 GHz, 32 ns steps
        write_headers(area[: CTA_HEADER.itemsize].view(CTA_HEADER), cta, sm, clock, ns)
        areas.append(area)
        start_clock += noise.randrange(1_000_000)
    return Launch(manifest, np.concatenate(areas), spans, happened, records, dropped)


def _first_warps(programs: Sequence[Program]) -> list[int]:
    """Partitions of one warp_specialize op run side by side, after the warps of the body."""
    next_warp: dict[int, int] = {}
    found = []
    for program in programs:
        first = next_warp.get(program.group, programs[0].warps if program.group else 0)
        found.append(first)
        next_warp[program.group] = first + program.warps
    return found


def _store(warp: Warp, manifest: Manifest, ring_log2: int, words: npt.NDArray[np.uint32]) -> None:
    for frame in warp.section.frames:
        start = manifest.start(frame, ring_log2) // 4
        for number, row in enumerate(warp.rows[frame.index]):
            at = start + number % frame.rows(ring_log2) * len(row)
            words[at : at + len(row)] = row


def _seen(warp: Warp, section: int, cta: int, warp_id: int, sm: int, kept: list[set[int]]) -> Iterator[Seen]:
    made: dict[int, Seen] = {}
    for event in warp.events:
        frame, number = event.row
        ran = warp.section.spans[event.span].ran
        if number not in kept[frame] or (ran >= 0 and not warp.rows[frame][number][ran]):
            continue
        parent = None if event.parent is None else made[id(event.parent)]
        depth = 0 if parent is None else parent.depth + 1
        seen = Seen(
            section, event.span, cta, warp_id, sm, event.start, event.end, event.iteration, depth, parent
        )
        made[id(event)] = seen
        yield seen


def _records(warp: Warp, kept: list[set[int]]) -> int:
    return sum(
        sum(
            word != 0 and column.kind == "clock"
            for word, column in zip(warp.rows[f.index][n], f.columns, strict=True)
        )
        for f in warp.section.frames
        for n in kept[f.index]
    )


def _dropped(warp: Warp, kept: list[set[int]]) -> int:
    return sum(
        (len(warp.rows[f.index]) - len(kept[f.index])) * sum(column.kind == "clock" for column in f.columns)
        for f in warp.section.frames
    )


def launch_header(manifest: Manifest, ctas: int, bits: LaunchBits) -> npt.NDArray[np.uint8]:
    """The launch header of a grid along x, as bytes."""
    header = np.zeros(1, LAUNCH_HEADER)
    header["grid_x"], header["grid_y"] = ctas, 1
    header["digest"], header["launch_bits"] = manifest.digest, bits.encode()
    return header.view(np.uint8)


def write_headers(
    packed: npt.NDArray[np.void], cta: Any, sm: Any, clock: Sequence[Any], ns: Sequence[Any]
) -> None:
    """Write CTA headers, of CTA_HEADER dtype. cta, sm: ids; clock, ns: of the starts and of the ends; each an
    int, or an int64 array with one for each header."""
    packed["start_clock_low"], packed["end_clock"] = clock[0] & 0xFFFFFFFF, clock[1]
    packed["start_ns_low"], packed["start_ns_high"] = ns[0] & 0xFFFFFFFF, ns[0] >> 32 & 0xFFFF
    packed["end_globaltimer"] = ns[1]
    packed["cta"], packed["place"] = cta, sm
