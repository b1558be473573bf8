"""Instructions that Triton seldom emits, but inline PTX and libraries do, against their definitions in the
PTX ISA 8.6, written out in Python."""

import re
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.errors import EmulatorError
from tests.support.examples import examples
from tests.support.instructions import LANES, execute, words
from tests.support.ptx_kernel import run

U32 = np.dtype(np.uint32)
Words = np.ndarray[Any, Any]


@given(x=words(np.uint32))
@settings(max_examples=examples(20))
def test_a_store_of_16_bits_has_the_low_ones_of_a_float(x: Words) -> None:
    low = np.zeros(LANES, np.uint16)
    body = """
  .reg .f32 %f<2>;
  mad.wide.u32 %q1, %t, 4, %a;
  mad.wide.u32 %q2, %t, 2, %out;
  ld.global.f32 %f1, [%q1];
  neg.f32 %f1, %f1;
  st.global.b16 [%q2], %f1;"""
    run(body, x, low)
    assert low.tolist() == (x & 0xFFFF).tolist()


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_sad(kind: str, data: st.DataObject) -> None:
    bits = int(kind[1:])
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{bits // 8}")
    a, b, c = (data.draw(words(dtype.type)) for _ in range(3))
    got = execute(f"sad.{kind} {{d}}, {{a}}, {{b}}, {{c}}", [a, b, c], dtype)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    assert [v % 2**bits for v in got.tolist()] == [(z + abs(x - y)) % 2**bits for x, y, z in rows]


@pytest.mark.parametrize(
    ("literal", "value"),
    [("15.", 15.0), (".5", 0.5), ("1e3", 1000.0), ("2.5E-1", 0.25), ("-1.5", -1.5), ("0.1", 0.1),
     ("-.5e+1", -5.0), ("0d3FE0000000000000", 0.5), ("-0f3F800000", -1.0)],
)  # fmt: skip
def test_decimal_literals(literal: str, value: float) -> None:
    """They are doubles, rounded where a float32 is wanted."""
    x = np.full(LANES, 2, np.float32)
    got = execute(f"mul.f32 {{d}}, {{a}}, {literal}", [x], np.dtype(np.float32))
    assert set(got.tolist()) == {float(np.float32(value)) * 2}
    wide = execute(f"mul.f64 {{d}}, {{a}}, {literal}", [x.astype(np.float64)], np.dtype(np.float64))
    assert set(wide.tolist()) == {value * 2}


@pytest.mark.parametrize(
    ("literal", "value"), [("010", 8), ("0b101", 5), ("0X1fU", 31), ("0", 0), ("-07", -7)]
)
def test_integer_literals(literal: str, value: int) -> None:
    got = execute(f"mov.b32 {{d}}, {literal}", [], np.dtype(np.int32))
    assert set(got.tolist()) == {value}


def test_what_is_no_octal_number_is_refused() -> None:
    with pytest.raises(EmulatorError, match=r"kernel: PTX line \d+: 08 is no octal number"):
        execute("mov.b32 {d}, 08", [], U32)


JUMP = """
  mov.u32 %r1, %laneid; and.b32 %r1, %r1, 3; mov.b32 %r2, 9;
  {predicate} brx.idx %r1, $list;
  mov.b32 %r2, 7; bra.uni $done;
$zero: mov.b32 %r2, 100; bra.uni $done;
$one:  mov.b32 %r2, 101; bra.uni $done;
$two:  mov.b32 %r2, 102;
$done: mad.wide.u32 %q1, %t, 4, %out; st.global.b32 [%q1], %r2;
  ret;
$list: .branchtargets $zero, $one, $two, $zero;
"""


def test_threads_of_a_warp_jump_to_different_labels() -> None:
    out = np.zeros(LANES, np.int32)
    run(JUMP.format(predicate=""), out)
    assert out.tolist() == [100, 101, 102, 100] * 8
    run(JUMP.format(predicate="setp.gt.u32 %p1, %r1, 1; @%p1"), out)
    assert out.tolist() == [7, 7, 102, 100] * 8


def test_an_index_beyond_the_list_is_an_error() -> None:
    with pytest.raises(EmulatorError, match=r"kernel: no label for the index in a list of 2.*warp 0 lane 2"):
        run(JUMP.format(predicate="").replace("$two, $zero;", ";").replace("$one, ;", "$one;"), np.zeros(32))


@triton.jit
def unknown_kernel(x_ptr):
    offs = tl.arange(0, 32)
    y = tl.inline_asm_elementwise("vset4.u32.u32.eq $0, $1, $1, $1;", "=r,r", [offs], tl.int32, True, 1)
    tl.store(x_ptr + offs, y)


def test_an_unknown_instruction_names_kernel_opcode_and_line() -> None:
    with pytest.raises(EmulatorError) as error:
        unknown_kernel[(1,)](torch.zeros(32, dtype=torch.int32))
    line = unknown_kernel.starting_line_number + 3
    text = r"unknown_kernel: the emulator cannot execute vset4\.u32\.u32\.eq at PTX line \d+ "
    assert re.fullmatch(rf"{text}\(.*test_rare_instructions\.py:{line}\): unknown opcode", str(error.value))
