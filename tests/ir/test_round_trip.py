"""What is read is what Triton means, and prints back byte for byte."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from profscope.instrument_passes.ir import Module, Op, Value, parse
from tests.support.corpus import each_module, triton_module

_ALIAS = re.compile(r"#[A-Za-z_]\w*(?![\w.])")


@each_module
def test_prints_byte_for_byte_whatever_is_read(text: str, module: Module) -> None:
    assert str(module) == text
    lines = text.splitlines()
    for op in module.walk():
        assert lines[op.line - 1].strip().startswith(op.first_line)
        assert op.name == op.header.name  # which is known without reading all of the text
        own = str(op)
        names = [*(value.name.split("#")[0] for value in op.results), *op.operands, *op.attributes]
        assert [name for name in names if name not in own] == [], op
        assert all(value.type for region in op.regions for block in region.blocks for value in block.args)
        location = op.loc
        assert (location.line == 0) == (location.file == "")
        for file, line, *_ in [(location.file, location.line), *location.callers] if location.file else ():
            assert linecache.getline(file, line).strip(), op
    assert str(module) == text  # reading has changed nothing


@dataclass
class _Real:
    """One op as Triton's bindings show it."""

    name: str
    operands: list[int]
    operand_types: list[str]
    results: list[int]
    result_types: list[str]
    regions: int


@each_module
def test_agrees_with_triton(text: str, module: Module, target: str) -> None:
    """Ops, result types, and which value each operand is, compared with Triton's own parser."""
    real = triton_module(text, target)  # keeps the values alive
    pairs = list(_pair(module, _ops_of(real)))
    ids: dict[tuple[Op, int], int] = {}
    for op, theirs in pairs:
        assert [_expanded(value.type, module.aliases) for value in op.results] == theirs.result_types, op
        ids |= {(op, index): number for index, number in enumerate(theirs.results)}
    for op, theirs in pairs:
        if op.name == "ttg.warp_specialize":  # from 3.7 on, captures belong to an op that is not printed
            continue
        assert len(op.operands) == len(theirs.operands), op
        types = [_expanded(kind, module.aliases) for kind in op.operand_types]
        # In the order of the text, which for a few ops is not the order of the operands.
        assert sorted(types) == sorted(theirs.operand_types), op
        for name in op.operands:
            value = op.resolve(name)
            assert isinstance(value, Value), (op, name)
            if isinstance(value.owner, Op):
                assert ids[value.owner, value.index] in theirs.operands, (op, name)


def _ops_of(real: Any) -> list[_Real]:
    found: list[_Real] = []

    def see(op: Any) -> None:
        operands = [op.get_operand(i) for i in range(op.get_num_operands())]
        results = [op.get_result(i) for i in range(op.get_num_results())]
        found.append(
            _Real(
                op.get_name(),
                [value.id() for value in operands],
                [str(value.get_type()) for value in operands],
                [value.id() for value in results],
                [str(value.get_type()) for value in results],
                op.get_num_regions(),
            )
        )

    real.walk(see)
    return found


def _pair(module: Module, real: list[_Real]) -> Iterator[tuple[Op, _Real]]:
    """Our ops with theirs, which also has what is not printed: empty yields, and the holder of partitions."""
    remaining = iter(real)
    for op in _post_order(module.op):
        theirs = next(remaining)
        while theirs.name != "builtin.module" and theirs.name != op.name:
            hidden = theirs.name == "scf.yield" and not theirs.operands
            assert hidden or theirs.name == "ttg.warp_specialize.partitions", (op, theirs)
            theirs = next(remaining)
        yield op, theirs
    assert next(remaining, None) is None


def _post_order(op: Op) -> Iterator[Op]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _post_order(inner)
    yield op


def _expanded(kind: str, aliases: Mapping[str, str]) -> str:
    """A type with every attribute alias written out, as the bindings print it."""
    while True:
        longer = _ALIAS.sub(lambda match: aliases.get(match.group(), match.group()), kind)
        if longer == kind:
            return kind
        kind = longer


def test_keeps_what_it_does_not_know() -> None:
    text = (
        "// a comment { ( [\n"
        '#a = #odd.thing<{x = [1, -2], f = "}\\22{"}, affine_map<(d0) -> (d0 floordiv 2)>>\n'
        "#set = affine_set<(d0) : (d0 - 1 >= 0)>\n"
        "!t = !odd.type<4x?x!odd.inner<->>>\n"
        'module @m attributes {odd.flag, "odd.a-b" = #a} {\n'
        '  %0:2, %1 = "odd.op"(%arg#1) <{p = 1 : i8}> ({\n'
        "  ^bb0(%a: !t, %b: i1 loc(unknown)):  // no predecessors\n"
        "    odd.none // -> comment\n"
        "  }, {\n"
        "  }) {q = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>} : (!t) -> (!t, i1, tensor<0x4xf32>)\n"
        "\n"
        "  odd.switch %0#1 : i1, [\n"
        "    default: ^bb1,\n"
        "    1: ^bb2(%1 : tensor<0x4xf32>)\n"
        "  ]\n"
        "}\n"
        "\n"
        '{-# odd: { x: "0x01{" } #-}\n'
    )
    module = parse(text)
    assert str(module) == text
    first, inner, switch = list(module.walk())
    assert [(value.name, value.type) for value in first.results] == [
        ("%0#0", "!t"),
        ("%0#1", "i1"),
        ("%1", "tensor<0x4xf32>"),
    ]
    assert dict(first.attributes) == {"p": "1 : i8", "q": "dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>"}
    assert [value.name for value in first.regions[0].entry.args] == ["%a", "%b"]
    assert (inner.name, first.regions[1].entry.ops) == ("odd.none", [])
    assert switch.successors == [("^bb1", []), ("^bb2", ["%1"])]
    assert module.aliases["#set"] == "affine_set<(d0) : (d0 - 1 >= 0)>"
    assert module.attr("odd.flag") == "unit"
    assert module.attr("odd.a-b") == "#a"
