"""The first value of an integer, against Python's own arithmetic and a loop that is run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profscope.instrument_passes.analyses.async_roles import initial_value
from profscope.instrument_passes.ir import parse

_KERNEL = """
module {
  tt.func public @k(%n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %start = arith.constant {async_task_id = array<i32: 1>} START : i32
    %depth = arith.constant DEPTH : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%at = %start, %phase = %c1) -> (i32, i32) : i32 {
      %next = arith.addi %at, %c1 : i32
      %wraps = arith.cmpi eq, %next, %depth : i32
      %slot = arith.select %wraps, %c0, %next : i32
      %turned = arith.xori %phase, %c1 : i32
      %now = arith.select %wraps, %turned, %phase : i32
      %divided = arith.divui %slot, %depth : i32
      %rest = arith.remsi %next, %depth : i32
      %bit = arith.trunci %next : i32 to i1
      %below = arith.cmpi slt, %next, %n : i32
      "use"(%slot, %now, %divided, %rest, %bit, %below, %n, %i) : (i32, i32, i32, i32, i1, i1, i32, i32) -> ()
      scf.yield %slot, %now : i32, i32
    }
    tt.return
  }
}
"""


@given(st.integers(0, 9), st.integers(1, 9))
def test_what_a_loop_starts_with(start: int, depth: int) -> None:
    module = parse(_KERNEL.replace("START", str(start)).replace("DEPTH", str(depth)))
    (use,) = [op for op in module.walk() if op.name == "use"]
    found = [initial_value(use.resolve(name)) for name in use.operands]
    slot = 0 if start + 1 == depth else start + 1
    phase = 0 if start + 1 == depth else 1
    assert found == [slot, phase, slot // depth, (start + 1) % depth, (start + 1) % 2, None, None, 0]
