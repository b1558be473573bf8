"""Result types and attributes of single ops; test_round_trip compares whole kernels with Triton."""

from __future__ import annotations

import pytest

from profscope.instrument_passes.ir import parse

TENSOR = "tensor<4x!tt.ptr<f32, 3>, #b>"
MEMORY = "!ttg.memdesc<2x4xf32, #s, #smem, mutable>"


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("%0 = arith.constant true", ["i1"]),
        ("%0 = arith.constant dense<[1, 2]> : tensor<2xi32>", ["tensor<2xi32>"]),
        ("%0 = arith.cmpi slt, %a, %b : i32", ["i1"]),
        ("%0 = arith.cmpf olt, %a, %b : tensor<4x2xf32, #ttg.slice<{dim = 1, parent = #b}>>",
         ["tensor<4x2xi1, #ttg.slice<{dim = 1, parent = #b}>>"]),
        ("%0 = arith.select %c, %a, %b : tensor<4xi1>, tensor<4xf16>", ["tensor<4xf16>"]),
        ("%0 = arith.extsi %a {x = 1 : i8} : i32 to i64", ["i64"]),
        ("%0:2 = arith.mulsi_extended %a, %b : i32", ["i32", "i32"]),
        ("%0 = tt.load %p, %m : !tt.ptr<f16>", ["f16"]),
        (f"%0 = tt.load %p, %m cacheModifier = cg : {TENSOR}", ["tensor<4xf32, #b>"]),
        ("%0 = tt.addptr %p, %o : !tt.ptr<f16>, i32", ["!tt.ptr<f16>"]),
        ("%0:2 = tt.split %a : tensor<4x2xf32> -> tensor<4xf32>", ["tensor<4xf32>", "tensor<4xf32>"]),
        ("%0 = tt.make_tensor_descriptor %p, [%m], [%s] : <f16>, <4xf16, #s>", ["!tt.tensordesc<4xf16, #s>"]),
        ('%0 = tt.elementwise_inline_asm "mov $0, 1; // ->" {pure = true} -> i32', ["i32"]),
        ('%0:2 = tt.elementwise_inline_asm ": x" {pure = true} %a : f32 -> f32, i32', ["f32", "i32"]),
        ("%0 = tt.call @f(%a) : (i32) -> i64", ["i64"]),
        ("%0:2 = tt.call @f() : () -> (i64, (i1) -> i8)", ["i64", "(i1) -> i8"]),
        (f"%0:2 = x.y %a : {MEMORY}, i32", [MEMORY, "i32"]),
        ("%0 = ttg.async_wait %a, %b {num = 2 : i32}", ["!ttg.async.token"]),
        ("%0 = ttg.async_copy_global_to_local %p, %m mask %k : tensor<4x!tt.ptr<f32>> -> <4xf32, #s, #smem>",
         ["!ttg.async.token"]),
        (f"%0 = ttng.tc_gen5_mma %a, %b, %t[], %x, %y : {MEMORY}, {MEMORY}, {MEMORY}", ["!ttg.async.token"]),
        (f"%0, %1 = ttng.tmem_load %t[%k] : {MEMORY} -> tensor<4xi8>", ["tensor<4xi8>", "!ttg.async.token"]),
        ("%0 = ttg.warp_id {omitUniformHint}", ["i32"]),
        ("%0 = x.y %a", [""]),
        ("%0:3 = x.y %a : i32", ["", "", ""]),
    ],
)  # fmt: skip
def test_result_types(text: str, types: list[str]) -> None:
    for loc in ("", " loc(#loc3)", ' loc("x : i8"(#loc3))'):
        (op,) = parse(f"module {{\n  {text}{loc}\n}}\n").walk()
        assert [value.type for value in op.results] == types
        assert op.loc_text == loc.strip()


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("tt.load %p cacheModifier = cg evictionPolicy = evict_last {a} : !tt.ptr<f16>",
         {"cacheModifier": "cg", "evictionPolicy": "evict_last", "a": "unit"}),
        ("tt.dot %a, %b, %c, inputPrecision = tf32 : A * B -> C", {"inputPrecision": "tf32"}),
        ('"tt.reduce"(%0) <{axis = 1 : i32}> {b = array<i32: 1, 2>} : (A) -> B',
         {"axis": "1 : i32", "b": "array<i32: 1, 2>"}),
        ('x.y {"a-b" = "c = d, e", f = [1, {g = 2}], h = #a.b<c, d>}',
         {"a-b": '"c = d, e"', "f": "[1, {g = 2}]", "h": "#a.b<c, d>"}),
        ("x.y scope = #odd.scope<a, b> kind = #k", {"scope": "#odd.scope<a, b>", "kind": "#k"}),
        ("x.y {}", {}),
    ],
)  # fmt: skip
def test_attributes(text: str, attributes: dict[str, str]) -> None:
    (op,) = parse(f"module {{\n  {text} loc(unknown)\n}}\n").walk()
    assert dict(op.attributes) == attributes
