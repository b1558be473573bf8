"""What a stack of launches that kept sums says, launch by launch: the step from words to figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest, Span
from instrument_passes.records import WORD
from profscope.decoding.clocks import LaunchClocks, clocks_of
from profscope.decoding.cta_shapes import CtaShape, shapes_of
from profscope.decoding.numbers import NumberFigures, Payload, number_words, payloads_of
from profscope.decoding.spread import Spread, no_spread, spread_of
from profscope.decoding.stacks import Stack
from profscope.decoding.sums import SiteValues, site_values

__all__ = ["BY", "Layout", "Place", "StackSums", "sum_up"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint32]

BY: Final = ("cta", "warp", "sm")
"""Among what a scope's time is spread."""


class Place(NamedTuple):
    """A scope as tables tell it from others: what several sites of a program may have in common."""

    scope: str
    kind: str
    file: str
    line: int
    call_path: str

    @staticmethod
    def of(site: Span) -> Place:
        return Place(site.name, site.kind, site.file, site.line, site.call_path)


@dataclass(frozen=True)
class Layout:
    """A program's sites, those of all sections one after the other.

    sections: by site, the number of its section. parents: by site, the number of the site around it, -1 at a
    root. places: what the sites are to tables; of_place: by place, the numbers of its sites. payloads: of all
    sites, each with the number of its site.
    """

    manifest: Manifest

    @cached_property
    def sites(self) -> tuple[Span, ...]:
        return tuple(site for section in self.manifest.sections for site in section.spans)

    @cached_property
    def sections(self) -> list[int]:
        return [number for number, each in enumerate(self.manifest.sections) for _ in each.spans]

    @cached_property
    def bases(self) -> list[int]:
        """By section, the number of its first site."""
        return [0, *accumulate(len(section.spans) for section in self.manifest.sections)]

    @cached_property
    def parents(self) -> Ints:
        above = [
            site.parent + self.bases[section] if site.parent >= 0 else -1
            for site, section in zip(self.sites, self.sections, strict=True)
        ]
        return np.array(above, np.int64)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(map(Place.of, self.sites)))

    @cached_property
    def of_place(self) -> list[list[int]]:
        numbers: dict[Place, list[int]] = {}
        for number, site in enumerate(self.sites):
            numbers.setdefault(Place.of(site), []).append(number)
        return list(numbers.values())

    @cached_property
    def payloads(self) -> tuple[Payload, ...]:
        return tuple(
            payload._replace(site=payload.site + base)
            for section, base in zip(self.manifest.sections, self.bases, strict=False)
            for payload in payloads_of(section)
        )


_TURNED_BYTES = 256 << 10
_LESS_THAN_NOTHING = 1 << 31  # an unsigned 32-bit sum from here on may be a negative one
_SLACK_CYCLES = 1 << 16  # a kernel's first clock is read before its CTA's header says that it began


@dataclass(frozen=True)
class StackSums:
    """Figures of L launches. warps: that ran each section, shape (sections, L). count, cycles, longest: of
    each site, shape (sites, L); the longest is -1 where it was not kept or is not known. left_out: by site of
    asynchronous work, warps of which it tells nothing, shape (sites,). spreads: of the cycles of each place
    among what BY names, shape (places, 3, L). numbers: of all these launches together. clocks: of the
    launches. shapes: of some of them, how their CTAs filled the device."""

    warps: Ints
    count: Ints
    cycles: Ints
    longest: Ints
    left_out: Ints
    spreads: Spread
    numbers: NumberFigures
    clocks: LaunchClocks
    shapes: list[CtaShape]


def sum_up(stack: Stack, layout: Layout, *, shapes: bool = True) -> StackSums:
    """The figures of all launches of a stack, less CTAs that did not end, or that wrapped. shapes: whether
    those are wanted, too."""
    valid = stack.ended & ~stack.wrapped
    launches, sites, places = len(valid), len(layout.sites), len(layout.places)
    words = _by_word(stack.words)
    rans = [_ran(words, layout.manifest, index, valid) for index in range(len(layout.manifest.sections))]
    warps = np.array([_total(ran, words.shape[1:]) for ran in rans], np.int64).reshape(-1, launches)
    count, cycles = np.zeros((sites, launches), np.int64), np.zeros((sites, launches), np.int64)
    longest = np.full((sites, launches), -1)
    left_out = np.zeros(sites, np.int64)
    took_ctas = np.where(valid, stack.times.end_clock - stack.times.start_clock, 0)[:, None, :]
    sms = _Sms(stack.sm, words.shape[2])
    spreads = no_spread((places, len(BY), launches))
    for place, numbers in enumerate(layout.of_place):
        parts = []
        for number in numbers:
            section, site = layout.sections[number], layout.sites[number]
            values, ran = _values(words, layout, number, took_ctas), rans[section]
            took = _where(values.total_cycles, ran)
            if values.left_out is None:
                took = _without_less_than_nothing(took, took_ctas)
            if values.count is None:
                there, count[number] = ran, warps[section] * site.times
            else:
                times = _where(values.count, ran)
                there, count[number] = times > 0, times.sum(axis=(1, 2))
            if values.left_out is not None:
                left_out[number] = np.count_nonzero(_where(values.left_out, ran))
            if values.longest_cycles is not None:
                most = _where(values.longest_cycles, ran)
                longest[number] = most.max(axis=(1, 2), initial=0)
                longest[number][(most > took_ctas + _SLACK_CYCLES).any(axis=(1, 2))] = -1
            parts.append((took, there))
        alone = len(parts) == 1
        for number, (took, _) in zip(numbers if not alone else (), parts, strict=False):
            cycles[number] = took.sum(axis=(1, 2), dtype=np.int64)
        for part, of_place in zip(spreads, sms.spreads(*_united(parts)), strict=True):
            part[place] = of_place
        if alone:
            cycles[numbers[0]] = spreads.total[place, BY.index("cta")]
    kept = _numbers(words, layout, rans, count)
    clocks = clocks_of(stack.sm, stack.times, valid)
    of_ctas = shapes_of(stack) if shapes else []
    return StackSums(warps, count, cycles, longest, left_out, spreads, kept, clocks, of_ctas)


def _without_less_than_nothing(took: npt.NDArray[Any], of_ctas: Ints) -> npt.NDArray[Any]:
    """Sums of warps, shape (L, warps, C), those of them 0 that say more than the CTA lasted.

    ptxas reads clocks by two kinds of instruction. Where a span begins with the slower one and ends with the
    other, after little else, it lasts less than nothing by these, modulo 2^32.
    """
    if took.max(initial=0) < _LESS_THAN_NOTHING:
        return took
    return np.where(took > of_ctas + _SLACK_CYCLES, 0, took)


def _numbers(words: Words, layout: Layout, rans: Sequence[Flags | None], count: Ints) -> NumberFigures:
    """Of the payloads. rans: by section, which warps ran it; count: of each site, by launch."""
    figures = NumberFigures.none(len(layout.payloads))
    for at, payload in enumerate(layout.payloads):
        section = layout.sections[payload.site]
        kept = number_words(_columns(words, layout, section), payload, rans[section])
        figures.add(at, kept, int(count[payload.site].sum()))
    return figures


def _by_word(words: Words) -> Words:
    """By word, launch, warp of the CTA and CTA: what is added up lies side by side. words: of a `Stack`."""
    launches, ctas, warps, width = words.shape
    turned = np.empty((width, launches, warps, ctas), np.uint32)
    step = max(
        1, _TURNED_BYTES // (4 * ctas * warps * width or 1)
    )  # it stays in the cache while it is turned
    for begin in range(0, launches, step):
        some = slice(begin, begin + step)
        turned[:, some] = words[some].transpose(3, 0, 2, 1)
    return turned


def _united(parts: Sequence[tuple[npt.NDArray[Any], Flags | None]]) -> tuple[npt.NDArray[Any], Flags | None]:
    """What several sites took together, and which warps ran any of them; None for all."""
    took, there = parts[0]
    for more, also in parts[1:]:
        took = took.astype(np.float64) + more
        there = None if there is None or also is None else there | also
    return took, there


def _ran(words: Words, manifest: Manifest, index: int, valid: Flags) -> Flags | None:
    """Which warps of these CTAs ran a section, shape (L, warps, C), as `shapes.warps_of`; None if all did."""
    if len(manifest.sections) == 1:
        return None if valid.all() else np.broadcast_to(valid[:, None], words.shape[1:])
    marker = manifest.sections[index].frames[0].offset // WORD.itemsize
    mine: Flags = (words[marker] == index + 1) & valid[:, None]
    if index:  # a warp of the kernel's body may have anything where a later partition has its marker
        mine &= words[0] != 1
    return mine


def _values(words: Words, layout: Layout, number: int, cycles: Ints) -> SiteValues:
    section = layout.sections[number]
    spans, at = layout.manifest.sections[section].spans, number - layout.bases[section]
    return site_values(_columns(words, layout, section), spans, at, cycles)


def _columns(words: Words, layout: Layout, section: int) -> Words:
    """The words from a section's row on."""
    return words[layout.manifest.sections[section].frames[0].offset // WORD.itemsize :]


def _where(values: npt.NDArray[Any], ran: Flags | None) -> npt.NDArray[Any]:
    return values if ran is None else values * ran


def _total(ran: Flags | None, shape: tuple[int, ...]) -> Ints:
    """How many warps ran, by launch."""
    return np.full(shape[0], shape[1] * shape[2]) if ran is None else ran.sum(axis=(1, 2))


class _Sms:
    """Which CTAs ran on one SM. sm: shape (L, C); warps: of a CTA."""

    def __init__(self, sm: npt.NDArray[np.uint16], warps: int) -> None:
        self._most = int(sm.max(initial=0)) + 1
        self._launches, self._ctas = sm.shape
        self._warps = warps
        self._key = (sm + np.arange(len(sm))[:, None] * self._most).reshape(-1)
        self._all = self._sums(np.ones(sm.shape)) > 0

    def spreads(self, of_warp: npt.NDArray[Any], present: Flags | None) -> Spread:
        """Of values of shape (L, warps, C): among CTAs, warps and SMs, shape (3, L)."""
        floats = of_warp.astype(np.float64)
        of_cta = floats.sum(axis=1)
        total = of_cta.sum(axis=1)
        cta_there: Flags | None = None if present is None else np.any(present, axis=1)
        of_sm, sm_there = self._sums(of_cta), self._all if cta_there is None else self._sums(cta_there) > 0
        flat = (self._launches, self._warps * self._ctas)
        parts = (
            spread_of(of_cta, cta_there, of_cta, total),
            spread_of(
                of_warp.reshape(flat),
                None if present is None else present.reshape(flat),
                floats.reshape(flat),
                total,
            ),
            spread_of(of_sm, sm_there, of_sm, total),
        )
        return Spread(*(np.array(arrays) for arrays in zip(*parts, strict=True)))

    def _sums(self, values: npt.NDArray[Any]) -> Floats:
        """Sums over the CTAs of each SM, shape (L, SMs)."""
        shape = self._launches, self._most
        sums: Floats = np.bincount(self._key, values.reshape(-1), shape[0] * shape[1]).astype(np.float64)
        return sums.reshape(shape)
