"""Values threaded through loops, branches and partitions; Triton verifies the results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import Module, Op, Region, flow, parse
from tests.support.corpus import printed, third_of_modules, triton_module


class Counter:
    """Counts, in an i32 threaded through all control flow, how many loop iterations a function has run."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.loops = 0

    def function(self, func_op: Op) -> None:
        start = self.module.fresh("count")
        entry = func_op.regions[0].entry
        entry.prepend(f"{start} = arith.constant 0 : i32")
        for block in func_op.regions[0].blocks:  # each block starts anew; see test_blocks for block arguments
            if block is not entry:
                start = self.module.fresh("count")
                block.prepend(f"{start} = arith.constant 0 : i32")
            self.ops(block.ops, start)

    def ops(self, ops: list[Op], count: str) -> str:
        """Thread the count through `ops`; returns its name behind them."""
        for op in tuple(ops):
            if op.name in ("scf.for", "scf.while"):
                count = self.loop(op, count)
            elif op.name == "scf.if":
                count = self.branch(op, count)
            elif op.name == "ttg.warp_specialize":
                self.specialised(op, count)
        return count

    def loop(self, op: Op, count: str) -> str:
        self.loops += 1
        carried = flow.carry(op, [count])
        body = op.regions[-1]
        flow.hand_on(op, [self.step(body, self.ops(body.entry.ops, carried.inside[0]))])
        return carried.behind[0]

    def step(self, region: Region, count: str) -> str:
        one, more = self.module.fresh("one"), self.module.fresh("more")
        region.entry.append_before_terminator(
            f"{one} = arith.constant 1 : i32\n{more} = arith.addi {count}, {one} : i32"
        )
        return more

    def branch(self, op: Op, count: str) -> str:
        first, second = [*(self.ops(region.entry.ops, count) for region in op.regions), count][:2]
        (result,) = flow.add_if_results(op, [(first, second)])
        return result

    def specialised(self, op: Op, count: str) -> None:
        names = flow.add_capture(op, count, "i32")
        for partition, name in zip(flow.partitions(op), names, strict=True):
            assert partition.args[-1].name == name
            assert partition.args[-1].type == "i32"
            self.ops(partition.region.entry.ops, name)
        self.ops(op.regions[0].entry.ops, count)


def _signature_lines(module: Module) -> set[int]:
    """Lines of the ops that threading a value rewrites."""
    rewritten = ("scf.for", "scf.while", "scf.if", "scf.yield", "scf.condition", "ttg.warp_specialize")
    return {op.line for op in module.walk() if op.name in rewritten}


@third_of_modules(1)
def test_counter_through_all_control_flow(text: str, module: Module, target: str) -> None:
    rewritten = _signature_lines(module)
    loops = [op for op in module.walk() if op.name in ("scf.for", "scf.while")]
    results = {op: len(op.results) for op in loops}
    counter = Counter(module)
    for func_op in module.functions:
        counter.function(func_op)
    assert counter.loops == len(loops)
    edited = str(module)
    assert str(parse(edited)) == edited
    triton_module(edited, target)
    for op in loops:
        assert len(op.results) == results[op] + 1
        assert op.results[-1].type == "i32"
        if op.name == "scf.for":
            loop = flow.read_for(op)
            assert len(loop.iter_args) == len(loop.types) == len(op.results)
            assert op.regions[0].entry.terminator.operand_types == list(loop.types)
    # Everything else is byte for byte where it was.
    kept = [line for number, line in enumerate(text.splitlines(), 1) if number not in rewritten]
    after = iter(edited.splitlines())
    closing = ("}", "partition", "^bb")  # lines of an op's own text further down
    assert all(line in after for line in kept if not line.strip().startswith(closing))


LOOP = """\
module {{
  tt.func @f(%n: i32, %z: i32) {{
    {before}scf.for %i = %z to %n step %n{carried}  : i32 {{
      a.b %i{yielded}
    }} {{tt.num_stages = 2 : i32, odd = "}} {{"}} loc(#loc)
    tt.return
  }}
}}
#loc = loc("k.py":3:4)
"""


def _loop(**holes: str) -> tuple[Module, Op]:
    module = parse(LOOP.format(**{"before": "", "carried": "", "yielded": ""} | holes))
    return module, next(op for op in module.walk() if op.name == "scf.for")


def test_loop_without_results_gets_one() -> None:
    module, op = _loop()
    carried = flow.carry(op, ["%z"])
    assert (carried.inside, carried.behind) == (["%ps_0"], ["%ps_1"])
    flow.hand_on(op, ["%i"])
    assert str(module) == LOOP.format(
        before="%ps_1 = ",
        carried=" iter_args(%ps_0 = %z) -> (i32) ",
        yielded="\n      scf.yield %i : i32 loc(#loc)",
    )


@pytest.mark.parametrize(
    ("before", "extended", "names"),
    [
        ("%5 = ", "%5, %ps_1 = ", ["%x"]),
        ("%5:1 = ", "%5:1, %ps_1 = ", ["%x"]),
        ("%a, %b:2 = ", "%a, %b:2, %ps_1 = ", ["%x", "%y", "%w"]),
    ],
)
def test_loop_with_results_keeps_their_names(before: str, extended: str, names: list[str]) -> None:
    bound, types = ", ".join(f"{name} = %z" for name in names), ", ".join("i32" for _ in names)
    carried, yielded = f" iter_args({bound}) -> ({types})", f"\n      scf.yield {', '.join(names)} : {types}"
    module, op = _loop(before=before, carried=carried, yielded=yielded)
    flow.carry(op, ["%n"])
    flow.hand_on(op, ["%ps_0"])
    assert str(module) == LOOP.format(
        before=extended,
        carried=f" iter_args({bound}, %ps_0 = %n) -> ({types}, i32)",
        yielded=f"\n      scf.yield {', '.join(names)}, %ps_0 : {types}, i32",
    )


def test_read_of_a_loop() -> None:
    _, op = _loop(before="%5:2 = ", carried=" iter_args(%x = %z, %y = %q#1) -> (i32, !tt.ptr<f32>)")
    assert flow.read_for(op) == flow.ForLoop(
        induction="%i",
        lower="%z",
        upper="%n",
        step="%n",
        induction_type="i32",
        iter_args=(("%x", "%z"), ("%y", "%q#1")),
        types=("i32", "!tt.ptr<f32>"),
    )
    assert dict(op.attributes) == {"tt.num_stages": "2 : i32", "odd": '"} {"'}
    assert [(value.name, value.type) for value in op.results] == [("%5#0", "i32"), ("%5#1", "!tt.ptr<f32>")]


def test_read_of_an_unsigned_loop_over_index() -> None:
    module = parse("module {\n  scf.for unsigned %i = %a to %b step %c {\n  }\n}\n")
    loop = flow.read_for(module.body.ops[0])
    assert (loop.induction, loop.lower, loop.upper, loop.step) == ("%i", "%a", "%b", "%c")
    assert (loop.induction_type, loop.iter_args) == ("index", ())
    flow.carry(module.body.ops[0], ["%a"])
    assert "scf.for unsigned %i = %a to %b step %c iter_args(%ps_0 = %a) -> (i32)  {\n" in str(module)


def test_a_loop_wants_each_value_that_it_carries() -> None:
    _, op = _loop()
    flow.carry(op, ["%z", "%n"])
    with pytest.raises(IRError, match=r"^<ttgir>:3: expected 2 values to hand on, found 1: "):
        flow.hand_on(op, ["%i"])


@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        (lambda op: flow.read_for(op), "an scf.for"),
        (lambda op: flow.add_if_results(op, [("%x", "%x")]), "an scf.if"),
        (lambda op: flow.carry(op, ["%x"]), "an scf.for"),
        (lambda op: flow.partitions(op), "a ttg.warp_specialize"),
        (lambda op: flow.add_arguments(op, [], {}), "a tt.func"),
    ],
)
def test_edits_of_another_op_are_refused(edit, wanted: str) -> None:
    op = parse("module {\n  a.b\n}\n", "m.ttgir").body.ops[0]
    with pytest.raises(IRError, match=rf"^m.ttgir:2: expected {wanted}.*: a.b$"):
        edit(op)


def test_while_without_values() -> None:
    module = parse(
        "module {\n"
        "  scf.while : () -> () {\n"
        "    scf.condition(%c) loc(#loc1)\n"
        "  } do {\n"
        "    scf.yield\n"
        "  } attributes {odd} loc(#loc2)\n"
        "}\n"
    )
    op = module.body.ops[0]
    flow.hand_on(op, flow.carry(op, ["%z"]).inside)
    assert str(module) == (
        "module {\n"
        "  %ps_1 = scf.while (%ps_2 = %z) : (i32) -> (i32) {\n"
        "    scf.condition(%c) %ps_2 : i32 loc(#loc1)\n"
        "  } do {\n"
        "  ^bb0(%ps_0: i32):\n"
        "    scf.yield %ps_0 : i32\n"
        "  } attributes {odd} loc(#loc2)\n"
        "}\n"
    )


def test_if_without_else() -> None:
    module = parse("module {\n  scf.if %c {\n    a.b\n  } {odd} loc(#loc)\n}\n")
    results = flow.add_if_results(module.body.ops[0], [("%t", "%e")])
    assert results == ["%ps_0"]
    assert str(module) == (
        "module {\n"
        "  %ps_0 = scf.if %c -> (i32) {\n"
        "    a.b\n"
        "    scf.yield %t : i32 loc(#loc)\n"
        "  } else {\n"
        "    scf.yield %e : i32 loc(#loc)\n"
        "  } {odd} loc(#loc)\n"
        "}\n"
    )


def _warps(module: Module) -> Iterator[tuple[int, ...]]:
    for op in module.walk():
        if op.name == "ttg.warp_specialize":
            yield tuple(partition.num_warps for partition in flow.partitions(op))


@pytest.mark.parametrize(
    ("name", "target", "warps"),
    [
        ("matmul_ws", "cuda:90", (4, 4)),
        ("matmul_ws", "cuda:100", (1, 1)),
        ("gluon_ws", "cuda:90", (1, 2)),
    ],
)
def test_partitions_and_their_warps(name: str, target: str, warps: tuple[int, ...]) -> None:
    module = parse(printed(name, target))
    (found,) = _warps(module)
    assert len(found) == len(warps)
    if name == "gluon_ws":  # Triton's own partitions may change size from one version to the next
        assert found == warps
    (op,) = [op for op in module.walk() if op.name == "ttg.warp_specialize"]
    for partition in flow.partitions(op):
        assert [value.type for value in partition.args] == op.operand_types
        assert partition.region.isolated
        assert partition.region.entry.terminator.name == "ttg.warp_return"
    assert op.regions[0].entry.terminator.name == "ttg.warp_yield"
    assert not op.regions[0].isolated


def test_partition_without_captures() -> None:
    module = parse(
        "module {\n"
        "  ttg.warp_specialize()\n"
        "  default {\n"
        "    ttg.warp_yield\n"
        "  }\n"
        "  partition0() num_warps(8) {\n"
        "    ttg.warp_return\n"
        "  } : () -> ()\n"
        "}\n"
    )
    op = module.body.ops[0]
    assert flow.add_capture(op, "%x", "!tt.ptr<f32>") == ["%ps_0"]
    assert op.operands == ["%x"]
    assert "warp_specialize(%x)\n" in str(module)
    assert "  partition0(%ps_0: !tt.ptr<f32>) num_warps(8) {\n" in str(module)
    assert "  } : (!tt.ptr<f32>) -> ()\n" in str(module)


def test_while_whose_condition_reads_what_its_body_does_not() -> None:
    module = parse(
        "module {\n"
        "  scf.while (%a = %z) : (i32) -> () {\n"
        "    scf.condition(%c)\n"
        "  } do {\n"
        "    scf.yield %z : i32\n"
        "  }\n"
        "}\n"
    )
    op = module.body.ops[0]
    flow.hand_on(op, flow.carry(op, ["%z"]).inside)
    assert "(%a = %z, %ps_2 = %z) : (i32, i32) -> (i32)" in op.first_line
    assert "scf.yield %z, %ps_0 : i32, i32" in str(op)
