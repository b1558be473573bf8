"""One kernel with its spans kept and with its sums kept: both say the same of every warp and site.

On an emulator whose clock only its own readings move (`counting_clock`), records take no time. Both builds
read the clock at the same points, so what they keep is equal to the cycle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import torch

from instrument_passes.manifest import Manifest, Span
from profscope.decoding.alike import Alike
from profscope.decoding.decode import decode
from profscope.decoding.folding import Folded
from profscope.decoding.in_flight import with_transactions
from profscope.decoding.raw import RawLaunch
from profscope.emulator import program
from profscope.emulator.costs import COSTS, Cost, Cycles
from profscope.emulator.ptx.parser import parse
from profscope.emulator.ptx.syntax import Module
from tests.kernels.cases import Case
from tests.support.sessions import session
from tests.support.warp_sums import read_sums

__all__ = [
    "Kept",
    "counting_clock",
    "kept_spans",
    "kept_sums",
    "numbers_of_spans",
    "numbers_of_sums",
    "record",
]

Buffer = npt.NDArray[np.uint8]
_READING: Final = re.compile(r"mov\.u32\s+%\w+, %clock;")
_STEP_CYCLES: Final = 7


@dataclass(frozen=True)
class Kept:
    """Of one warp and site: how often it ran, its cycles, and the longest, -1 where that is not kept."""

    count: int
    total: int
    longest: int


@contextmanager
def counting_clock() -> Iterator[None]:
    """Within it each reading of the emulator's clock moves it on, by 7 cycles, and nothing else does.

    A wait for copies stands behind each reading, of which so many may be under way that it waits for none.
    """

    def stepping(text: str) -> Module:
        return parse(_READING.sub(lambda match: f"{match[0]}\n cp.async.wait_group 99;", text))

    with pytest.MonkeyPatch.context() as patch:
        for cost in Cost:
            patch.setitem(COSTS, cost, Cycles(0, 0))
        patch.setitem(COSTS, Cost.WAIT, Cycles(_STEP_CYCLES, 0))
        patch.setattr(program, "parse", stepping)
        program.load.cache_clear()
        yield
    program.load.cache_clear()


def record(case: Case, **options: Any) -> tuple[Mapping[str, torch.Tensor], list[tuple[Buffer, Manifest]]]:
    """Run a case on the emulator; its outputs, and each launch's buffer."""
    inputs = case.inputs("cpu")
    kept: list[RawLaunch] = []

    def keep(folded: Folded, groups: Sequence[Alike], pool: Executor) -> None:
        for group in groups:
            kept.extend(group.launches())

    with mock.patch.object(Folded, "add", keep):  # which takes the buffers of launches that keep sums
        with session(**options) as prof:
            outputs = case.launch(inputs)
            running = prof._running
            assert running is not None
        launches, notes = running.recorder.fetch()
    assert not notes
    return outputs, [(launch.buffer, launch.manifest) for launch in [*launches, *kept]]


def _site(span: Span) -> tuple[str, str, int, str]:
    return span.kind, span.name, span.line, span.call_path


Key = tuple[int, int, tuple[str, str, int, str]]


def kept_spans(buffer: Buffer, manifest: Manifest) -> dict[Key, Kept]:
    """By CTA, warp and site what its spans come to; sums do not keep the longest of work in flight."""
    decoded = with_transactions(decode(buffer, manifest))
    assert not decoded.dropped
    assert not decoded.unmatched
    by_site: dict[Key, list[int]] = {}
    duration = decoded.end_cycle - decoded.start_cycle
    for cta, warp, span, cycles in zip(
        decoded.cta.tolist(), decoded.warp.tolist(), decoded.span.tolist(), duration.tolist(), strict=True
    ):
        by_site.setdefault((cta, warp, _site(decoded.sites[span])), []).append(cycles)
    return {
        key: Kept(len(cycles), sum(cycles), -1 if key[2][0] == "async" else max(cycles))
        for key, cycles in by_site.items()
    }


def numbers_of_spans(buffer: Buffer, manifest: Manifest) -> dict[tuple[Key, str], list[float]]:
    """By CTA, warp, site and name the payloads, ascending, NaNs last."""
    decoded = decode(buffer, manifest)
    found: dict[tuple[Key, str], list[float]] = {}
    for payload in decoded.payloads:
        for row, value in zip(payload.rows.tolist(), payload.values.tolist(), strict=True):
            site = _site(decoded.sites[decoded.span[row]])
            key = (int(decoded.cta[row]), int(decoded.warp[row]), site), payload.name
            found.setdefault(key, []).append(value)
    return {key: np.sort(values).tolist() for key, values in found.items()}


def numbers_of_sums(buffer: Buffer, manifest: Manifest) -> dict[tuple[Key, str], tuple[float, ...]]:
    """The same as count, NaNs, sum, least and greatest; those that there never were are left out."""
    sums = read_sums(buffer, manifest)
    found = {}
    for section in sums.sections:
        for kept in section.numbers:
            columns = kept.count, kept.nans, kept.total, kept.least, kept.greatest
            for row in np.flatnonzero(kept.count + kept.nans):
                cta = int(sums.headers["cta"][section.area[row]])
                key = (cta, int(section.warp[row]), _site(section.sites[kept.site])), kept.name
                found[key] = tuple(column[row].item() for column in columns)
    return found


def kept_sums(buffer: Buffer, manifest: Manifest) -> dict[Key, Kept]:
    """The same from sums; sites that never ran are left out."""
    sums = read_sums(buffer, manifest)
    found: dict[Key, Kept] = {}
    for section in sums.sections:
        cta = sums.headers["cta"][section.area]
        for column, site in enumerate(section.sites):
            for row in np.flatnonzero(section.count[:, column]):
                key = int(cta[row]), int(section.warp[row]), _site(site)
                numbers = section.count, section.total_cycles, section.longest_cycles
                count, total, longest = (int(each[row, column]) for each in numbers)
                before = found.get(key, Kept(0, 0, -1))
                found[key] = Kept(before.count + count, before.total + total, max(before.longest, longest))
    return found
