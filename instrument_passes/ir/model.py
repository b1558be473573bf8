"""The tree: a module holds ops, ops hold regions, regions hold blocks, blocks hold ops.

Every piece keeps its own text, white space included, and prints it back; only edited pieces change. `header`
and `signature` read an op's results, operands, types and attributes from its text on demand.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import signature
from profscope.instrument_passes.ir.header import BARE_KEY, is_terminator
from profscope.instrument_passes.ir.location import Location, resolve_location
from profscope.instrument_passes.ir.own_text import OwnText
from profscope.instrument_passes.ir.tokens import FreshNames, significant, unquote

__all__ = ["Alias", "Block", "Module", "Op", "Region", "Value"]


@dataclass(frozen=True)
class Value:
    """An SSA value. `name` is how it is used ("%5", "%5#1"); `type` is "" if the text does not show it."""

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
        """Owner and index of the values that the region's blocks define, without nested regions."""
        definitions: dict[str, tuple[Op | Block, int]] = {}
        for block in self.blocks:
            for index, value in enumerate(block.args):
                definitions[value.name] = (block, index)
            for op in block.ops:
                for index, name in enumerate(op.header.result_names):
                    definitions[name] = (op, index)
                    if name.endswith("#0"):  # %5 and %5#0 are one value
                        definitions[name[:-2]] = (op, index)
                    elif "#" not in name:
                        definitions[f"{name}#0"] = (op, index)
        return definitions


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
        if self.header:
            named = signature.label_args(self.header)
        elif self.parent is not None and self.parent.parent is not None and self.parent.entry is self:
            around = self.parent.parent
            named = signature.region_args(around.header, around.regions.index(self.parent))
        else:
            named = []
        return [Value(name, kind, self, i) for i, (name, kind) in enumerate(named)]

    @property
    def terminator(self) -> Op | None:
        """The last op if it ends the block; loops and branches without results print none."""
        if self.ops and is_terminator(self.ops[-1].name):
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
        module = self.module
        near = self.ops[min(index, len(self.ops) - 1)] if self.ops else self.parent_op
        near_line = near.line if near is not None else 0
        lines = textwrap.dedent(text).strip("\n").split("\n")
        indented = "".join(f"\n{self.indent}{line}" if line.strip() else "\n" for line in lines)
        ops = module.parse_ops(indented.rstrip(), module.filename, near_line)
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


class Op(OwnText[Region]):
    """One operation. `parts` alternate between its own text and its regions.

    `line` is the 1-based line in the text read; an inserted op has the line of the op it was put next to.
    """

    def __init__(self, lead: str, parts: list[str | Region], line: int) -> None:
        super().__init__(parts)
        self.lead = lead
        self.trail = ""
        self.line = line
        self.parent: Block | None = None
        self.module_ref: Module | None = None
        for region in self.regions:
            region.parent = self

    def __str__(self) -> str:
        return self.lead + "".join(map(str, self.parts)) + self.trail

    def __repr__(self) -> str:
        return f"<Op line {self.line}: {self.first_line}>"

    # What the text says.

    @property
    def regions(self) -> list[Region]:
        return [part for part in self.parts if isinstance(part, Region)]

    @property
    def results(self) -> list[Value]:
        names = self.header.result_names
        types = signature.result_types(self.header)
        return [Value(name, types[i] if i < len(types) else "", self, i) for i, name in enumerate(names)]

    @property
    def operand_types(self) -> list[str]:
        """Types of `operands`, read where each value is defined; "" if that does not show it."""
        values = [self.resolve(name) for name in self.operands]
        return ["" if value is None else value.type for value in values]

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

    def ancestors(self) -> Iterator[Op]:
        """The ops that it stands in, the innermost first."""
        if self.parent_op is not None:
            yield from (self.parent_op, *self.parent_op.ancestors())

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
            definition = module.definitions(region).get(name)
            if definition is not None:
                owner, index = definition
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
        opening = "" if len(self.parts) == 1 else " {"
        text = text.strip().removesuffix(opening.strip()).rstrip() + opening
        loc = self.loc_text
        new = self.module.parse_ops(text + ("\n}" if opening else ""), self.module.filename, self.line)
        if len(new) != 1:
            raise self.error(f"expected one op to replace the header with, found {len(new)}")
        self.set_part(0, text)
        if loc and not self.loc_text:
            self.append_text(f" {loc}")

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

    def _changed(self, text: str) -> None:
        if self.parent is not None or self.module_ref is not None:
            self.module.changed(text)

    def _place(self) -> tuple[Block, int]:
        if self.parent is None:
            raise self.error("the op is not in a block")
        return self.parent, self.parent.ops.index(self)


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
    """A printed TTGIR module. `op` is the module op itself; `filename` is for messages.

    `parse_ops(text, filename, line)` reads ops to insert.
    """

    def __init__(
        self,
        filename: str,
        items: list[Alias | Op],
        tail: str,
        parse_ops: Callable[[str, str, int], list[Op]],
    ) -> None:
        self.filename = filename
        self.items = items
        self.parse_ops = parse_ops
        self._tail = tail
        self.op = next(item for item in items if isinstance(item, Op))
        self.op.module_ref = self
        self._aliases = {item.name: item.value for item in items if isinstance(item, Alias) and item.name}
        self._locations: dict[str, Location] = {}
        self._definitions: dict[Region, dict[str, tuple[Op | Block, int]]] = {}
        self._names: FreshNames | None = None

    def __str__(self) -> str:
        return "".join(map(str, self.items)) + self._tail

    @property
    def aliases(self) -> Mapping[str, str]:
        """The definitions of `#blocked`, `#loc1` and the like, by name."""
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

    def integer(self, name: str, default: int | None = None) -> int:
        """A module attribute such as "4 : i32".

        Raises IRError if it is not an integer, or is missing and there is no default.
        """
        number = self.op.integer(name, default)
        if number is None:
            actual = "there is none" if self.attr(name) is None else f"it is {self.attr(name)!r}"
            raise IRError(
                f"expected an integer for the module's attribute {name}; {actual}",
                self.filename,
                self.op.line,
            )
        return number

    def set_attr(self, name: str, value: str) -> None:
        """Add or replace a module attribute; `value` is attribute text: `'"x"'`, `"4 : i32"`, `"unit"`."""
        header = self.op.header
        key = name if BARE_KEY.fullmatch(name) else f'"{name}"'
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
            self._names = FreshNames(str(self))
        return self._names.new(prefix)

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
        """Forget facts derived from the text before an edit that brought in `text`."""
        self._definitions.clear()
        if self._names is not None:
            self._names.add(text)
