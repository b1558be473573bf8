"""Calls of noinline functions: what they are called, and what happens where there are too many paths."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.analyses.places import Places, call_name
from profscope.instrument_passes.analyses.walk import recordable_blocks
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.lowering.calls import MAX_CLONES
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.lower_records import manifest_of
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import triton_version, verify

_MODULE = """
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%p: !tt.ptr<i32>) {{
{calls}
    tt.return
  }}
  tt.func private @"m.twice__Pi32"(%p: !tt.ptr<i32>) attributes {{noinline = true}} {{
    tt.call @"m.leaf__Pi32"(%p) : (!tt.ptr<i32>) -> () loc("m.py":20:1)
    tt.call @"m.leaf__Pi32"(%p) : (!tt.ptr<i32>) -> () loc("m.py":21:1)
    tt.return
  }}
  tt.func private @"m.leaf__Pi32"(%p: !tt.ptr<i32>) attributes {{noinline = true}} {{
    %v = tt.load %p : !tt.ptr<i32>
    tt.store %p, %v : !tt.ptr<i32>
    tt.return
  }}
}}
"""  # noqa: E501  as MLIR prints it


def _module(calls: int) -> str:
    line = '    tt.call @"m.twice__Pi32"(%p) : (!tt.ptr<i32>) -> () loc("m.py":{}:1)'
    return _MODULE.format(calls="\n".join(line.format(number) for number in range(1, calls + 1)))


def test_calls_beyond_the_limit_run_bare_and_are_named() -> None:
    module = parse(_module(40))  # 40 calls of a function with two calls each
    chosen = "kernel-span,op-spans{classes=load;store},lower-records,allocate-buffer"
    run_pipeline(module, parse_pipeline(chosen), PassContext(triton_version()))
    manifest = manifest_of(module)
    assert manifest is not None
    names = [span.name for span in manifest.sections[0].spans]
    assert sum(name.startswith("call twice") for name in names) == 40
    assert sum(name.startswith("call leaf") for name in names) == MAX_CLONES - 40 == names.count("load")
    (note,) = manifest.notes
    assert note.startswith("the kernel has more than 64 call paths that record")
    assert note.endswith("leaf L20, leaf L21")
    symbols = [function.symbol for function in module.functions]
    assert "m.twice__Pi32" not in symbols  # all its calls have clones
    (bare,) = [function for function in module.functions if function.symbol == "m.leaf__Pi32"]
    assert [op.name for op in bare.regions[0].entry.ops] == ["tt.load", "tt.store", "tt.return"]
    verify(str(module), "m.ttgir")


def test_calls_without_records_stay_as_they_are() -> None:
    module = parse(_module(2))
    run_pipeline(module, parse_pipeline("kernel-span,lower-records"), PassContext())
    assert [function.symbol for function in module.functions] == ["kernel", "m.twice__Pi32", "m.leaf__Pi32"]
    assert str(module).count('tt.call @"m.leaf__Pi32"(%p)') == 2


def test_blocks_of_a_function_come_once() -> None:
    module = parse(_module(3))
    kernel, twice, leaf = module.functions
    found = [block.parent_op for block in recordable_blocks(kernel)]
    assert found == [kernel, twice, leaf]
    assert list(recordable_blocks(kernel, into_calls=False)) == [kernel.regions[0].entry]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("helper", "helper"),
        ("a.b.helper__Pfp32_i32", "helper"),
        ("a.b.helper__", "helper"),
        ("__main__.my__helper__fp32_c128", "my__helper"),
        ("a.test.<locals>._helper__fp32_c1.5", "_helper"),
        ("a.helper__Pfp32_i32__(3,)cconstexpr_128_", "helper"),  # 3.6
        ("a.helper__fp32__", "helper"),  # 3.6, no constants
    ],
)
def test_a_call_is_named_after_its_function_and_line(symbol: str, name: str) -> None:
    module = parse(_module(1).replace("m.twice__Pi32", symbol))
    call, *_ = [op for op in module.walk() if op.name == "tt.call"]
    assert call_name(call, Places()) == f"call {name} L1"
