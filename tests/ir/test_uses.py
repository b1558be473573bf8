"""Renaming a value minds scopes: only uses of that definition change."""

from __future__ import annotations

from profscope.instrument_passes.ir import Module, parse, replace_uses
from tests.support.corpus import modules, triton_module

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


def test_uses_of_an_argument() -> None:
    module = _module()
    assert replace_uses("%5", "%new", module.functions[0].regions[0]) == 7
    expected = SCOPES
    for old, new in [
        ("%i = %5 to %5", "%i = %new to %new"),
        ("a.use %5, %50", "a.use %new, %50"),
        ("a.inner %5", "a.inner %new"),
        ("a.outer %5", "a.outer %new"),
        ("^bb1(%5 : i32)", "^bb1(%new : i32)"),
        ("a.use %5, %7", "a.use %new, %7"),
    ]:
        assert expected.count(old) == 1
        expected = expected.replace(old, new)
    assert str(module) == expected


def test_uses_of_one_result_of_several() -> None:
    module = _module()
    region = module.functions[0].regions[0]
    assert replace_uses("%6#1", "%one", region) == 1
    assert replace_uses("%6", "%zero", region) == 4
    text = str(module)
    assert "a.use %zero, %zero, %one, %60\n" in text
    assert "ttg.warp_specialize(%zero)\n" in text
    assert "default {\n      a.use %zero\n" in text
    assert "%6 = a.inner %5\n      a.use %6\n" in text  # another %6, of an inner region
    assert "%6:2 = a.outer" in text


def test_uses_in_one_op_or_block() -> None:
    module = _module()
    region = module.functions[0].regions[0]
    assert replace_uses("%5", "%new", region.entry.ops[0]) == 3
    assert replace_uses("%5", "%new", region.blocks[1]) == 1
    assert replace_uses("%nothing", "%new", region) == 0
    assert str(module).count("%new") == 4


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


@modules(large=("attention", "sort"), on_one_target=True)
def test_every_result_renamed(module: Module, target: str) -> None:
    """Give every single result a new name, one after the other; Triton still sees the same program."""
    before = triton_module(str(module), target).str_nodebug()
    for op in list(module.walk()):
        if len(op.results) == 1 and op.header.result_groups[0][1] is None:
            name = op.results[0].name
            assert op.parent is not None
            assert op.parent.parent is not None
            new = module.fresh("renamed")
            replace_uses(name, new, op.parent.parent)
            part = str(op.parts[0])
            op.set_part(0, part.replace(name, new, 1))
    assert str(parse(str(module))) == str(module)
    assert triton_module(str(module), target).str_nodebug() == before
