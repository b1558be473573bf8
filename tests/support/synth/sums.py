"""Programs and launches that keep sums, made up by the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from instrument_passes.lowering.numbers import WORDS
from instrument_passes.manifest import Column, Frame, Manifest, Section, Span, layout
from instrument_passes.records import CTA_HEADER, WORD, LaunchBits
from instrument_passes.selection import Selection
from profscope.decoding.raw import ORDINARY, Mark, RawLaunch
from tests.support.synth import launch_header, write_headers

__all__ = ["site", "sum_launch", "sum_manifest"]

CLOCK_GHZ = 1.75


def site(parent: int = -1, line: int = 1, **more: Any) -> dict[str, Any]:
    """What a site of `sum_manifest` may say. counted: whether it keeps a count; longest: the longest;
    payloads: the type of each, by name."""
    return {"parent": parent, "line": line, "kind": "op" if parent >= 0 else "kernel", "counted": False} | {
        "longest": True, "times": 1, **more,
    }  # fmt: skip


def sum_manifest(
    programs: Sequence[Sequence[dict[str, Any]]],
    warps: int = 4,
    *,
    kernel: str = "made_up",
    selection: Selection | None = None,
) -> Manifest:
    """A kernel of these warp programs, each a list of its sites; the first is its body, of `warps` warps, and
    the others are partitions of one warp each that run side by side."""
    drafts = []
    for number, program in enumerate(programs):
        columns = [Column("section")] if len(programs) > 1 else []
        spans = []
        for at, each in enumerate(program):
            said = dict(each)
            places = {}
            for name, kind in (("total", "sum"), ("longest", "longest"), ("count", "times")):
                if said.pop("counted" if name == "count" else name, True):
                    places[name] = len(columns)
                    columns.append(Column(kind))
            payloads = []
            for name, kind in said.pop("payloads", {}).items():
                payloads.append(len(columns))
                columns += [Column(kind, name=name), *[Column("more", name=name)] * (WORDS[kind] - 1)]
            scope = said.pop("name", f"scope {said['line']}")
            spans.append(
                Span(
                    id=at,
                    name=scope,
                    op="",
                    frame=0,
                    file="k.py",
                    begin=-1,
                    payloads=tuple(payloads),
                    **places,
                    **said,
                )
            )
        own = warps if number == 0 else 1
        drafts.append(Section(f"s{number}", own, (Frame(0, -1, tuple(columns), 1),), tuple(spans)))
    sections, fixed, ring = layout(drafts, [0, *[1] * (len(programs) - 1)])
    total = warps + len(programs) - 1
    return Manifest(
        kernel, "cuda:90", total, fixed, ring, sections, selection=selection or Selection()
    )  # fmt: skip


def sum_launch(
    manifest: Manifest,
    index: int = 0,
    ctas: int = 6,
    *,
    seed: int = 0,
    unfinished: Sequence[int] = (),
    long: Sequence[int] = (),
    sms: int = 4,
    stride_log2: int = 0,
    device: int = 0,
    mark: Mark = ORDINARY,
) -> RawLaunch:
    """A launch of random sums. unfinished: areas whose CTAs do not end; long: those whose CTAs run for more
    than 2^32 cycles."""
    noise = np.random.default_rng([seed, index])
    bits = LaunchBits(stride_log2, 0)
    areas = manifest.selection.areas(ctas, stride_log2)
    counter = np.zeros(manifest.selection.counter_bytes, np.uint8)
    counter.view(WORD)[:1] = areas
    data = np.zeros((areas, manifest.cta_bytes(0)), np.uint8)
    start = (index + 1) * 10_000_000 + noise.integers(0, 200_000, areas)
    end = start + noise.integers(80_000, 120_000, areas)
    end[list(long)] += 1 << 33
    times = [(cycle / CLOCK_GHZ).astype(np.int64) // 32 * 32 for cycle in (start, end)]
    chosen = manifest.selection
    which = np.array(chosen.ids[:areas]) if chosen.ctas == "list" else np.arange(areas)
    which = which << stride_log2 if chosen.ctas == "stride" else which
    headers = data[:, : CTA_HEADER.itemsize].view(CTA_HEADER)[:, 0]
    write_headers(headers, which, noise.integers(0, sms, areas), (start, end), times)
    in_segment = manifest.segment_bytes(0) // WORD.itemsize
    words = data[:, CTA_HEADER.itemsize :].view(WORD)[:, : manifest.segments * in_segment]
    warps = words.reshape(areas, manifest.segments, in_segment)
    for segment in range(manifest.segments):
        body = manifest.sections[0].warps
        number = max(0, segment - body + 1) if len(manifest.sections) > 1 else 0
        _fill(warps[:, segment], manifest.sections[number], number, noise)
    for area in unfinished:
        headers[area] = np.zeros((), CTA_HEADER)
    buffer = np.concatenate([launch_header(manifest, ctas, bits), data.reshape(-1), counter])
    return RawLaunch(index, manifest, device, 0, ctas, buffer, mark)


def _fill(words: npt.NDArray[np.uint32], section: Section, number: int, noise: np.random.Generator) -> None:
    """words: of one warp of each CTA."""
    frame = section.frames[0]
    row = words[:, frame.offset // WORD.itemsize :]
    if frame.columns and frame.columns[0].kind == "section":
        row[:, 0] = number + 1
    for span in section.spans:
        runs = noise.integers(0, 3, len(words)) if span.count >= 0 else np.ones(len(words), np.int64)
        took = noise.integers(1, 70_000, len(words)) * (runs > 0)
        row[:, span.total] = took
        for at in span.payloads:
            keep = _keep_integers if frame.columns[at].kind == "i32" else _keep_floats
            for warp, times in enumerate((runs * span.times).tolist()):
                row[warp, at : at + WORDS[frame.columns[at].kind]] = keep(times, noise)
        if span.count >= 0:
            row[:, span.count] = runs
        if span.longest >= 0:
            row[:, span.longest] = -(-took // np.maximum(runs * span.times, 1))


def _keep_integers(times: int, noise: np.random.Generator) -> list[int]:
    """The words of so many random numbers, as `instrument_passes.lowering.numbers` has them."""
    numbers = noise.integers(-1 << 31, 1 << 31, times).tolist()
    total, keys = sum(numbers), [number + (1 << 31) for number in numbers]
    low, high = total & 0xFFFFFFFF, total >> 32 & 0xFFFFFFFF
    return [low, high, *_extremes(keys)]


def _keep_floats(times: int, noise: np.random.Generator) -> list[int]:
    """The same of floats, some of which are NaN or infinite."""
    odd = noise.choice([np.nan, np.inf, 0.0, -0.0], times)
    numbers = np.where(noise.random(times) < 0.2, odd, noise.normal(0, 1e6, times)).astype(np.float32)
    some = numbers[~np.isnan(numbers)]
    exact = float(some.astype(np.float64).sum())
    head = np.float32(exact)
    tail = np.float32(exact - float(head)) if np.isfinite(head) else np.float32(np.nan)
    bits = some.view(np.uint32).tolist()
    keys = [each ^ 0xFFFFFFFF if each >> 31 else each | 1 << 31 for each in bits]
    words = np.array([head, tail], np.float32).view(np.uint32).tolist()
    return [*words, *_extremes(keys), times - len(some)]


def _extremes(keys: Sequence[int]) -> list[int]:
    return [0xFFFFFFFF - min(keys), max(keys)] if keys else [0, 0]
