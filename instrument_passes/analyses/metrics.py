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

from instrument_passes.analyses.opclasses import info_of
from instrument_passes.ir import Op
from instrument_passes.ir.signature import signature_range

__all__ = ["Tile", "bytes_of", "flops_of", "tiles"]

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
    """Bytes that one CTA moves each time it executes the op; 0 where there are none or no type tells."""
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
