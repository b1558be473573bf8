"""Build the op / region / block tree from printed TTGIR.

The printed form is line-oriented. Nothing else is relied on, so that unheard-of ops, dialects and attributes
parse too: an op ends where its line ends, unless a bracket is still open; a `{` at the end of a line opens a
region; a line that starts with `default`, `case` or `partition0(` goes on with the op before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import flow
from profscope.instrument_passes.ir.model import Alias, Block, Module, Op, Region
from profscope.instrument_passes.ir.tokens import Token, tokenize

__all__ = ["check_structure", "parse", "parse_ops"]

_CONTINUES = re.compile(r"default|case|partition\d+")
_DEEPEST = 100  # regions in regions; far beyond any kernel, far below Python's recursion limit
_CLOSES = {"(": ")", "[": "]", "{": "}"}


def parse(text: str, filename: str = "<ttgir>") -> Module:
    """Read a printed module. Raises IRError with `filename`, the line and the text expected there."""
    return _Parser(text, filename).module()


def parse_ops(text: str, filename: str, line: int) -> list[Op]:
    """Read ops to put into `filename` at `line`, which is the line that they and errors in them get."""
    try:
        return _Parser(text, filename, line).ops()
    except IRError as error:
        raise IRError(f"in text to insert: {error.message}", filename, line) from error


class _Parser:
    def __init__(self, text: str, filename: str, line: int | None = None) -> None:
        self._text = text
        self._file = filename
        self._fixed_line = line
        self._tokens = list(tokenize(text, filename))
        self._tokens.append(Token("end", "", len(text), len(text)))
        self._next = 0
        self._depth = 0
        self._done = 0  # everything before this offset is already in the tree
        self._line = 1
        self._line_offset = 0

    # What the entry points read.

    def module(self) -> Module:
        items: list[Alias | Op] = []
        while self._skip_blank().kind != "end":
            items.append(self._alias() if self._at_alias() else self._op())
        ops = [item for item in items if isinstance(item, Op)]
        if len(ops) != 1 or ops[0].name not in ("module", "builtin.module"):
            line = ops[1].line if len(ops) > 1 else ops[0].line if ops else 1
            actual = f"{len(ops)} top-level ops" if len(ops) != 1 else f"{ops[0].name!r}"
            raise IRError(f"expected one module, found {actual}", self._file, line)
        if len(ops[0].regions) != 1:
            raise IRError("expected the module's body: '{' at the end of its line", self._file, ops[0].line)
        return Module(self._file, items, self._lead(len(self._text)), parse_ops)

    def ops(self) -> list[Op]:
        ops = []
        while self._skip_blank().kind != "end":
            ops.append(self._op())
        return ops

    # Tokens.

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _skip_blank(self) -> Token:
        while self._peek().kind in ("newline", "comment"):
            self._next += 1
        return self._peek()

    def _lead(self, offset: int) -> str:
        """The text not yet in the tree, up to `offset`."""
        start, self._done = self._done, offset
        return self._text[start:offset]

    def _line_of(self, offset: int) -> int:
        """Line number of an offset; offsets mostly grow, so that counting goes on from the last one."""
        if offset < self._line_offset:
            return self._text.count("\n", 0, offset) + 1
        self._line += self._text.count("\n", self._line_offset, offset)
        self._line_offset = offset
        return self._line

    def _error(self, message: str, token: Token) -> IRError:
        actual = {"end": "the end of the text", "newline": "the end of the line"}.get(
            token.kind, repr(token.text)
        )
        return IRError(f"expected {message}, found {actual}", self._file, self._line_of(token.start))

    def _rest_of_line(self) -> str:
        """A comment on the same line belongs to what stands before it."""
        token = self._peek()
        if token.kind != "comment":
            return ""
        self._next += 1
        return self._lead(token.end)

    # The grammar.

    def _at_alias(self) -> bool:
        token, after = self._peek(), self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        return (token.kind in ("hash", "bang") and after.text == "=") or (
            token.text == "{" and after.text == "-"
        )

    def _alias(self) -> Alias:
        first = self._peek()
        lead = self._lead(first.start)
        line = self._line_of(first.start)
        if first.text == "{":  # {-# resources #-}
            end = self._text.find("#-}", first.end)
            if end < 0:
                raise self._error("'#-}' to close '{-#'", self._tokens[-1])
            while self._peek().start < end + 3 and self._peek().kind != "end":
                self._next += 1
            return Alias(lead, "", self._lead(end + 3), line)
        parts = self._until_line_end(region_allowed=False)
        text = str(parts[0])
        return Alias(lead, first.text, text, line)

    def _op(self) -> Op:
        first = self._peek()
        lead = self._lead(first.start)
        line = self._line_of(first.start) if self._fixed_line is None else self._fixed_line
        if first.kind not in ("value", "word", "string"):
            raise self._error("an op", first)
        op = Op(lead, self._until_line_end(region_allowed=True), line)
        op.trail = self._rest_of_line()
        if not op.name:
            raise IRError(f"expected the name of an op in {op.first_line!r}", self._file, line)
        return op

    def _until_line_end(self, *, region_allowed: bool) -> list[str | Region]:
        """The text and the regions of one op (or alias), to the end of its last line."""
        parts: list[str | Region] = []
        opened: list[Token] = []
        last = self._peek()
        while True:
            token = self._peek()
            if token.kind == "end" and opened:
                line = self._line_of(opened[-1].start)
                raise self._error(
                    f"{_CLOSES[opened[-1].text]!r} to close line {line}'s {opened[-1].text!r}", token
                )
            if token.kind == "end" or (
                token.kind in ("newline", "comment") and not opened and not self._goes_on()
            ):
                break
            self._next += 1
            if token.kind in ("newline", "comment"):
                continue
            last = token
            if token.text in _CLOSES:
                opened.append(token)
                if token.text == "{" and region_allowed and self._peek().kind in ("newline", "comment"):
                    parts.append(self._lead(token.end))
                    parts.append(self._region())
            elif token.text in (")", "]", "}"):
                if not opened or _CLOSES[opened[-1].text] != token.text:
                    expected = repr(_CLOSES[opened[-1].text]) if opened else "the end of the op"
                    raise self._error(expected, token)
                opened.pop()
        parts.append(self._lead(last.end))
        return parts

    def _goes_on(self) -> bool:
        """Whether the next line with something on it continues the op."""
        index = self._next
        while self._tokens[index].kind in ("newline", "comment"):
            index += 1
        token = self._tokens[index]
        return token.kind == "word" and _CONTINUES.fullmatch(token.text) is not None

    def _region(self) -> Region:
        """From after the `{` to before the `}`."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"at most {_DEEPEST} regions in one another", self._peek())
        head = self._rest_of_line()
        blocks: list[Block] = []
        while True:
            token = self._skip_blank()
            if token.kind == "end":
                raise self._error("'}' to close a region", token)
            if token.text == "}":
                break
            if token.kind == "label":
                blocks.append(self._block_header())
                continue
            if not blocks:
                blocks.append(Block("", []))
            blocks[-1].adopt(self._op())
        tail = self._lead(token.start)
        self._depth -= 1
        return Region(head, blocks or [Block("", [])], tail)

    def _block_header(self) -> Block:
        depth = 0
        first = self._peek()
        while True:
            token = self._peek()
            self._next += 1
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.text, 0)
            if token.kind == "end" or (token.kind == "newline" and depth <= 0):
                raise self._error(f"':' after block label {first.text}", token)
            if token.text == ":" and depth == 0:
                return Block(self._lead(token.end) + self._rest_of_line(), [])


# What passes rely on beyond the form of the text: how many operands and regions known ops have.
#
# Triton's verifier holds far more, but passes also see modules that it has never seen.

# At least so many operands, and none but so many.
_LEAST_OPERANDS: Final[Mapping[str, int]] = {
    "scf.for": 3,
    "scf.if": 1,
    "scf.condition": 1,
    "ttng.wait_barrier": 2,
    "llvm.intr.assume": 1,
}
_OPERANDS: Final[Mapping[str, int]] = dict.fromkeys(
    ("arith.addi", "arith.subi", "arith.muli", "arith.cmpi", "arith.cmpf"), 2
)
_VIEWS: Final = "ttg.memdesc_"  # of another piece of memory
_REGIONS: Final[Mapping[str, tuple[int, int]]] = {
    "scf.for": (1, 1),
    "scf.if": (1, 2),
    "scf.while": (2, 2),
    "tt.func": (0, 1),
    "ttg.warp_specialize": (1, 64),
}
_PROGRAMS: Final = ("tt.func", "ttg.warp_specialize")  # their regions are what warps run


def check_structure(module: Module) -> None:
    """Raises IRError naming the first malformed op and its line."""
    for op in module.walk():
        _check_operands(op)
        least, most = _REGIONS.get(op.name, (0, len(op.regions)))
        if not least <= len(op.regions) <= most:
            raise op.error(f"expected {_range(least, most)} regions, found {len(op.regions)}")
        if op.name == "scf.for" and len(op.header.result_names) != len(op.operands) - 3:
            raise op.error("expected a result for each value that the loop starts with")
        if op.name == "scf.if":
            _check_yields(op)
        elif op.name in _PROGRAMS:
            _check_ends(op)
        if op.name == "ttg.warp_specialize":
            _check_captures(op)


def _check_operands(op: Op) -> None:
    exact = _OPERANDS.get(op.name)
    least = _LEAST_OPERANDS.get(op.name, exact or int(op.name.startswith(_VIEWS)))
    count = len(op.operands)
    if count < least or (exact is not None and count > exact):
        raise op.error(f"expected {'' if exact else 'at least '}{least} operands, found {count}")


def _check_yields(branch: Op) -> None:
    """Each region of a branch with results hands on a value for each."""
    results = len(branch.header.result_names)
    for region in branch.regions:
        end = region.entry.terminator
        handed_on = 0 if end is None else len(end.operands)
        if handed_on != results:
            raise branch.error(f"expected {results} values from each region, found {handed_on}")


def _check_captures(op: Op) -> None:
    """Each partition knows what it captures by a name of its own."""
    captured = len(op.operands)
    for partition in flow.partitions(op):
        if len(partition.args) != captured:
            raise op.error(
                f"expected {captured} arguments of partition {partition.index}, found {len(partition.args)}"
            )


def _check_ends(op: Op) -> None:
    """Control leaves every block by its last op."""
    for block in (block for region in op.regions for block in region.blocks):
        if block.terminator is None:
            raise (block.ops[-1] if block.ops else op).error("expected a terminator at the end of the block")


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
