"""The PTX reader and the control flow graph, on text Triton produced and on what it might."""

import importlib.util
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from profscope.emulator.ptx_parser import parse
from profscope.emulator.ptx_syntax import Address, Immediate, Module, Register, Symbol, Vector
from profscope.emulator.translation.flow import build
from profscope.emulator.translation.graph import Graph
from profscope.errors import EmulatorError
from tests.kernels.matmul import matmul_kernel
from tests.support.ptx_kernel import assemble


@pytest.fixture(scope="module")
def matmul_ptx() -> str:
    from profscope.emulator import activate

    with activate():
        a = torch.zeros(64, 64).half()
        kernel = matmul_kernel[(1,)](
            a, a, a, 64, 64, 64, 64, 64, 64, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, GROUP_M=1
        )
    return str(kernel.asm["ptx"])


def instructions(module: Module) -> list[str]:
    (function,) = [f for f in module.functions.values() if f.is_entry]
    return [i.opcode for i in function.body if not isinstance(i, Symbol)]


def test_nothing_of_a_real_kernel_is_lost(matmul_ptx: str) -> None:
    opcodes = instructions(parse(matmul_ptx))
    for opcode in ("mma.sync", "ldmatrix.sync", "cp.async.cg", "cp.async.wait_group", "bar.sync", "bra"):
        in_text = sum(
            statement.split("//")[0].split("@%")[-1].count(opcode) for statement in matmul_ptx.splitlines()
        )
        assert sum(o.startswith(opcode) for o in opcodes) == in_text > 0


def test_source_lines_are_those_of_the_kernel(matmul_ptx: str) -> None:
    (function,) = parse(matmul_ptx).functions.values()
    sources = {i.source for i in function.body if not isinstance(i, Symbol) and i.opcode.startswith("mma")}
    assert [s.file.rsplit("/", 1)[-1] for s in sources if s] == ["matmul.py"]
    (line,) = [s.line for s in sources if s]
    text = matmul_kernel.fn.__code__
    assert text.co_firstlineno < line < text.co_firstlineno + 40


def graph(body: str) -> Graph:
    return build(parse(assemble(body)), "kernel")


def test_operands() -> None:
    (function,) = parse(
        assemble("""
  ld.global.v2.b32 {%r1, _}, [%a+-16];
  setp.eq.s32 %p1|%p2, %r1, -5;
  mov.b32 %r2, 0f3F800000; mov.b64 %q1, 0d3FF0000000000000;
  @!%p1 add.s32 %r3, %r2, 0xffU;""")
    ).functions.values()
    load, compare, one, big_one, add = function.body[-6:-1]
    assert not isinstance(load, Symbol)
    assert load.operands == (
        Vector((Register("%r1"), Register("_"))),
        Address(Register("%a"), -16),
    )
    assert not isinstance(compare, Symbol)
    assert compare.operands[0] == Vector((Register("%p1"), Register("%p2")))
    assert compare.operands[2] == Immediate(-5, 0)
    assert not isinstance(one, Symbol)
    assert one.operands[1] == Immediate(0x3F800000, 32)
    assert not isinstance(big_one, Symbol)
    assert big_one.operands[1] == Immediate(0x3FF0000000000000, 64)
    assert not isinstance(add, Symbol)
    assert add.predicate == (Register("%p1"), True)
    assert add.operands[2] == Immediate(255, 0)


def test_scopes_give_labels_names_of_their_own() -> None:
    once = "{ .reg .pred p; setp.eq.s32 p, %r1, 0; @p bra.uni done; add.s32 %r1, %r1, 1; done: }"
    found = graph(f"{once} mov.b32 %r2, 1; {once} mov.b32 %r3, 2;")
    taken = [block.taken for block in found.blocks if block.end == "branch"]
    assert len(set(taken)) == 2
    firsts = [found.blocks[number].instructions[0].operands[0] for number in taken]
    assert [name.name for name in firsts if isinstance(name, Register)] == ["%r2", "%r3"]


def test_recursion_and_unknown_functions_are_refused() -> None:
    text = assemble("call.uni nowhere, ();")
    with pytest.raises(EmulatorError, match="unknown function 'nowhere'"):
        build(parse(text), "kernel")
    recursive = ".func again() { call.uni again, (); ret; }"
    with pytest.raises(EmulatorError, match="recursion"):
        build(parse(assemble("call.uni again, ();").replace(".visible", recursive + "\n.visible")), "kernel")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".version 8.6 ?", "cannot read '\\?"),
        (".visible .entry k() { add.s32 %r1, [; }", "operand expected"),
        (".nonsense x", "unknown directive"),
        (".visible .entry k() { add.s32 %r1 %r2; }", "',' expected, found '%r2'"),
    ],
)
def test_unreadable_text_is_named(text: str, message: str) -> None:
    with pytest.raises(EmulatorError, match=rf"PTX line 1: .*{message}"):
        parse(text)


@given(text=st.text(alphabet=' \n{}()[];,:@!%$_.abr01x+-<>|="', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(EmulatorError):
        parse(".visible .entry k() {" + text)


def edges(found: Graph) -> list[tuple[int, int]]:
    return [(number, s) for number, block in enumerate(found.blocks) for s in block.successors()]


@given(data=st.data())
def test_only_edges_to_loop_heads_go_back(data: st.DataObject) -> None:
    """Random structured programs: sequences of if/else and loops, nested."""
    counter = iter(range(1000))

    def program(depth: int) -> str:
        text = ""
        for kind in data.draw(st.lists(st.sampled_from(["plain", "if", "else", "loop"]), max_size=3)):
            number = next(counter)
            inner = program(depth - 1) if depth else ""
            if kind == "plain":
                text += "mov.b32 %r1, 1;\n"
            elif kind == "if":
                text += f"@%p1 bra $a{number};\n{inner}$a{number}:\n"
            elif kind == "else":
                other = program(depth - 1) if depth else ""
                text += f"@%p1 bra $a{number};\n{inner}bra.uni $b{number};\n$a{number}:\n{other}$b{number}:\n"
            else:
                text += f"$a{number}:\n{inner}@%p1 bra $a{number};\n"
        return text

    found = graph(program(2))
    assert found.blocks[-1].end == "exit"
    back = [(a, b) for a, b in edges(found) if b <= a]
    heads = {b for _, b in back}
    for head in heads:
        last = max(a for a, b in back if b == head)
        entries = [(a, b) for a, b in edges(found) if head < b <= last and not head <= a <= last]
        assert (
            not entries
        )  # what lies between a head and the last edge back to it is the loop, and nothing else


@pytest.mark.parametrize("name", ['qu"ote', "new\nline", "back\\slash", "é"])
def test_a_kernel_from_a_file_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Folder and file. LLVM repeats a file's name in a comment, line breaks and all."""
    from profscope.emulator import activate

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))  # whose keys have no paths
    (tmp_path / name).mkdir()
    path = tmp_path / name / f"{name}.py"
    path.write_text(f"""
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr):
    offs = tl.arange(0, 32)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) + {len(name)})
""")
    spec = importlib.util.spec_from_file_location("named", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = torch.arange(32.0), torch.zeros(32)
    with activate():
        compiled = module.kernel[(1,)](x, y)
    assert torch.equal(y, x + len(name))
    body = parse(compiled.asm["ptx"]).functions["kernel"].body
    files = {i.source.file for i in body if not isinstance(i, Symbol) and i.source}
    assert files == {str(path)}
