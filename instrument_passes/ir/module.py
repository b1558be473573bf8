"""A module as printed: aliases, and the one module op that holds the functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from instrument_passes.ir import header as headers
from instrument_passes.ir.location import Location, resolve_location
from instrument_passes.ir.model import Block, Op, Region
from instrument_passes.ir.tokens import unquote

__all__ = ["Alias", "Module"]


@dataclass(frozen=True)
class Alias:
    """A definition such as `#loc1 = loc(...)`; `text` is the whole line."""

    lead: str
    name: str
    text: str
    line: int

    def __str__(self) -> str:
        return self.lead + self.text

    @property
    def value(self) -> str:
        return self.text.partition("=")[2].strip()


class Module:
    """A printed TTGIR module. `op` is the module op itself; `filename` is for messages."""

    def __init__(self, filename: str, items: list[Alias | Op], tail: str) -> None:
        self.filename = filename
        self.items = items
        self._tail = tail
        self.op = next(item for item in items if isinstance(item, Op))
        self.op.module_ref = self
        self._aliases = {item.name: item.value for item in items if isinstance(item, Alias) and item.name}
        self._locations: dict[str, Location] = {}
        self._definitions: dict[Region, dict[str, tuple[Op | Block, int]]] = {}
        self._names: set[str] | None = None
        self._next_number: dict[str, int] = {}

    def __str__(self) -> str:
        return "".join(map(str, self.items)) + self._tail

    @property
    def aliases(self) -> Mapping[str, str]:
        """What `#blocked`, `#loc1` and the like stand for, by name."""
        return MappingProxyType(self._aliases)

    @property
    def body(self) -> Block:
        return self.op.regions[0].entry

    @property
    def functions(self) -> list[Op]:
        return [op for op in self.body.ops if op.name == "tt.func"]

    def walk(self) -> Iterator[Op]:
        """All ops inside the module in pre-order; ops may be inserted and erased meanwhile."""
        return self.op.regions[0].walk()

    def attr(self, name: str) -> str | None:
        """Text of a module attribute ("4 : i32"), or None."""
        return self.op.attributes.get(name)

    def set_attr(self, name: str, value: str) -> None:
        """Add or replace a module attribute; `value` is attribute text: `'"x"'`, `"4 : i32"`, `"unit"`."""
        header = self.op.header
        key = name if headers.BARE_KEY.fullmatch(name) else f'"{name}"'
        entry = key if value == "unit" else f"{key} = {value}"
        if not header.dictionaries:
            body = next(i for i in header.top_level() if header.opens_region(i))
            piece, text = header.pieces[body], f"attributes {{{entry}}} "
            self.op.splice([(piece.part, piece.start, piece.start, text)])
            return
        start, end = header.dictionaries[0]
        for item in header.split(start, end):
            if unquote(header.pieces[item[0]].text) == name:
                first, last = header.pieces[item[0]], header.pieces[item[1] - 1]
                self.op.splice([(first.part, first.start, last.end, entry)])
                return
        brace = header.pieces[end]
        self.op.splice([(brace.part, brace.start, brace.start, entry if start == end else f", {entry}")])

    def fresh(self, prefix: str = "ps") -> str:
        """A value name used nowhere in the module, such as "%ps_3"; never handed out twice."""
        if self._names is None:
            self._names = set(headers.value_names(str(self)))
        number = self._next_number.get(prefix, 0)
        while f"%{prefix}_{number}" in self._names:
            number += 1
        self._next_number[prefix] = number + 1
        return f"%{prefix}_{number}"

    def location(self, text: str) -> Location:
        """The location that `loc(...)` text or an alias stands for."""
        if text not in self._locations:
            self._locations[text] = resolve_location(text, self._aliases)
        return self._locations[text]

    def definitions(self, region: Region) -> Mapping[str, tuple[Op | Block, int]]:
        """`region.definitions()`, kept until the next edit."""
        if region not in self._definitions:
            self._definitions[region] = region.definitions()
        return self._definitions[region]

    def changed(self, text: str) -> None:
        """Forget what was derived from the text before an edit that brought in `text`."""
        self._definitions.clear()
        if self._names is not None:
            self._names.update(headers.value_names(text))
