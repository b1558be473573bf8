"""Bytes moved and floating-point operations of one execution of an op by one CTA, from its types alone.

Masks and predicates are not known here: the figures are those of a full tile. Types in TTGIR are those of the
whole cluster, so they are divided by the number of CTAs that their layout splits them over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from profscope.instrument_passes.analyses.async_roles import Role, barrier_of, source_of
from profscope.instrument_passes.analyses.places import is_drain
from profscope.instrument_passes.analyses.walk import program_of
from profscope.instrument_passes.ir import Op
from profscope.instrument_passes.ir.signature import signature_range
from profscope.instrument_passes.ops import info_of

__all__ = ["Tile", "bytes_of", "flops_of", "landing_bytes", "phase_bytes", "tiles"]

_HEAD: Final = re.compile(r"(tensor|!ttg\.memdesc|(?<=[ ,(])|^)<")
_SHAPED: Final = re.compile(r"((?:\d+x)*)(!tt\.ptr<[^<>]*>|[A-Za-z]\w*)(?:, (.*))?", re.DOTALL)
_SPLIT: Final = re.compile(r"CTASplit\w* = \[?([\d, ]+)")
_BASES: Final = re.compile(r"CGALayout = \[((?:\[[^\]]*\](?:, )?)*)\]")
_BITS: Final = re.compile(r"(?:tf|bf|f|i|ui|si)(\d+)")
_POINTER_BITS: Final = 64
# Formats of dot_scaled whose values are packed two a byte along K, where the type shows bytes.
_PACKED: Final = "e2m1"


@dataclass(frozen=True)
class Tile:
    """A tensor, or a piece of shared or tensor memory, as a type tells it, split over `ctas` CTAs."""

    memory: bool
    shape: tuple[int, ...]
    element: str
    ctas: int = 1

    @property
    def elements(self) -> int:
        """Elements that one CTA has."""
        return max(1, math.prod(self.shape) // self.ctas)

    @property
    def bytes(self) -> int:
        """Bytes that one CTA has; a boolean takes a byte in memory, an element of 4 bits half of one."""
        return -(-self.elements * _bits(self.element) // 8)


def bytes_of(op: Op) -> int:
    """Bytes that one CTA moves each time it executes the op; 0 if there are none or the types do not give
    them."""
    info = info_of(op)
    tile = None if info is None or not info.moves else _moved(op, info.moves)
    return 0 if tile is None else tile.bytes


def flops_of(op: Op) -> int:
    """Floating-point operations (2 M N K of a dot, whatever its types) of one CTA; 0 for all other ops."""
    info = info_of(op)
    if info is None or not info.flops:
        return 0
    shapes = list(tiles(op))
    if len(shapes) < 3:
        return 0
    lhs, product = shapes[0], shapes[2 if info.flops == "mma" else -1]
    return 2 * product.elements * lhs.shape[-1] * _packing(op)


def tiles(op: Op) -> Iterator[Tile]:
    """Every tensor and memory type that the op prints behind its colon, in order."""
    header = op.header
    text = header.slice(*signature_range(header))
    position = 0
    while (match := _HEAD.search(text, position)) is not None:
        position = _closing(text, match.end())
        tile = _tile(text[match.end() : position - 1], match[1] != "tensor", op.module.aliases)
        if tile is not None:
            yield tile


def _closing(text: str, start: int) -> int:
    """The offset behind the `>` that closes the `<` before `start`; the one of an arrow is none."""
    depth = 1
    for offset in range(start, len(text)):
        if text[offset] == "<":
            depth += 1
        elif text[offset] == ">" and text[offset - 1] != "-":
            depth -= 1
            if depth == 0:
                return offset + 1
    return len(text)


def _tile(text: str, memory: bool, aliases: Mapping[str, str]) -> Tile | None:
    match = _SHAPED.fullmatch(text)
    if match is None:
        return None
    shape = tuple(int(size) for size in match[1].split("x") if size)
    encoding = (match[3] or "").split(",")[0]
    return Tile(memory, shape, match[2], _ctas(aliases.get(encoding, encoding)))


def _ctas(encoding: str) -> int:
    """CTAs of a cluster that a layout splits a tensor over; Triton 3.6 prints factors, later ones bases."""
    bases = _BASES.search(encoding)
    if bases is not None:
        return 1 << sum(bool(re.search("[1-9]", basis)) for basis in re.findall(r"\[[^\]]*\]", bases[1]))
    factors = [int(n) for group in _SPLIT.findall(encoding) for n in re.findall(r"\d+", group)]
    return math.prod(factors)


def _bits(element: str) -> int:
    if element.startswith("!tt.ptr"):
        return _POINTER_BITS
    match = _BITS.match(element)
    bits = int(match[1]) if match else 8
    return 8 if bits == 1 else 32 if bits == 19 else bits  # tf32 is stored as 32 bits


def _moved(op: Op, rule: str) -> Tile | None:
    shapes = list(tiles(op))
    if rule == "result":
        return _type_tile(op.results[0].type if op.results else "", op.module.aliases)
    if rule == "pointee":
        return _pointee(shapes[0], op) if shapes else _scalar_pointee(op)
    if rule == "memdesc":
        return max((tile for tile in shapes if tile.memory), key=lambda tile: tile.bytes, default=None)
    if rule == "tensor":
        values = (tile for tile in shapes if not tile.memory and not tile.element.startswith("!tt.ptr"))
        return max(values, key=lambda tile: tile.bytes, default=None)
    return shapes[0 if rule == "first" else -1] if shapes else None


def _type_tile(kind: str, aliases: Mapping[str, str]) -> Tile | None:
    match = _HEAD.match(kind)
    if match is not None and kind.endswith(">"):
        return _tile(kind[match.end() : -1], match[1] != "tensor", aliases)
    return _tile(kind, False, aliases)


def _pointee(pointers: Tile, op: Op) -> Tile | None:
    match = re.fullmatch(r"!tt\.ptr<([^,<>]+).*>", pointers.element)
    return Tile(False, pointers.shape, match[1], pointers.ctas) if match else None


def _scalar_pointee(op: Op) -> Tile | None:
    header = op.header
    match = re.match(r"!tt\.ptr<([A-Za-z]\w*)", header.slice(*signature_range(header)))
    return Tile(False, (), match[1]) if match else None


def _packing(op: Op) -> int:
    """Values of K in one element of the left operand: 2 where two 4-bit floats are packed in a byte."""
    text = op.text
    match = re.search(r"\blhs = (\w+)", text)
    if match is None or match[1] != _PACKED:
        return 1
    return 1 if op.attributes.get("lhs_k_pack") == "false" else 2


_WAITS: Final = ("ttg.async_wait", "amdg.async_wait")
_GROUP: Final = "ttg.async_commit_group"
_INIT: Final = "ttng.init_barrier"
_EXPECT: Final = "ttng.barrier_expect"
_NUMBER: Final = re.compile(r"ttng\.(?:barrier_expect|init_barrier)\s+%[\w#]+\s*,\s*(\d+)\b")


def landing_bytes(op: Op) -> int:
    """Bytes that one CTA's copies have moved each time this wait returns; 0 for other ops, for a wait behind
    the loop, whose copies others have waited for, and where tokens do not lead to the copies.

    A loop-carried token counts as its initial value, since the copies of all steps are alike. So a loop's
    waits end as many bytes as its copies move, although the last copies are switched off. Waits on barriers
    have no tokens: see `phase_bytes`.
    """
    if op.name not in _WAITS or is_drain(op):
        return 0
    return sum(_bytes_behind(op, token) for token in op.operands)


def phase_bytes(roles: Mapping[Op, Role]) -> dict[Op, int]:
    """By wait on barriers, the bytes that arrived each time it returns: the bytes that the barrier expects,
    as the hardware counts them. roles: of a kernel, of `async_roles.roles`.

    Only of barriers whose phases each end with one such arrival of equal size, and whose waits each find a
    phase of their own from the first on. Then each return of a wait is one arrival, unless a kernel waits for
    a phase twice. If several partitions wait for one arrival, the waits of the first partition have its
    bytes.
    """
    expected: dict[int, set[int | None]] = {}
    waits: dict[int, list[Op]] = {}
    channel_of: dict[Op, int] = {}
    for op, role in roles.items():
        barriers = barrier_of(op)
        if barriers is not None:
            channel_of[barriers] = role.channel
        if op.name == _EXPECT:
            expected.setdefault(role.channel, set()).add(_number(op))
        elif role.part == "phase" and not role.pending:
            waits.setdefault(role.channel, []).append(op)
    arrivals: dict[int, set[int | None]] = {}
    for op in next(iter(roles)).module.walk() if expected else ():
        root = barrier_of(op) if op.name == _INIT else None
        if root in channel_of:
            arrivals.setdefault(channel_of[root], set()).add(_number(op))
    landed: dict[Op, int] = {}
    for channel, sizes in expected.items():
        size = sizes.pop() if len(sizes) == 1 and arrivals.get(channel) == {1} else None
        mine = waits.get(channel, [])
        landed |= {op: size for op in mine if size and program_of(op) is program_of(mine[0])}
    return landed


def _number(op: Op) -> int | None:
    """The bytes, or arrivals, that a barrier is to expect; None if they are not written down."""
    match = _NUMBER.search(op.text)
    return None if match is None else int(match[1])


def _bytes_behind(user: Op, token: str) -> int:
    """Of the copies, alone or in groups, that a token stands for."""
    value = user.resolve(token)
    for _ in range(50):  # loops in loops
        source = None if value is None else source_of(value)
        if source is None or isinstance(source, Op):
            break
        value = source
    else:
        return 0
    if source is None:
        return 0
    if source.name == _GROUP:
        return sum(_bytes_behind(source, copy) for copy in source.operands)
    return bytes_of(source)
