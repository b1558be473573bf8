"""Other addresses for one access: as many bytes, neighbouring lanes at neighbouring elements.

The elements of a tile are numbered in the order of its layout. The program and the steps of the loops in
which the access moves give the start of a tile. All addresses stay within the memory behind the argument;
masks stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from profscope.instrument_passes.analyses.graph import AXES, LOOPS, Graph, Node, Value
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Module
from profscope.instrument_passes.ir.signature import element_type, elements, with_element

__all__ = ["replace_addresses", "why_fixed"]

_ACCESSES: Final = re.compile(r"((?:tt\.(?:load|store)|ttg\.async_copy_global_to_local) )%[\w:#-]+")
_TENSOR: Final = re.compile(r"tensor<((?:\d+x)+)(.*), (#.*)>$", re.DOTALL)
_ORDER: Final = re.compile(r"order = \[([\d, ]+)\]")
_SLICE: Final = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>$", re.DOTALL)
_MOST_ELEMENTS: Final = 1 << 30
_RESIDENT_TILES: Final = 8
_DEEPEST: Final = 100  # ops behind an address that are looked at
_PASS_ON: Final = (
    "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "arith.extsi", "arith.extui", "arith.trunci",
    "arith.remsi", "arith.remui",
)  # fmt: skip
"""Ops whose result grows as their first operand does; remainders do except where they wrap."""
_BY_ELEMENT: Final = ("arith.", "math.", "tt.addptr", "tt.splat", "tt.load")
_SUMS: Final = ("arith.addi", "tt.addptr")
_SECTOR_BITS: Final = 256
_STEPS: Final = 61  # tiles between those of neighbouring programs, if loops move the access, too


def why_fixed(graph: Graph, node: Node, memory: Mapping[int, int], *, resident: bool) -> str:
    """Why an access keeps its addresses; "" if they can be replaced. memory: see `replace_addresses`."""
    if not _ACCESSES.search(node.text):
        return "its addresses are not pointers"
    pointer = node.operands[0]
    if _TENSOR.match(pointer.type) is None:
        return "it is one element"
    if not resident and _are_neighbours(graph, pointer):
        return "neighbouring lanes have neighbouring elements already"
    if any(each.name == "ttg.warp_specialize" for each in node.around):
        return "it is in a partition"
    if " private " in node.around[-1].op.first_line:
        return "it is in a function that is not inlined"
    dependence = graph.depends(pointer)
    if dependence.of_data:
        return "its addresses are data"
    arguments = dependence.arguments
    if arguments is None or len(arguments) != 1:
        return "its memory is not that of one argument"
    if _fitting(pointer.type, memory.get(next(iter(arguments)), 0)) < elements(pointer.type):
        return "the memory behind the argument is smaller than a tile, or its size is not known"
    return ""


def replace_addresses(graph: Graph, node: Node, memory: Mapping[int, int], *, resident: bool) -> None:
    """memory: bytes behind each of the kernel's arguments, by position. resident: a program stays in one of
    eight tiles.

    Raises PassError as `why_fixed` says.
    """
    op, pointer = node.op, node.operands[0]
    if why := why_fixed(graph, node, memory, resident=resident):
        raise PassError(f"{op.name}: {why}", op.module.filename, op.line)
    module = op.module
    argument = next(iter(graph.depends(pointer).arguments or ()))
    base = node.around[-1].op.regions[0].entry.args[argument]
    begin, lines = _begin(graph, node, _fitting(pointer.type, memory[argument]), resident=resident)
    index, more = _positions(module, pointer.type)
    lines += more
    scalar, element = element_type(pointer.type), base.name
    if base.type != scalar:
        element = module.fresh("ablate")
        lines.append(f"{element} = tt.bitcast {base.name} : {base.type} -> {scalar}")
    first, tile, result = module.fresh("ablate"), module.fresh("ablate"), module.fresh("ablate")
    kind = with_element(pointer.type, "i32")
    lines += [
        f"{first} = tt.addptr {element}, {begin} : {scalar}, i32",
        f"{tile} = tt.splat {first} : {scalar} -> {pointer.type}",
        f"{result} = tt.addptr {tile}, {index} : {pointer.type}, {kind}",
    ]
    op.insert_before("\n".join(lines))
    op.replace_header(_ACCESSES.sub(rf"\g<1>{result}", op.text, count=1))


def _fitting(kind: str, nbytes: int) -> int:
    """The largest power of two of elements in that many bytes."""
    bits = _element_bits(kind)
    count = nbytes * 8 // bits if bits else 0
    return min(1 << count.bit_length() - 1, _MOST_ELEMENTS) if count else 0


def _element_bits(kind: str) -> int:
    """Of what pointers of a type lead to; 0 if it has no size."""
    match = re.search(r"!tt\.ptr<[a-zA-Z]+(\d+)", kind)
    return int(match[1]) if match else 0


def _begin(graph: Graph, node: Node, fitting: int, *, resident: bool) -> tuple[str, list[str]]:
    """The number of a tile's first element, and the ops that compute it."""
    module, dependence = node.op.module, graph.depends(node.operands[0])
    lines: list[str] = []

    def put(text: str) -> str:
        name = module.fresh("ablate")
        lines.append(f"{name} = {text}")
        return name

    tile = put("arith.constant 0 : i32")
    loops = [each for each in node.loops if each in dependence.varies_in and each.name == "scf.for"]
    counters = [graph.arguments(each)[0] for each in loops]
    counted = graph.depends(*counters).axes  # a loop over the tiles of a program begins with its number
    for axis in reversed(AXES):
        if axis in dependence.axes - counted:
            count, own = put(f"tt.get_num_programs {axis} : i32"), put(f"tt.get_program_id {axis} : i32")
            tile = put(f"arith.muli {tile}, {count} : i32")
            tile = put(f"arith.addi {tile}, {own} : i32")
    if resident:
        fitting = min(fitting, _RESIDENT_TILES * elements(node.operands[0].type))
        loops = []
    for loop in loops:
        counter = loop.op.regions[0].entry.args[0]
        steps = put(f"arith.constant {_STEPS} : i32")
        tile = put(f"arith.muli {tile}, {steps} : i32")
        step = counter.name
        if counter.type != "i32":
            cast = "arith.index_cast" if counter.type == "index" else "arith.trunci"
            step = put(f"{cast} {counter.name} : {counter.type} to i32")
        tile = put(f"arith.addi {tile}, {step} : i32")
    size = elements(node.operands[0].type)
    tiles, count = put(f"arith.constant {fitting // size} : i32"), put(f"arith.constant {size} : i32")
    tile = put(f"arith.remui {tile}, {tiles} : i32")
    return put(f"arith.muli {tile}, {count} : i32"), lines  # a multiple, so that accesses stay vectors


def _are_neighbours(graph: Graph, pointer: Value) -> bool:
    """Whether elements that follow each other along the fastest axis lie one behind the other, and fill a
    sector or more."""
    match = _TENSOR.match(pointer.type)
    if match is None:
        return False
    sizes = [int(each) for each in match[1].split("x")[:-1]]
    fastest = _fastest_first(graph.module, match[3], len(sizes))[0]
    if len(sizes) > 1 and sizes[fastest] * _element_bits(pointer.type) < _SECTOR_BITS:
        return False
    return _step(pointer, fastest, {}, _DEEPEST) == 1


def _step(value: Value, axis: int, known: dict[Value, int | None], deepest: int) -> int | None:
    """By how much a value grows from one element to the next along an axis; None if that is not known."""
    if axis not in _axes_of(value.type):
        return 0
    if value not in known:
        known[value] = _step_of(value, axis, known, deepest - 1) if deepest else None
    return known[value]


def _step_of(value: Value, axis: int, known: dict[Value, int | None], deepest: int) -> int | None:
    node = value.maker
    if node is None:  # what a loop begins with
        is_carried = value.around is not None and value.around.name in LOOPS and value.sources
        return _step(value.sources[0], axis, known, deepest) if is_carried else None
    if node.name in ("tt.make_range", "arith.constant"):
        return int(node.name == "tt.make_range")
    steps = [_step(each, axis, known, deepest) for each in node.operands]
    if node.name in _PASS_ON:
        return steps[0]
    if None in steps or not node.name.startswith(_BY_ELEMENT):
        return None
    if not any(steps):
        return 0
    return sum(filter(None, steps)) if node.name in _SUMS else None


def _axes_of(kind: str) -> list[int]:
    """The axes, of the tensor that a type is a slice of, along which it has several elements."""
    match = _TENSOR.match(kind)
    if match is None:
        return []
    sizes, layout = [int(each) for each in match[1].split("x")[:-1]], match[3]
    dropped = []
    while of := _SLICE.match(layout):
        dropped.append(int(of[1]))
        layout = of[2]
    axes = list(range(len(sizes) + len(dropped)))
    for axis in reversed(dropped):  # the outermost slice was made last
        axes.pop(axis)
    return [axis for axis, size in zip(axes, sizes, strict=True) if size > 1]


def _positions(module: Module, kind: str) -> tuple[str, list[str]]:
    """The number of each element of a tile, as i32, and the ops that compute it."""
    match = _TENSOR.match(kind)
    assert match is not None
    sizes, layout = [int(each) for each in match[1].split("x")[:-1]], match[3]
    full = with_element(kind, "i32")
    lines: list[str] = []
    total, stride = "", 1
    for axis in _fastest_first(module, layout, len(sizes)):
        name = module.fresh("ablate")
        others = [each for each in range(len(sizes)) if each != axis]
        layouts = [layout]
        for other in reversed(others):  # a slice without each of the other axes, the last axis first
            layouts.append(f"#ttg.slice<{{dim = {other}, parent = {layouts[-1]}}}>")
        shape = [sizes[axis]]
        own = f"tensor<{sizes[axis]}xi32, {layouts.pop()}>"
        lines.append(f"{name} = tt.make_range {{end = {sizes[axis]} : i32, start = 0 : i32}} : {own}")
        for other in others:
            wider, before = module.fresh("ablate"), own
            shape.insert(other, 1)
            own = f"tensor<{'x'.join(map(str, shape))}xi32, {layouts.pop()}>"
            lines.append(f"{wider} = tt.expand_dims {name} {{axis = {other} : i32}} : {before} -> {own}")
            name = wider
        if stride > 1:
            factor, scaled = module.fresh("ablate"), module.fresh("ablate")
            lines.append(f"{factor} = arith.constant dense<{stride}> : {own}")
            lines.append(f"{scaled} = arith.muli {name}, {factor} : {own}")
            name = scaled
        if own != full:
            wide = module.fresh("ablate")
            lines.append(f"{wide} = tt.broadcast {name} : {own} -> {full}")
            name = wide
        if total:
            both = module.fresh("ablate")
            lines.append(f"{both} = arith.addi {total}, {name} : {full}")
            name = both
        total, stride = name, stride * sizes[axis]
    return total, lines


def _fastest_first(module: Module, layout: str, rank: int) -> list[int]:
    """The axes of a tensor, first the one along which neighbouring lanes lie; the last one if unknown."""
    if match := _SLICE.match(layout):
        dropped = int(match[1])
        around = _fastest_first(module, match[2], rank + 1)
        return [axis - (axis > dropped) for axis in around if axis != dropped]
    order = _ORDER.search(module.aliases.get(layout, layout))
    found = [int(each) for each in order[1].split(",")] if order else []
    return found if len(found) == rank else list(reversed(range(rank)))
