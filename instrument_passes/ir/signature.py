"""Types of an op's results and of its regions' arguments, as far as the printed form tells."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from profscope.instrument_passes.ir.header import Header

__all__ = [
    "element_type",
    "elements",
    "for_types",
    "label_args",
    "region_args",
    "result_types",
    "signature_range",
    "type_list",
    "with_element",
]

# Asynchronous ops print no type for the token they return; tmem_load returns one behind its first result.
_TOKEN_OPS = re.compile(
    r"(ttg|amdg)\.(async_\w+|buffer_load_to_local)|ttng\.(tc_gen5_mma\w*|tmem_(store|copy))"
)
_TOKEN = "!ttg.async.token"
# Ops that print `-> T` in front of their body, not `: ... -> T` at the end.
_ARROW_BEFORE_BODY = ("scf.for", "scf.if", "scf.index_switch", "tt.func")
# Ops that print the type their results share once.
_SHARED = ("arith.mulsi_extended", "arith.mului_extended", "tt.split")
# Ops that print no type at all; the constants are true and false.
_UNTYPED = {"arith.constant": ["i1"], "ttg.warp_id": ["i32"]}
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.*)>", re.DOTALL)


def type_list(header: Header, start: int, end: int) -> list[str]:
    """The types in [start, end): one, several with commas, or a list in parentheses."""
    if start < end and header.pieces[start].text == "(" and header.closing.get(start) == end - 1:
        start, end = start + 1, end - 1
    return [header.slice(*item) for item in header.split(start, end)]


def with_element(kind: str, element: str) -> str:
    """`kind` (a tensor or a scalar type) with another element type: tensor<4xf32, #b> -> tensor<4xi1, #b>."""
    match = _TENSOR.fullmatch(kind)
    if match is None:
        return element
    _, encoding = _split_encoding(match.group(2))
    return f"tensor<{match.group(1)}{element}{encoding}>"


def element_type(kind: str) -> str:
    """The element type of a tensor type; a scalar type is its own."""
    match = _TENSOR.fullmatch(kind)
    return _split_encoding(match.group(2))[0] if match else kind


def elements(kind: str) -> int:
    """How many elements a tensor type has; 1 of a scalar."""
    match = _TENSOR.fullmatch(kind)
    return math.prod(map(int, match.group(1).split("x")[:-1])) if match else 1


def _split_encoding(text: str) -> tuple[str, str]:
    """`!tt.ptr<f32, 1>, #blocked` -> (`!tt.ptr<f32, 1>`, `, #blocked`)."""
    depth = 0
    for index, character in enumerate(text):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            return text[:index], text[index:]
    return text, ""


def _pointee(kind: str) -> str:
    element = element_type(kind)
    if not element.startswith("!tt.ptr<"):
        return ""
    return with_element(kind, _split_encoding(element[len("!tt.ptr<") : -1])[0])


def signature_range(header: Header) -> tuple[int, int]:
    """Index range of the text behind the last top-level `:`, up to the location or the body."""
    colons = [i for i in header.top_level(header.name_index, header.end) if header.pieces[i].text == ":"]
    if not colons:
        return header.end, header.end
    start = colons[-1] + 1
    body = next((i for i in header.top_level(start, header.end) if header.opens_region(i)), header.end)
    return start, body


def for_types(header: Header) -> tuple[list[str], str]:
    """Result types and induction variable type of an scf.for."""
    body = next((i for i in header.top_level() if header.opens_region(i)), header.end)
    arrow = header.find("->", 0, body)
    colon = header.find(":", header.name_index, body)
    results = [] if arrow is None else type_list(header, arrow + 1, body if colon is None else colon)
    return results, "index" if colon is None else header.slice(colon + 1, body)


def result_types(header: Header) -> Sequence[str]:
    """One type a result, "" if the text does not show it; empty if the op has no results."""
    if header.types is None:
        header.types = _result_types(header)
    return header.types


def _result_types(header: Header) -> list[str]:
    count = len(header.result_names)
    if count == 0:
        return []
    types = _printed_types(header.name, header)
    if len(types) == 1 and header.name in _SHARED:
        types = types * count
    if len(types) == count - 1 and header.name == "ttng.tmem_load":
        types.insert(1, _TOKEN)
    return types[:count] if len(types) >= count else [""] * count


def _printed_types(name: str, header: Header) -> list[str]:
    if _TOKEN_OPS.fullmatch(name):
        return [_TOKEN]
    if name == "scf.for":
        return for_types(header)[0]
    start, end = signature_range(header)
    if start == end or name in _ARROW_BEFORE_BODY:
        body = next((i for i in header.top_level(header.name_index) if header.opens_region(i)), header.end)
        start, end = header.name_index + 1, body
    arrow = header.find("->", start, end)
    if arrow is None:
        arrow = header.find("to", start, end)
    if arrow is not None:
        return type_list(header, arrow + 1, end)
    if start == header.name_index + 1:  # neither `:` nor `->`
        return _UNTYPED.get(name, [])
    types = type_list(header, start, end)
    if name == "tt.make_tensor_descriptor":  # `: <f16>, <64x64xf16, #shared>`
        return [f"!tt.tensordesc{types[-1]}"] if types else []
    if name == "tt.load":
        return [_pointee(types[0])] if types else []
    if name in ("arith.cmpi", "arith.cmpf"):
        return [with_element(types[0], "i1")] if types else []
    if name == "arith.select":
        return types[-1:]
    return types


# Block arguments.


def label_args(label: str) -> list[tuple[str, str]]:
    """(name, type) of each argument that a block's label declares: `^bb1(%a: T, ...):`."""
    header = Header([label])
    if len(header.pieces) < 2 or header.pieces[1].text != "(":
        return []
    return _arguments(header, 1)


def region_args(header: Header, region: int) -> list[tuple[str, str]]:
    """(name, type) of each argument that an op gives to the entry block of its region number `region`."""
    if header.name in ("tt.func", "func.func"):
        parentheses = header.find("(", header.name_index)
        return [] if parentheses is None else _arguments(header, parentheses)
    if header.name == "ttg.warp_specialize" and region > 0:
        words = (i for i in header.top_level() if header.pieces[i].text.startswith("partition"))
        return next((_arguments(header, i + 1) for k, i in enumerate(words) if k == region - 1), [])
    if header.name == "scf.for":
        results, induction = for_types(header)
        return list(zip(_bound_names(header), [induction, *results], strict=False))
    if header.name == "scf.while" and region == 0:
        start, end = signature_range(header)
        arrow = header.find("->", start, end)
        return list(zip(_bound_names(header), type_list(header, start, arrow or end), strict=False))
    return []


def _bound_names(header: Header) -> list[str]:
    """Names that the header gives to block arguments: `%i = %lower`, `iter_args(%acc = %init)`."""
    pieces = header.pieces
    return [
        pieces[i].text
        for i in range(header.name_index, len(pieces) - 1)
        if pieces[i].kind == "value" and pieces[i + 1].text == "="
    ]


def _arguments(header: Header, parentheses: int) -> list[tuple[str, str]]:
    """Arguments declared in parentheses: `%a: T {attributes} loc(...), ...`."""
    if parentheses not in header.closing:
        return []
    arguments = []
    for start, end in header.split(parentheses + 1, header.closing[parentheses]):
        if header.pieces[start].kind != "value":
            continue  # a declaration without a body gives types only
        stop = next(
            (i for i in header.top_level(start + 2, end) if header.pieces[i].text in ("{", "loc")), end
        )
        arguments.append((header.pieces[start].text, header.slice(start + 2, stop)))
    return arguments
