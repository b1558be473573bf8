"""Payloads of which launches kept sums: from the words of the warps to counts, totals and extremes.

`instrument_passes.lowering.numbers` writes the words. The extremes stay keys until all warps are folded:
unsigned integers in the order of the numbers, for the least the complement of its key, so that the greatest
word of several warps is theirs together, and a warp that had no number, whose words are 0, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.lowering.numbers import WORDS
from instrument_passes.manifest import Section

__all__ = ["NumberFigures", "NumberWords", "Payload", "number_words", "numbers_of", "payloads_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint32]

_SIGN: Final = np.uint32(1 << 31)


class Payload(NamedTuple):
    """One of a section. site: the number of its span in there; at: the first of its columns; kind: "i32" or
    "f32"."""

    site: int
    at: int
    name: str
    kind: str


def payloads_of(section: Section) -> Iterator[Payload]:
    """The payloads of a section that keeps sums."""
    columns = section.frames[0].columns
    for site, span in enumerate(section.spans):
        for at in span.payloads:
            yield Payload(site, at, columns[at].name, columns[at].kind)


class NumberWords(NamedTuple):
    """What warps kept of one payload, arrays of one shape. nans: None where there can be none; total: int64,
    or float64 of an f32; least, greatest: keys, the least as its complement."""

    nans: Ints | None
    total: npt.NDArray[Any]
    least: Words
    greatest: Words


def number_words(columns: Words, payload: Payload, ran: npt.NDArray[np.bool_] | None = None) -> NumberWords:
    """columns: the words of the section's rows, shape (columns, ...). ran: which rows are its own, of the
    shape of one column, None for all: the others may hold anything, and count as 0."""
    words = columns[payload.at : payload.at + WORDS[payload.kind]]
    low, high, least, greatest, *nans = words if ran is None else words * ran
    if payload.kind == "i32":
        total = (high.astype(np.int64) << 32) | low
        return NumberWords(None, total, least, greatest)
    head, tail = (np.ascontiguousarray(word).view(np.float32).astype(np.float64) for word in (low, high))
    finite = np.isfinite(head)
    return NumberWords(nans[0].astype(np.int64), head + np.where(finite, tail, 0.0), least, greatest)


def numbers_of(keys: Words, kind: str) -> npt.NDArray[Any]:
    """The numbers that keys stand for: int64, or float64 of an f32."""
    if kind == "i32":
        return np.ascontiguousarray(keys ^ _SIGN).view(np.int32).astype(np.int64)
    # A key's highest bit is set where the number is positive.
    bits = np.where(keys & _SIGN, keys ^ _SIGN, ~keys).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)


@dataclass(frozen=True)
class NumberFigures:
    """Of each payload of a program, over many warps, arrays of shape (payloads,).

    count: how many numbers there were, NaNs left out; nans: how many of those. integers: the total of those
    that are i32, exact modulo 2^64; floats: of the others, float64. least, greatest: keys, as in
    `NumberWords`.
    """

    count: Ints
    nans: Ints
    integers: Ints
    floats: Floats
    least: Words
    greatest: Words

    @staticmethod
    def none(payloads: int) -> NumberFigures:
        count, nans, integers = np.zeros((3, payloads), np.int64)
        least, greatest = np.zeros((2, payloads), np.uint32)
        return NumberFigures(count, nans, integers, np.zeros(payloads), least, greatest)

    def add(self, at: int, words: NumberWords, times: int) -> None:
        """Add what warps kept of payload `at`, 0 where a warp has no part in it. times: how often their site
        ran in all."""
        nans = 0 if words.nans is None else int(words.nans.sum())
        self.nans[at] += nans
        self.count[at] += times - nans
        if words.total.dtype == np.int64:
            self.integers[at] += words.total.sum()
        else:
            with np.errstate(invalid="ignore"):  # infinities of both signs: their total is no number
                self.floats[at] += words.total.sum()
        self.least[at] = max(self.least[at], words.least.max(initial=0))
        self.greatest[at] = max(self.greatest[at], words.greatest.max(initial=0))

    def together(self, other: NumberFigures) -> NumberFigures:
        """Both, as one."""
        with np.errstate(invalid="ignore"):
            floats = self.floats + other.floats
        return NumberFigures(
            self.count + other.count,
            self.nans + other.nans,
            self.integers + other.integers,
            floats,
            np.maximum(self.least, other.least),
            np.maximum(self.greatest, other.greatest),
        )

    def columns(self, payloads: Sequence[Payload]) -> dict[str, list[Any]]:
        """Columns of a table, a row for each payload: count, nans, and as floats total, mean, least and
        greatest, the last three NaN where there was no number."""
        columns: dict[str, list[Any]] = {"count": self.count.tolist(), "nans": self.nans.tolist()}
        is_i32 = np.array([payload.kind == "i32" for payload in payloads], np.bool_)
        some = self.count > 0
        total = np.where(is_i32, self.integers.astype(np.float64), self.floats)
        mean = np.divide(total, self.count, out=np.full(len(total), np.nan), where=some)
        columns |= {"total": total.tolist(), "mean": mean.tolist()}
        for name, keys in (("least", ~self.least), ("greatest", self.greatest)):
            columns[name] = [
                float(numbers_of(keys[at : at + 1], payload.kind)[0]) if some[at] else math.nan
                for at, payload in enumerate(payloads)
            ]
        return columns
