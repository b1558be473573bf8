"""What values depend on, through everything that passes them on, on TTGIR as Triton prints it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.ir import parse

_HEAD = """\
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
"""
_ALL = "!ttg.memdesc<2x128xi32, #s, #smem, mutable>"
_ONE = "!ttg.memdesc<128xi32, #s, #smem, mutable>"
_PTRS = "tensor<128x!tt.ptr<f32>, #b>"
_INTS = "tensor<128xi32, #b>"
_PLACE = f"""\
    %lane = tt.make_range {{end = 128 : i32, start = 0 : i32}} : {_INTS}
    %c128 = arith.constant 128 : i32
    %x = tt.get_program_id x : i32
    %first = arith.muli %x, %c128 : i32
    %firsts = tt.splat %first : i32 -> {_INTS}
    %at = arith.addi %firsts, %lane : {_INTS}
    %base = tt.splat %p : !tt.ptr<f32> -> {_PTRS}
"""
_ARGUMENTS = "%p: !tt.ptr<f32>, %q: !tt.ptr<i32>, %n: i32"


@cache
def graph(body: str, arguments: str = _ARGUMENTS, behind: str = "") -> Graph:
    text = f"{_HEAD}  tt.func public @kernel({arguments}) {{\n{_PLACE}{body}    tt.return\n  }}\n{behind}}}\n"
    return Graph(parse(text))


def load(graph: Graph) -> Node:
    """The last load of floats."""
    return [node for node in graph.named(r"^tt\.load$") if "f32" in node.results[0].type][-1]


PLAIN = f"""\
    %there = tt.addptr %base, %at : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
LOOPED = f"""\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%where = %base) -> ({_PTRS})  : i32 {{
      %is = tt.splat %i : i32 -> {_INTS}
      %fixed = tt.addptr %base, %at : {_PTRS}, {_INTS}
      %a = tt.load %fixed : {_PTRS}
      %moved = tt.addptr %base, %is : {_PTRS}, {_INTS}
      %b = tt.load %moved : {_PTRS}
      %c = tt.load %where : {_PTRS}
      %next = tt.addptr %where, %lane : {_PTRS}, {_INTS}
      scf.yield %next : {_PTRS}
    }}
"""
GATHERED = f"""\
    %qs = tt.splat %q : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %mine = tt.addptr %qs, %at : tensor<128x!tt.ptr<i32>, #b>, {_INTS}
    %index = tt.load %mine : tensor<128x!tt.ptr<i32>, #b>
    %there = tt.addptr %base, %index : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
SHARED = f"""\
    %c0 = arith.constant 0 : i32
    %qs = tt.splat %q : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %mine = tt.addptr %qs, %at : tensor<128x!tt.ptr<i32>, #b>, {_INTS}
    %buffers = ttg.local_alloc : () -> {_ALL}
    %one = ttg.memdesc_index %buffers[%c0] : {_ALL} -> {_ONE}
    %token = ttg.async_copy_global_to_local %mine, %one : tensor<128x!tt.ptr<i32>, #b> -> {_ONE[12:]}
    %two = ttg.memdesc_index %buffers[%c0] : {_ALL} -> {_ONE}
    %index = ttg.local_load %two : {_ONE} -> {_INTS}
    %there = tt.addptr %base, %index : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
BRANCHED = f"""\
    %y = tt.get_program_id y : i32
    %c0 = arith.constant 0 : i32
    %is = arith.cmpi eq, %y, %c0 : i32
    %chosen = scf.if %is -> ({_PTRS}) {{
      scf.yield %base : {_PTRS}
    }} else {{
      %other = tt.addptr %base, %lane : {_PTRS}, {_INTS}
      scf.yield %other : {_PTRS}
    }}
    %v = tt.load %chosen : {_PTRS}
"""
DIVIDED = f"""\
    %seven = arith.constant dense<7> : {_INTS}
    %rows = arith.divsi %at, %seven : {_INTS}
    %there = tt.addptr %base, %rows : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""


def test_an_address_differs_along_the_grid_and_the_lanes() -> None:
    rests = graph(PLAIN).depends(load(graph(PLAIN)).operands[0])
    assert (rests.axes, rests.by_lane, rests.of_data, rests.arguments) == ({"x"}, True, False, {0})
    assert not rests.varies_in
    assert not rests.has_division


def test_a_loop_moves_what_its_counter_or_its_sum_moves() -> None:
    seen = graph(LOOPED)
    (loop,) = seen.named("scf.for")
    fixed, moved, where = (seen.depends(node.operands[0]) for node in seen.named(r"^tt\.load$"))
    assert loop not in fixed.varies_in
    assert moved.counters == where.counters == {loop}
    assert moved.varies_in == where.varies_in == {loop}
    assert (fixed.axes, moved.axes, where.axes) == ({"x"}, set(), set())
    assert where.by_lane


@pytest.mark.parametrize("body", [GATHERED, SHARED], ids=["by a load", "by a copy to shared memory"])
def test_data_makes_an_address(body: str) -> None:
    """Its position is that of the data alone, whose own address is by the grid and the lanes."""
    seen = graph(body)
    address = load(seen).operands[0]
    everything, position = seen.depends(address), seen.positions(address)
    assert everything.of_data
    assert (everything.axes, everything.arguments) == ({"x"}, {0, 1})
    assert {node.name for node in everything.loads} < {"tt.load", "ttg.async_copy_global_to_local"}
    assert (position.axes, position.by_lane, position.of_lane_data, position.arguments) == (
        set(),
        False,
        True,
        {0},
    )


def test_a_branch_depends_on_its_condition() -> None:
    assert graph(BRANCHED).depends(load(graph(BRANCHED)).operands[0]).axes == {"y"}


def test_what_is_divided_says_so() -> None:
    address = load(graph(DIVIDED)).operands[0]
    assert graph(DIVIDED).depends(address).has_division
    assert graph(DIVIDED).depends(address).axes == {"x"}


def test_a_loops_result_depends_on_how_many_steps_it_took() -> None:
    body = f"""\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %steps = scf.for %i = %c0 to %x step %c1 iter_args(%a = %c0) -> (i32)  : i32 {{
      %b = arith.addi %a, %c1 : i32
      scf.yield %b : i32
    }}
    %all = tt.splat %steps : i32 -> {_INTS}
    %there = tt.addptr %base, %all : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
    assert graph(body).depends(load(graph(body)).operands[0]).axes == {"x"}


def test_a_block_depends_on_the_branches_that_lead_there() -> None:
    """Neither of the values that it is given does."""
    body = f"""\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %is = arith.cmpi eq, %x, %c0 : i32
    cf.cond_br %is, ^bb1, ^bb2
  ^bb1:
    cf.br ^bb3(%c0 : i32)
  ^bb2:
    cf.br ^bb3(%c1 : i32)
  ^bb3(%which: i32):
    %all = tt.splat %which : i32 -> {_INTS}
    %there = tt.addptr %base, %all : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
    assert graph(body).depends(load(graph(body)).operands[0]).axes == {"x"}


def test_a_call_hands_values_on() -> None:
    behind = f"""\
  tt.func private @twice(%v: {_INTS}) -> {_INTS} attributes {{noinline = true}} {{
    %sum = arith.addi %v, %v : {_INTS}
    tt.return %sum : {_INTS}
  }}
"""
    body = f"""\
    %sum = tt.call @twice(%at) : ({_INTS}) -> {_INTS}
    %there = tt.addptr %base, %sum : {_PTRS}, {_INTS}
    %v = tt.load %there : {_PTRS}
"""
    seen = graph(body, behind=behind)
    rests = seen.depends(load(seen).operands[0])
    assert (rests.axes, rests.by_lane, rests.arguments) == ({"x"}, True, {0})


def test_a_while_loop_varies_with_what_it_carries() -> None:
    body = f"""\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %end = scf.while (%i = %c0) : (i32) -> i32 {{
      %more = arith.cmpi slt, %i, %n : i32
      scf.condition(%more) %i : i32
    }} do {{
    ^bb0(%j: i32):
      %js = tt.splat %j : i32 -> {_INTS}
      %there = tt.addptr %base, %js : {_PTRS}, {_INTS}
      %v = tt.load %there : {_PTRS}
      %k = arith.addi %j, %c1 : i32
      scf.yield %k : i32
    }}
"""
    seen = graph(body)
    (loop,) = seen.named("scf.while")
    assert seen.depends(load(seen).operands[0]).varies_in == {loop}


def test_a_number_may_be_that_of_every_element() -> None:
    body = """\
    %eight = arith.constant 8 : i32
    %all = tt.splat %eight : i32 -> tensor<128xi32, #b>
    %sevens = arith.constant dense<-7> : tensor<128xi32, #b>
    %half = arith.constant dense<0.5> : tensor<128xf32, #b>
    %sum = arith.addi %all, %sevens : tensor<128xi32, #b>
"""
    values = {
        node.results[0]: graph(body).constant(node.results[0]) for node in graph(body).named("arith|splat")
    }
    assert [values[value] for value in values][-5:] == [8, 8, -7, None, None]


def test_equal_computations_have_one_number() -> None:
    body = f"""\
    %one = tt.addptr %base, %at : {_PTRS}, {_INTS}
    %again = arith.addi %firsts, %lane : {_INTS}
    %two = tt.addptr %base, %again : {_PTRS}, {_INTS}
    %a = tt.load %one : {_PTRS}
    %b = tt.load %two : {_PTRS}
    %sum = arith.addf %a, %b : tensor<128xf32, #b>
"""
    seen = graph(body)
    first, second = seen.named(r"^tt\.load$")
    assert seen.number(first.operands[0]) == seen.number(second.operands[0])
    assert seen.number(first.results[0]) != seen.number(second.results[0]), "memory may have changed"


def test_slices_end_where_they_are_told_to() -> None:
    seen = graph(GATHERED)
    address = load(seen).operands[0]
    everything = {node.name for node in seen.backward([address])}
    assert {"tt.load", "tt.make_range", "tt.get_program_id"} <= everything
    up_to_data = {node.name for node in seen.backward([address], lambda node: node.name != "tt.load")}
    assert up_to_data == {"tt.addptr", "tt.load", "tt.splat"}


def test_what_is_not_the_same_has_other_numbers() -> None:
    """Counters of loops inside each other, and what assembly reads."""
    how = 'constraints = "=r", packed_element = 1 : i32, pure = false'
    clock = f'tt.elementwise_inline_asm "mov.u32 $0, %clock;" {{{how}}}'
    body = f"""\
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {{
      scf.for %j = %c0 to %n step %c1  : i32 {{
        %left = arith.addi %i, %c1 : i32
        %right = arith.addi %j, %c1 : i32
      }}
    }}
    scf.for %k = %c0 to %n step %c1  : i32 {{
      %same = arith.addi %k, %c1 : i32
    }}
    %one = {clock} %at : {_INTS} -> {_INTS}
    %two = {clock} %at : {_INTS} -> {_INTS}
"""
    seen = graph(body)
    left, right, same = (node.results[0] for node in seen.named("arith.addi")[-3:])
    assert seen.number(left) != seen.number(right)
    assert seen.number(left) == seen.number(same), "one loop behind the other"
    one, two = (node.results[0] for node in seen.named("inline_asm"))
    assert seen.number(one) != seen.number(two)


def test_a_block_that_is_printed_before_what_it_reads() -> None:
    count = 350  # three calls each would be too deep
    blocks = [
        f"  ^bb{at}:\n    %v{at} = arith.addi %v{at - 1}, %n : i32\n    cf.br ^bb{at + 1}\n"
        for at in range(1, count)
    ]
    body = f"    %v0 = arith.addi %n, %n : i32\n    cf.br ^bb1\n{''.join(reversed(blocks))}  ^bb{count}:\n"
    last = graph(body).named("arith.addi")[-1].results[0]
    assert graph(body).number(last) == graph(body).number(last)


def test_a_long_chain_is_numbered_without_recursion() -> None:
    names = ["p", *(f"p{at}" for at in range(1, 1101))]
    chain = "".join(
        f"    %{made} = tt.addptr %{given}, %n : !tt.ptr<f32>, i32\n" for given, made in pairwise(names)
    )
    last = graph(chain).named(r"^tt\.addptr$")[-1].results[0]
    assert graph(chain).number(last) != graph(chain).number(last.maker.operands[0])  # type: ignore[union-attr]
