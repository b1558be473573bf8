"""The text of one op without its regions: read on demand, edited in place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

from profscope.instrument_passes.ir.header import Header

__all__ = ["OwnText"]

_INTEGER = re.compile(r"-?[0-9]{1,18}")
# A name without quotes behind at most one result, as nearly all ops print it.
_PLAIN_NAME = re.compile(r"(?:%(?:\d+|[A-Za-z_]\w*)(?::\d+)? = )?([A-Za-z_][\w$.]*) ", re.ASCII)
R = TypeVar("R")  # what stands for a region


class OwnText(Generic[R]):
    """`parts` alternate between the op's own text and its regions; only the texts are read and edited."""

    def __init__(self, parts: list[str | R]) -> None:
        self.parts = parts
        self._header: Header | None = None

    @property
    def header(self) -> Header:
        if self._header is None:
            self._header = Header([part if isinstance(part, str) else None for part in self.parts])
        return self._header

    @property
    def name(self) -> str:
        if self._header is None:
            # Of most ops nobody asks for more, and reading all of the text takes ten times as long.
            plain = _PLAIN_NAME.match(str(self.parts[0]))
            if plain is not None:
                return plain[1]
        return self.header.name

    @property
    def text(self) -> str:
        """The op's own text, each region shown as `...`."""
        return "".join(part if isinstance(part, str) else " ... " for part in self.parts)

    @property
    def first_line(self) -> str:
        return str(self.parts[0]).partition("\n")[0]

    @property
    def operands(self) -> list[str]:
        """Names of the values the op uses, in the order of the text; what its regions use is not here."""
        return self.header.operands

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attribute dictionary, properties, `key = value` clauses; a unit attribute has the value "unit"."""
        return MappingProxyType(self.header.attributes)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An integer attribute such as `3 : i32`; `default` if missing; None if something else."""
        text = self.attributes.get(name)
        if text is None:
            return default
        number = text.partition(":")[0].strip()
        return int(number) if _INTEGER.fullmatch(number) else None

    @property
    def symbol(self) -> str | None:
        """The symbol a tt.func defines or a tt.call calls, without @ and quotes."""
        return self.header.symbol

    @property
    def successors(self) -> list[tuple[str, list[str]]]:
        """For a branch: (label, names of the values passed) of each target, in order."""
        return self.header.successors

    @property
    def loc_text(self) -> str:
        """The location as printed, `loc(#loc12)`, to give to an inserted op; "" if there is none."""
        return self.header.loc_text

    def set_part(self, index: int, text: str) -> None:
        """Replace one of the texts between regions."""
        self.parts[index] = text
        self._header = None
        self._changed(text)

    def append_text(self, text: str) -> None:
        self.set_part(len(self.parts) - 1, str(self.parts[-1]) + text)

    def without_location(self) -> None:
        """Take the location out."""
        if self.loc_text:
            self.set_part(len(self.parts) - 1, str(self.parts[-1]).removesuffix(self.loc_text).rstrip())

    def splice(self, edits: Sequence[tuple[int, int, int, str]]) -> None:
        """Replace pieces of the own text; each edit is (part, start, end, new text), none overlapping."""
        for part, start, end, text in sorted(edits, key=lambda edit: edit[:3], reverse=True):
            old = str(self.parts[part])
            self.set_part(part, old[:start] + text + old[end:])

    def _changed(self, text: str) -> None:
        """Called after an edit that brought in `text`."""
        raise NotImplementedError
