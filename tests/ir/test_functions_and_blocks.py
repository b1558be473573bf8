"""Values threaded through functions and blocks; Triton verifies the results."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import Op, flow, parse
from tests.support.corpus import printed, triton_module


def _calls(function: Op) -> list[Op]:
    return [op for op in function.module.walk() if op.name == "tt.call" and op.symbol == function.symbol]


def _returns(function: Op) -> list[Op]:
    return [op for op in function.walk() if op.name == "tt.return"]


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_argument_and_result_of_every_callee(target: str) -> None:
    module = parse(printed("noinline", target))
    kernel, *callees = module.functions
    (zero,) = kernel.regions[0].entry.prepend(f"{module.fresh()} = arith.constant 0 : i32")
    assert len(callees) == 2
    for callee in callees:
        calls = _calls(callee)
        results = [result.type for result in calls[0].results]
        assert calls
        names = [module.fresh(), module.fresh()]
        passed = dict.fromkeys(calls, [zero.results[0].name] * 2)
        flow.add_arguments(callee, [(name, "i32") for name in names], passed)
        assert [arg.name for arg in callee.regions[0].entry.args[-2:]] == names
        assert all(call.operand_types[-2:] == ["i32"] * 2 for call in calls)
        for count in (1, 2):
            returned = dict.fromkeys(_returns(callee), names[:1])
            found = flow.add_returns(callee, ["i32"], returned, calls)
            for call, (new,) in zip(calls, found, strict=True):
                assert (call.results[-1].name, call.results[-1].type) == (new, "i32")
            assert [result.type for result in calls[0].results] == results + ["i32"] * count
        assert all(op.operands[-2:] == names[:1] * 2 for op in _returns(callee))
    triton_module(str(module), target)


def test_symbols_in_quotes() -> None:
    module = parse(
        "module {\n"
        '  tt.func private @"f<\\22x\\22>"() -> (i32, f32) attributes {noinline = true} {\n'
        "    tt.return %a, %b : i32, f32\n"
        "  }\n"
        "  tt.func public @main() {\n"
        '    %0:2 = tt.call @"f<\\22x\\22>"() : () -> (i32, f32)\n'
        "    tt.return\n"
        "  }\n"
        "}\n"
    )
    callee, main = module.functions
    assert (callee.symbol, main.symbol) == ('f<"x">', "main")
    calls = _calls(callee)
    flow.add_arguments(callee, [("%ps_0", "i1")], {calls[0]: ["%c"]})
    assert flow.add_returns(callee, ["i1"], {_returns(callee)[0]: ["%ps_0"]}, calls) == [["%ps_1"]]
    assert [line.strip() for line in str(module).splitlines()[1:6]] == [
        'tt.func private @"f<\\22x\\22>"(%ps_0: i1) -> (i32, f32, i1) attributes {noinline = true} {',
        "tt.return %a, %b, %ps_0 : i32, f32, i1",
        "}",
        "tt.func public @main() {",
        '%0:2, %ps_1 = tt.call @"f<\\22x\\22>"(%c) : (i1) -> (i32, f32, i1)',
    ]


@pytest.mark.parametrize("name", ["early_return", "noinline"])
@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_argument_of_every_block(name: str, target: str) -> None:
    module = parse(printed(name, target))
    seen = 0
    for function in module.functions:
        entry, *others = function.regions[0].blocks
        (zero,) = entry.prepend(f"{module.fresh()} = arith.constant 0 : i32")
        for block in others:
            seen += 1
            branches = flow.predecessors(block)
            for count in (1, 2):
                passing = dict.fromkeys(branches, zero.results[0].name)
                argument = flow.add_block_argument(block, "i32", passing.pop)
                assert not passing
                assert (block.args[-1].name, block.args[-1].type) == (argument, "i32")
                assert len(block.args) == count
    assert seen
    triton_module(str(module), target)


def test_block_that_one_branch_leads_to_twice() -> None:
    module = parse(
        "module {\n"
        "  f.f {\n"
        "    cf.cond_br %c, ^bb1(%a : i32), ^bb1(%b : i32)\n"
        "  ^bb1(%x: i32 loc(unknown)):  // 2 preds: ^bb0, ^bb0\n"
        "    cf.br ^bb2\n"
        "  ^bb2:  // pred: ^bb1\n"
        "    tt.return\n"
        "  }\n"
        "}\n"
    )
    first, second, third = module.body.ops[0].regions[0].blocks
    assert first.terminator.successors == [("^bb1", ["%a"]), ("^bb1", ["%b"])]
    assert flow.predecessors(third) == [second.terminator]
    flow.add_block_argument(second, "f32", lambda op: "%v")
    flow.add_block_argument(third, "f32", lambda op: second.args[-1].name)
    assert str(module) == (
        "module {\n"
        "  f.f {\n"
        "    cf.cond_br %c, ^bb1(%a, %v : i32, f32), ^bb1(%b, %v : i32, f32)\n"
        "  ^bb1(%x: i32 loc(unknown), %ps_0: f32):  // 2 preds: ^bb0, ^bb0\n"
        "    cf.br ^bb2(%ps_0 : f32)\n"
        "  ^bb2(%ps_1: f32):  // pred: ^bb1\n"
        "    tt.return\n"
        "  }\n"
        "}\n"
    )
    with pytest.raises(IRError, match="expected a block with a label"):
        flow.add_block_argument(first, "f32", lambda op: "%v")
