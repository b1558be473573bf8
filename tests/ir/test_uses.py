"""A name means the value that is defined in its scope."""

from __future__ import annotations

from profscope.instrument_passes.ir import Module, parse

SCOPES = """\
module {
  tt.func @f(%5: i32) {
    scf.for %i = %5 to %5 step %50 {
      a.use %5, %50 {s = "%5"} // %5
    }
    a.loop {
      %6 = a.inner %5
      a.use %6
    }
    %6:2 = a.outer %5
    a.use %6, %6#0, %6#1, %60
    ttg.warp_specialize(%6#0)
    default {
      a.use %6#0
      ttg.warp_yield
    }
    partition0(%5: i32) num_warps(4) {
      a.use %5
      ttg.warp_return
    } : (i32) -> ()
    cf.br ^bb1(%5 : i32)
  ^bb1(%7: i32):
    a.use %5, %7 loc("%5")
  }
  tt.func @g(%5: i32) {
    a.use %5
  }
}
"""


def _module() -> Module:
    module = parse(SCOPES)
    assert str(module) == SCOPES
    return module


def test_values_in_scope() -> None:
    module = _module()
    function = module.functions[0]
    by_text = {op.first_line.partition(" loc")[0]: op for op in module.walk()}
    argument = function.regions[0].entry.args[0]
    assert by_text["%6 = a.inner %5"].resolve("%5") == argument
    assert by_text["a.use %6"].resolve("%6").owner.name == "a.inner"
    assert by_text["a.use %6, %6#0, %6#1, %60"].resolve("%6#0").owner.name == "a.outer"
    assert by_text["a.use %6, %6#0, %6#1, %60"].resolve("%60") is None
    partition = by_text["ttg.warp_specialize(%6#0)"].regions[1]
    assert partition.entry.ops[0].resolve("%5") == partition.entry.args[0]
    assert partition.entry.ops[0].resolve("%6") is None
    assert by_text["a.use %5, %7"].resolve("%5") == argument
