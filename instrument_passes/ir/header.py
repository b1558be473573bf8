"""Read an op's own text: result names, op name, operands, attributes, successors, location.

The text of an op is what it prints apart from its regions; an op with regions has several texts ("parts").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from profscope.instrument_passes.ir.tokens import significant, unquote

__all__ = ["BARE_KEY", "Header", "Piece", "is_terminator"]

BARE_KEY = re.compile(r"[A-Za-z_][\w$.]*")
_TERMINATOR = re.compile(
    r"scf\.(yield|condition|reduce)|cf\.(br|cond_br|switch)|(ub|llvm)\.unreachable|.*[._](yield|return|terminator)"
)
_CLOSES = {"(": ")", "[": "]", "{": "}", "<": ">"}


def is_terminator(name: str) -> bool:
    """Whether an op of this name ends its block."""
    return _TERMINATOR.fullmatch(name) is not None


class Piece(NamedTuple):
    """A token of an op's own text: `start` and `end` are offsets in part number `part` of the op.

    A region is a piece of kind "region" between the braces that hold it.
    """

    kind: str
    text: str
    part: int
    start: int
    end: int


class Header:
    """The parsed text of one op, without its regions. `parts` are its texts, None standing for a region.

    types: of its results, once `signature.result_types` has read them.
    """

    def __init__(self, parts: Sequence[str | None]) -> None:
        self.parts = parts
        self.types: Sequence[str] | None = None
        self.pieces: list[Piece] = []
        for number, part in enumerate(parts):
            if part is None:
                self.pieces.append(Piece("region", "", number, 0, 0))
            else:
                self.pieces.extend(
                    Piece(kind, text, number, start, end) for kind, text, start, end in significant(part)
                )

    @cached_property
    def closing(self) -> dict[int, int]:
        """Index of the closing bracket for each opening one; `<` counts only where it is closed."""
        partner: dict[int, int] = {}
        opened: list[int] = []
        for index, piece in enumerate(self.pieces):
            if piece.kind != "punctuation":
                continue
            if piece.text in _CLOSES:
                opened.append(index)
            elif piece.text in _CLOSES.values():
                while opened and piece.text != ">" and self.pieces[opened[-1]].text == "<":
                    opened.pop()
                if opened and _CLOSES[self.pieces[opened[-1]].text] == piece.text:
                    partner[opened.pop()] = index
        return partner

    def top_level(self, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Indices of the pieces in [start, end) that are inside no bracket, opening brackets included."""
        index = start
        end = len(self.pieces) if end is None else end
        while index < end:
            yield index
            index = self.closing.get(index, index) + 1

    def find(self, text: str, start: int = 0, end: int | None = None) -> int | None:
        """Index of the first top-level piece with this text in [start, end)."""
        return next((i for i in self.top_level(start, end) if self.pieces[i].text == text), None)

    def slice(self, start: int, end: int) -> str:
        """Text of the pieces in [start, end), all of one part."""
        if start >= end:
            return ""
        first, last = self.pieces[start], self.pieces[end - 1]
        return str(self.parts[first.part])[first.start : last.end]

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """The comma-separated items in [start, end), as index ranges; none if the range is empty."""
        commas = [i for i in self.top_level(start, end) if self.pieces[i].text == ","]
        if start >= end:
            return []
        return list(zip([start, *(i + 1 for i in commas)], [*commas, end], strict=True))

    def opens_region(self, index: int) -> bool:
        return index + 1 < len(self.pieces) and self.pieces[index + 1].kind == "region"

    # Results and name.

    @cached_property
    def result_groups(self) -> list[tuple[str, int | None]]:
        """Names before the `=`, with the count if printed: `%a, %b:2 = ` is [(%a, None), (%b, 2)]."""
        groups: list[tuple[str, int | None]] = []
        index = 0
        while index < len(self.pieces) and self.pieces[index].kind == "value":
            name, count = self.pieces[index].text, None
            index += 1
            if self._text(index) == ":" and self._text(index + 1).isdigit():
                count = int(self._text(index + 1))
                index += 2
            groups.append((name, count))
            if self._text(index) == "=":
                return groups
            index += 1
        return []

    @cached_property
    def result_names(self) -> list[str]:
        names: list[str] = []
        for name, count in self.result_groups:
            names.extend([name] if count is None else [f"{name}#{i}" for i in range(count)])
        return names

    @cached_property
    def name_index(self) -> int:
        if not self.result_groups:
            return 0
        return next(i for i, piece in enumerate(self.pieces) if piece.text == "=") + 1

    @cached_property
    def name(self) -> str:
        if self.name_index >= len(self.pieces) or self.pieces[self.name_index].kind not in ("word", "string"):
            return ""
        return unquote(self.pieces[self.name_index].text)

    def _text(self, index: int) -> str:
        return self.pieces[index].text if index < len(self.pieces) else ""

    # Location: always last.

    @cached_property
    def end(self) -> int:
        """Index where the location starts, or the number of pieces."""
        top = list(self.top_level(self.name_index))
        if len(top) >= 2 and self._text(top[-2]) == "loc" and self._text(top[-1]) == "(":
            return top[-2]
        return len(self.pieces)

    @cached_property
    def loc_text(self) -> str:
        return self.slice(self.end, len(self.pieces))

    # Operands.

    @cached_property
    def use_indices(self) -> list[int]:
        """Indices of the pieces that use a value, in order."""
        argument_lists = self._argument_lists()
        return [
            index
            for index in range(self.name_index, self.end)
            if self.pieces[index].kind == "value"
            and self._text(index + 1)
            != "="  # scf.for %i = ..., iter_args(%acc = %init): defines a block argument
            and not any(start < index < end for start, end in argument_lists)
        ]

    @cached_property
    def operands(self) -> list[str]:
        return [self.pieces[index].text for index in self.use_indices]

    def _argument_lists(self) -> list[tuple[int, int]]:
        """Brackets whose values are block arguments: those of functions and of partitions."""
        top = list(self.top_level(self.name_index, self.end))
        if self.name in ("tt.func", "func.func", "llvm.func"):
            opened = [i for i in top if self._text(i) == "("][:1]
        elif self.name == "ttg.warp_specialize":
            opened = [j for i, j in pairwise(top) if self._text(i).startswith("partition")]
        else:
            opened = []
        return [(i, self.closing[i]) for i in opened if i in self.closing]

    # Attributes.

    @cached_property
    def dictionaries(self) -> list[tuple[int, int]]:
        """Index ranges inside the braces of attribute dictionaries and properties."""
        ranges = []
        for index in self.top_level(self.name_index, self.end):
            text = self._text(index)
            if text == "<" and self._text(index + 1) == "{" and self._text(index - 1) == ")":
                index += 1
                text = "{"
            if text == "{" and not self.opens_region(index) and index in self.closing:
                ranges.append((index + 1, self.closing[index]))
        return ranges

    @cached_property
    def attribute_ranges(self) -> dict[str, tuple[int, int]]:
        """Index range of each attribute's value; an empty range for a unit attribute."""
        ranges: dict[str, tuple[int, int]] = {}
        for first, last in self.dictionaries:
            for start, end in self.split(first, last):
                if start < end:
                    value = start + 2 if self._text(start + 1) == "=" else end
                    ranges[unquote(self._text(start))] = (min(value, end), end)
        for index in self.top_level(self.name_index + 1, self.end):
            if (
                self.pieces[index].kind == "word"
                and self._text(index + 1) == "="
                and index + 2 < self.end
                and self.pieces[index + 2].kind in ("word", "number", "string", "hash", "symbol")
            ):
                last = index + 3 if self._text(index + 3) == "<" else index + 2
                ranges.setdefault(self._text(index), (index + 2, self.closing.get(last, last) + 1))
        return ranges

    @cached_property
    def attributes(self) -> dict[str, str]:
        return {key: self.slice(*where) or "unit" for key, where in self.attribute_ranges.items()}

    # Symbols and successors.

    @cached_property
    def symbol(self) -> str | None:
        """The first symbol among what follows the name: a function's name, a call's callee."""
        for index in self.top_level(self.name_index + 1, self.end):
            if self.pieces[index].kind == "symbol":
                return unquote(self._text(index)[1:])
        return None

    @cached_property
    def successor_ranges(self) -> list[tuple[int, int, int]]:
        """For each target of a branch: index of its label, and the range in its parentheses, maybe empty."""
        ranges = []
        for index in range(self.name_index, self.end):
            if self.pieces[index].kind != "label":
                continue
            if self._text(index + 1) == "(" and index + 1 in self.closing:
                ranges.append((index, index + 2, self.closing[index + 1]))
            else:
                ranges.append((index, index + 1, index + 1))
        return ranges

    @cached_property
    def successors(self) -> list[tuple[str, list[str]]]:
        return [
            (self._text(label), [p.text for p in self.pieces[start:end] if p.kind == "value"])
            for label, start, end in self.successor_ranges
        ]
