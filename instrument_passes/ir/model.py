"""The tree: ops hold regions, regions hold blocks, blocks hold ops.

Every piece keeps its own text, white space included, and prints it back; only what is edited changes.
What an op's text says (results, operands, types, attributes) is read on demand by `header` and `signature`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from instrument_passes.errors import IRError
from instrument_passes.ir import header as headers
from instrument_passes.ir import signature
from instrument_passes.ir.location import Location
from instrument_passes.ir.tokens import significant

if TYPE_CHECKING:
    from instrument_passes.ir.module import Module

__all__ = ["Block", "Op", "Region", "Value"]


@dataclass(frozen=True)
class Value:
    """An SSA value. `name` is how it is used ("%5", "%5#1"); `type` is "" where the text does not tell."""

    name: str
    type: str
    owner: Op | Block
    index: int


class Region:
    """The blocks between a `{` and its `}`; `parent` is the op that has the region."""

    def __init__(self, head: str, blocks: list[Block], tail: str) -> None:
        self._head = head
        self._tail = tail
        self.blocks = blocks
        self.parent: Op | None = None
        for block in blocks:
            block.parent = self

    def __str__(self) -> str:
        return self._head + "".join(map(str, self.blocks)) + self._tail

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    @property
    def isolated(self) -> bool:
        """Whether values from outside are out of reach: function bodies, warp-specialised partitions."""
        if self.parent is None or self.parent.name in ("module", "builtin.module", "tt.func", "func.func"):
            return True
        return self.parent.name == "ttg.warp_specialize" and self.parent.regions.index(self) > 0

    def walk(self) -> Iterator[Op]:
        """All ops in pre-order; ops may be inserted and erased meanwhile."""
        for block in tuple(self.blocks):
            for op in tuple(block.ops):
                if op.parent is block:
                    yield from op.walk()

    def definitions(self) -> dict[str, tuple[Op | Block, int]]:
        """Owner and index of what the region's blocks define, without what is nested deeper."""
        found: dict[str, tuple[Op | Block, int]] = {}
        for block in self.blocks:
            for index, value in enumerate(block.args):
                found[value.name] = (block, index)
            for op in block.ops:
                for index, name in enumerate(op.header.result_names):
                    found[name] = (op, index)
                    if name.endswith("#0"):  # %5 and %5#0 are one value
                        found[name[:-2]] = (op, index)
                    elif "#" not in name:
                        found[f"{name}#0"] = (op, index)
        return found


class Block:
    """Ops in order. `header` is the text of the label line, "" for an entry block printed without one."""

    def __init__(self, header: str, ops: list[Op]) -> None:
        self.header = header
        self.ops: list[Op] = []
        self.parent: Region | None = None
        for op in ops:
            self.adopt(op)

    def __str__(self) -> str:
        return self.header + "".join(map(str, self.ops))

    def adopt(self, op: Op, index: int | None = None) -> None:
        """Take a parsed op, at the end or at `index`."""
        op.parent = self
        self.ops.insert(len(self.ops) if index is None else index, op)

    @property
    def parent_op(self) -> Op | None:
        return None if self.parent is None else self.parent.parent

    @property
    def label(self) -> str | None:
        tokens = significant(self.header)
        return tokens[0].text if tokens else None

    @property
    def args(self) -> list[Value]:
        """Block arguments; the op that has the region names those of an entry block without a label."""
        return [Value(name, kind, self, i) for i, (name, kind) in enumerate(signature.block_args(self))]

    @property
    def terminator(self) -> Op | None:
        """The last op if it ends the block; loops and branches without results print none."""
        if self.ops and headers.is_terminator(self.ops[-1].name):
            return self.ops[-1]
        return None

    @property
    def indent(self) -> str:
        """The white space its ops start with."""
        for op in self.ops:
            return op.lead.rpartition("\n")[2]
        parent = self.parent_op
        return "" if parent is None else parent.lead.rpartition("\n")[2] + "  "

    def prepend(self, text: str, loc: str | None = None) -> list[Op]:
        """Parse `text` and put the ops first; they get the location of the op around the block, or `loc`."""
        return self.insert(0, text, self._loc(loc))

    def append_before_terminator(self, text: str, loc: str | None = None) -> list[Op]:
        """Parse `text` and put the ops last, but before the terminator if one is printed."""
        end = len(self.ops) - (self.terminator is not None)
        return self.insert(end, text, self._loc(loc))

    def set_header(self, text: str) -> None:
        """Replace the label line."""
        self.header = text
        self.module.changed(text)

    def _loc(self, loc: str | None) -> str:
        if loc is not None or self.parent_op is None:
            return loc or ""
        return self.parent_op.loc_text

    def insert(self, index: int, text: str, loc: str) -> list[Op]:
        """Parse `text`, indent it as the block is, give each op without a location `loc`, insert."""
        from instrument_passes.ir.parser import parse_ops  # it builds these classes

        module = self.module
        near = self.ops[min(index, len(self.ops) - 1)] if self.ops else self.parent_op
        near_line = near.line if near is not None else 0
        lines = textwrap.dedent(text).strip("\n").split("\n")
        indented = "".join(f"\n{self.indent}{line}" if line.strip() else "\n" for line in lines)
        ops = parse_ops(indented.rstrip(), module.filename, near_line)
        for offset, op in enumerate(ops):
            self.adopt(op, index + offset)
            for inner in op.walk():
                if loc and not inner.loc_text:
                    inner.append_text(f" {loc}")
        module.changed(text)
        return ops

    @property
    def module(self) -> Module:
        block: Block = self
        while block.parent is not None and block.parent.parent is not None:
            above = block.parent.parent
            if above.module_ref is not None:
                return above.module_ref
            if above.parent is None:
                break
            block = above.parent
        raise IRError("the block is not part of a module")


class Op:
    """One operation. `parts` alternate between its own text and its regions.

    `line` is the 1-based line in the text read; an inserted op has the line of the op it was put next to.
    """

    def __init__(self, lead: str, parts: list[str | Region], line: int) -> None:
        self.lead = lead
        self.parts = parts
        self.trail = ""
        self.line = line
        self.parent: Block | None = None
        self.module_ref: Module | None = None
        self._header: headers.Header | None = None
        for region in self.regions:
            region.parent = self

    def __str__(self) -> str:
        return self.lead + "".join(map(str, self.parts)) + self.trail

    def __repr__(self) -> str:
        return f"<Op line {self.line}: {self.first_line}>"

    # What the text says.

    @property
    def header(self) -> headers.Header:
        if self._header is None:
            self._header = headers.Header([part if isinstance(part, str) else None for part in self.parts])
        return self._header

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def text(self) -> str:
        """The op's own text, each region shown as `...`."""
        return "".join(part if isinstance(part, str) else " ... " for part in self.parts)

    @property
    def first_line(self) -> str:
        return str(self.parts[0]).partition("\n")[0]

    @property
    def regions(self) -> list[Region]:
        return [part for part in self.parts if isinstance(part, Region)]

    @property
    def results(self) -> list[Value]:
        names = self.header.result_names
        types = signature.result_types(self)
        return [Value(name, types[i] if i < len(types) else "", self, i) for i, name in enumerate(names)]

    @property
    def operands(self) -> list[str]:
        """Names of the values the op uses, in the order of the text; what its regions use is not here."""
        return self.header.operands

    @property
    def operand_types(self) -> list[str]:
        """Types of `operands`, read where each value is defined; "" where that does not tell."""
        values = [self.resolve(name) for name in self.operands]
        return ["" if value is None else value.type for value in values]

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attribute dictionary, properties, `key = value` clauses; a unit attribute has the value "unit"."""
        return MappingProxyType(self.header.attributes)

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

    @property
    def loc(self) -> Location:
        """Raises IRError if the location refers to an alias that is not defined."""
        try:
            return self.module.location(self.loc_text)
        except IRError as error:
            raise self.error(error.message) from error

    # Where it stands.

    @property
    def parent_op(self) -> Op | None:
        return None if self.parent is None else self.parent.parent_op

    @property
    def module(self) -> Module:
        if self.module_ref is not None:
            return self.module_ref
        if self.parent is None:
            raise IRError(f"the op is not part of a module: {self.first_line}", line=self.line)
        return self.parent.module

    def walk(self) -> Iterator[Op]:
        """The op itself, then all in its regions, in pre-order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def resolve(self, name: str) -> Value | None:
        """The value that `name` means for this op, or None if it is not in reach."""
        module, block = self.module, self.parent
        while block is not None and block.parent is not None:
            region = block.parent
            found = module.definitions(region).get(name)
            if found is not None:
                owner, index = found
                return owner.args[index] if isinstance(owner, Block) else owner.results[index]
            if region.isolated or region.parent is None:
                return None
            block = region.parent.parent
        return None

    # Edits.

    def insert_before(self, text: str, loc: str | None = None) -> list[Op]:
        """Parse `text` and insert the ops before this one; they get this op's location, or `loc`."""
        block, index = self._place()
        return block.insert(index, text, self.loc_text if loc is None else loc)

    def insert_after(self, text: str, loc: str | None = None) -> list[Op]:
        """Parse `text` and insert the ops after this one; they get this op's location, or `loc`."""
        block, index = self._place()
        return block.insert(index + 1, text, self.loc_text if loc is None else loc)

    def erase(self) -> None:
        """Take the op, its regions and its line out; uses of its results are the caller's affair."""
        block, index = self._place()
        del block.ops[index]
        module = block.module
        self.parent = None
        module.changed("")

    def replace_header(self, text: str) -> None:
        """Replace the op's own text: all of it, or for an op with regions what stands before the first.

        The location stays unless `text` has one. Raises IRError if `text` is not one op.
        """
        from instrument_passes.ir.parser import parse_ops  # it builds this class

        opening = "" if len(self.parts) == 1 else " {"
        text = text.strip().removesuffix(opening.strip()).rstrip() + opening
        loc = self.loc_text
        new = parse_ops(text + ("\n}" if opening else ""), self.module.filename, self.line)
        if len(new) != 1:
            raise self.error(f"expected one op to replace the header with, found {len(new)}")
        self.set_part(0, text)
        if loc and not self.loc_text:
            self.append_text(f" {loc}")

    def set_part(self, index: int, text: str) -> None:
        """Replace one of the texts between regions."""
        self.parts[index] = text
        self._header = None
        if self.parent is not None or self.module_ref is not None:
            self.module.changed(text)

    def append_text(self, text: str) -> None:
        self.set_part(len(self.parts) - 1, str(self.parts[-1]) + text)

    def splice(self, edits: Sequence[tuple[int, int, int, str]]) -> None:
        """Replace pieces of the own text; each edit is (part, start, end, new text), none overlapping."""
        for part, start, end, text in sorted(edits, key=lambda edit: edit[:3], reverse=True):
            old = str(self.parts[part])
            self.set_part(part, old[:start] + text + old[end:])

    def insert_region(self, index: int, text: str, region: Region) -> None:
        """Insert a text and the region behind it as parts `index` and `index + 1`."""
        self.parts[index:index] = [text, region]
        region.parent = self
        self._header = None
        self.module.changed(text)

    def error(self, message: str) -> IRError:
        """An error that names this op and where it is."""
        file = self.module.filename if self.module_ref or self.parent else ""
        return IRError(f"{message}: {self.first_line}", file, self.line)

    def _place(self) -> tuple[Block, int]:
        if self.parent is None:
            raise self.error("the op is not in a block")
        return self.parent, self.parent.ops.index(self)
