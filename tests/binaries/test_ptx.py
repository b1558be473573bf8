"""The chains of calls in PTX, as the LLVMs of Triton 3.6 to 3.9 spell them."""

from __future__ import annotations

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from profscope.binaries.ptx import Frame, is_of, read_ptx

FILES = '\t.file\t1 "/home/me/work.py"\n\t.file\t2 "/triton/language/standard.py"\n'
SUM, AT_47, AT_49 = (
    Frame("/triton/language/standard.py", 293, 36),
    *(Frame("/home/me/work.py", n, 21) for n in (47, 49)),
)
COMBINE = Frame("/triton/language/standard.py", 263, 15)


def chains(body: str) -> list[tuple[Frame, ...]]:
    read = read_ptx(f".visible .entry k(\n)\n{{\n{body}}}\n{FILES}")
    assert read.kernel == "k"
    return [chain for chain in read.chains[3:] if chain][: body.count("\n")]


def test_chains_in_comments() -> None:
    assert (
        chains(
            "\t.loc\t2 263 15 // standard.py:263:15 @[ standard.py:293:36 @[ work.py:47:21 ] ]\n"
            "\tadd.f32 %f1;\n"
        )
        == [(COMBINE, SUM, AT_47)] * 2
    )


def test_chains_by_inlined_at() -> None:
    sums = [
        f"\t.loc\t2 293 36, function_name $L, inlined_at 1 {line} 21 // standard.py:293:36\n"
        for line in (47, 49)
    ]
    combine = "\t.loc\t2 263 15, function_name $L, inlined_at 2 293 36 // standard.py:263:15\n"
    found = chains(sums[0] + combine + sums[1] + combine + "\t.loc\t1 47 21 // work.py:47:21\n" + combine)
    first, second = (COMBINE, SUM, AT_47), (COMBINE, SUM, AT_49)
    assert found == [(SUM, AT_47), first, (SUM, AT_49), second, (AT_47,), first]


def test_lines_of_a_function_begin_at_its_only_call() -> None:
    text = """
.func  (.param .b32 func_retval0) outer(
)
;
.visible .entry kernel()
{
	.loc	1 14 14                 // work.py:14:14
	call.uni (retval0), outer, (param0);
	.loc	1 15 14                 // work.py:15:14
	@%p1 call leaf,
	(param0);
}
.func  (.param .b32 func_retval0) outer(
)
{
	.loc	1 9 14                  // work.py:9:14
	call.uni (retval0),
	inner,
	(param0);
	call leaf;
}
.func inner()
{
	.loc	1 6 19                  // work.py:6:19
	ret;
}
.func leaf()
{
	.loc	1 3 2                   // work.py:3:2
	call endless;
}
.func endless()
{
	.loc	1 4 2                   // work.py:4:2
	call endless;
}
	.file	1 "/src/work.py"
"""
    chains = {chain[0].line: [frame.line for frame in chain] for chain in read_ptx(text).chains if chain}
    assert chains[9] == [9, 14]
    assert chains[6] == [6, 9, 14]
    assert chains[3] == [3], "two call it"
    assert chains[4] == [4], "called by itself, too"
    assert chains[15] == [15]


def test_the_ptx_of_a_cubin_is_known_without_comments_and_lines() -> None:
    text = "// by LLVM\n{\n\t.loc\t1 2 3 // a.py:2:3\n\tadd.f32 \t%f1, %f2, %f3;  // sum\n}\n"
    assert is_of(text, ["", "{", "", "add.f32 %f1, %f2, %f3;", "}", ""])
    assert not is_of(text, ["", "{", "", "sub.f32 %f1, %f2, %f3;", "}", ""])
    assert not is_of(text, ["", "{", "}"])


ASSEMBLY = """\
	.loc	1 87 46                 // work.py:87:46
	// begin inline asm
	.loc	1 87 46                 // work.py:87:46
	mov.u32 %r1, 0x0;
	.loc	1 88 46                 // work.py:88:46
	ld.global.b32 { %r1 }, [ %rd1 + 0 ];
	// end inline asm
	.loc	1 88 14                 // work.py:88:14
	add.s32 %r2, %r1, 1;
"""


def test_lines_of_an_assembly_are_no_lines_of_the_source() -> None:
    """As Triton 3.8 prints a load: each line of an assembly one further."""
    load, add = (Frame("/home/me/work.py", 87, 46),), (Frame("/home/me/work.py", 88, 14),)
    assert chains(ASSEMBLY) == [load] * 7 + [add] * 2


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)  # the load
    tl.store(out_ptr + at, x)  # the store


def test_loads_and_stores_stand_at_their_lines() -> None:
    """Whatever Triton compiles."""
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "BLOCK": "constexpr"}
    source = ASTSource(copy_kernel, signature, {"BLOCK": 128})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    text = Path(__file__).read_text().splitlines()
    for opcode, comment in (("ld.global", "# the load"), ("st.global", "# the store")):
        (at,) = [number for number, line in enumerate(ptx.splitlines()) if opcode in line]
        line = read_ptx(ptx).chains[at][0].line
        assert text[line - 1].endswith(comment)
