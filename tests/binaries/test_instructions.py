"""`profscope.instructions` on binaries of the corpus, against what NVIDIA's tools say of the same ones."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import triton
import triton.language as tl
from triton import knobs
from triton.compiler import ASTSource

import profscope
from profscope.binaries import rows
from profscope.binaries.listing import CLASSES, read_line_tables, read_listing, split
from profscope.binaries.operands import access
from profscope.binaries.ptx import read_ptx
from profscope.binaries.rows import INSTRUCTION_DTYPES
from profscope.errors import ToolchainError
from profscope.instrument_passes.toolchain import triton_version
from tests.kernels import aot, corpus
from tests.kernels.spec import CUDA80, CUDA90, CUDA100

_SPECS = {spec.name: spec for spec in corpus.specs()}
# Few, for each takes a second: cp.async and mma; TMA and wgmma; a reduction, on Blackwell.
BUILDS = (("matmul", CUDA80), ("matmul_tma", CUDA90), ("softmax", CUDA100))


@cache
def built(name: str, target: str) -> Any:
    """Triton's CompiledKernel of a corpus kernel."""
    return aot.compiled(_SPECS[name], target)


def nvdisasm(cubin: bytes, folder: Path, *options: str) -> str:
    path = folder / "k.cubin"
    path.write_bytes(cubin)
    done = subprocess.run(
        [knobs.nvidia.nvdisasm.path, *options, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout


def line_of(df: pd.DataFrame, text: str) -> int:
    """The first line with the text in the file that most rows are of."""
    source = Path(df["file"].astype(str).mode()[0]).read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if text in line)


@triton.jit
def remainder_kernel(x_ptr, out_ptr, divisor, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    rest = x % divisor  # divided
    tl.store(out_ptr + at, rest)


def test_a_function_that_ptxas_adds_is_at_the_line_of_its_call(tmp_path: Path) -> None:
    """The line table has another one."""
    signature = {"x_ptr": "*i64", "out_ptr": "*i64", "divisor": "i64", "BLOCK": "constexpr"}
    source = ASTSource(fn=remainder_kernel, signature=signature, constexprs={"BLOCK": 128})
    kernel = triton.compile(source, target=aot.gpu_target(CUDA90))
    listing = read_listing(nvdisasm(kernel.asm["cubin"], tmp_path, "-c", "-hex"))
    (function,) = listing.added
    df = profscope.instructions(kernel)
    within = df[df["pc"].isin(function)]
    assert str(within["opcode"].iloc[-1]).startswith(("RET", "BRA", "NOP"))
    assert set(within["line"]) == {line_of(df, "# divided")}
    table, _ = read_line_tables(nvdisasm(kernel.asm["cubin"], tmp_path, "-c", "-g"))
    assert line_of(df, "# divided") not in {table[pc][1] for pc in function if pc in table}


@pytest.mark.parametrize(("name", "target"), BUILDS[::2])
def test_every_instruction_is_a_row(name: str, target: str, tmp_path: Path) -> None:
    kernel = built(name, target)
    df = profscope.instructions(kernel)
    assert {column: str(dtype) for column, dtype in df.dtypes.items()} == INSTRUCTION_DTYPES
    assert df.attrs == {"kernel": kernel.metadata.name, "notes": []}
    printed = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", nvdisasm(kernel.asm["cubin"], tmp_path, "-c"))
    assert df["pc"].tolist() == [int(pc, 16) for pc, _ in printed] == list(range(0, 16 * len(df), 16))
    for row, (_, sass) in zip(df.itertuples(), printed, strict=True):
        assert sass.split("`")[0].replace(" ", "").startswith(str(row.sass).split(" 0x")[0].replace(" ", ""))
        assert re.match(rf"(?:@!?U?P\w+\s+)?{re.escape(str(row.opcode))}(?:\s|$)", sass)
    assert set(df["class"]) <= set(CLASSES), "an opcode without a class"
    assert {pc for pcs in df["waits_for"] for pc in pcs} <= set(df["pc"])


def twin_of(ptx: str) -> str:
    """The PTX with its own number in the place of each .loc."""
    count = iter(range(1, ptx.count("\t.loc\t") + 1))
    return re.sub(r"\t\.loc\t[^\n]*", lambda match: f"\t.loc\t1 {next(count)} 0", ptx)


def test_places_are_those_of_a_twin_assembled_with_numbered_locs(tmp_path: Path) -> None:
    """Another way to the same: the PTX assembled once more, with numbers in the place of lines."""
    name, target = "matmul_tma", CUDA90
    kernel = built(name, target)
    ptx = kernel.asm["ptx"]
    (tmp_path / "twin.ptx").write_text(twin_of(ptx))
    capability = int(target.partition(":")[2])
    newer = capability >= (90 if triton_version() >= (3, 9) else 100)
    ptxas = knobs.nvidia.ptxas_blackwell if newer else knobs.nvidia.ptxas
    options = ["-lineinfo", *(["--regAllocOptLevel=2"] if triton_version() >= (3, 8) else [])]
    gpu = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1]  # type: ignore[index]
    command = [
        ptxas.path,
        *options,
        f"--gpu-name={gpu}",
        str(tmp_path / "twin.ptx"),
        "-o",
        str(tmp_path / "twin"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    listing = nvdisasm((tmp_path / "twin").read_bytes(), tmp_path, "-c", "-hex", "-g")
    df = profscope.instructions(kernel)
    assert [each.sass for each in read_listing(listing).instructions] == df["sass"].tolist()
    chains = read_ptx(ptx).chains
    of_loc = [chains[at] for at, line in enumerate(ptx.splitlines()) if line.startswith("\t.loc\t")]
    twins = {pc: of_loc[number - 1] for pc, (_, number) in read_line_tables(listing)[0].items()}
    differ = [
        row.pc
        for row in df.itertuples()
        if row.ptx_line and chains[row.ptx_line - 1] not in ((), twins[row.pc])
    ]
    assert differ == []
    # What ptxas puts in front of all else is of no line of the PTX, and the twin has the last line there was.
    assert sum(not chains[line - 1] for line in df["ptx_line"]) <= 2


def test_a_sum_has_its_call_chain() -> None:
    df = profscope.instructions(built("softmax", CUDA100))
    line = line_of(df, "tl.sum(")
    sums = df[(df["line"] == line) & df["call_path"].str.contains("sum standard.py")]
    assert (sums["class"] == "warp exchange").any()
    assert sums["call_path"].str.startswith(f"softmax_kernel softmax.py:{line} > sum standard.py:").all()
    assert set(sums["ttgir_op"]) == {"tt.reduce"}
    own = df[(df["line"] == line_of(df, "tl.load(")) & (df["class"] == "global load")]
    assert not own.empty or (df["class"] == "async copy").any()
    assert set(df[df["class"] == "global store"]["ttgir_op"]) == {"tt.store"}


@pytest.mark.parametrize(("name", "target"), BUILDS)
def test_the_first_use_of_a_load_waits_for_it(name: str, target: str) -> None:
    df = profscope.instructions(built(name, target))
    loads = df[df["class"].isin(["shared load", "global load", "constant load"])]
    code = [split(pc, sass) for pc, sass in zip(df["pc"], df["sass"], strict=True)]
    first_uses = 0
    for load in loads.itertuples():
        results = access(code[load.Index]).writes
        for at in range(load.Index + 1, len(code)):
            touched = access(code[at])
            if touched.reads & results:
                assert load.pc in df["waits_for"][at], (load.sass, code[at].sass)
                first_uses += 1
            if (touched.reads | touched.writes) & results or df["class"][at] == "control":
                break
    assert first_uses


def test_waits_of_a_pipelined_matmul_name_the_copies() -> None:
    df = profscope.instructions(built("matmul", CUDA80)).set_index("pc")
    waits = df[df["opcode"] == "DEPBAR.LE"]["waits_for"]
    assert {cls for pcs in waits for cls in df.loc[pcs, "class"]} == {"async copy"}
    assert {op for pcs in waits for op in df.loc[pcs, "ttgir_op"]} == {"ttg.async_copy_global_to_local"}
    mmas = df[df["class"] == "mma"]["waits_for"]
    assert any("shared load" in set(df.loc[pcs, "class"]) for pcs in mmas)


def test_waits_of_a_tma_matmul_name_copies_and_mmas() -> None:
    df = profscope.instructions(built("matmul_tma", CUDA90)).set_index("pc")
    phases = df[df["opcode"].str.startswith("SYNCS.PHASECHK")]["waits_for"]
    assert len(phases)
    assert {op for pcs in phases for op in df.loc[pcs, "opcode"]} == {"UTMALDG.2D"}
    groups = df[df["opcode"] == "WARPGROUP.DEPBAR.LE"]["waits_for"]
    assert len(groups)
    assert {cls for pcs in groups for cls in df.loc[pcs, "class"]} == {"mma"}


def test_registers_are_those_of_nvdisasms_life_ranges(tmp_path: Path) -> None:
    """What is assigned and used by nvdisasm's own analysis, which it makes of binaries of its own version."""
    cubin = built("softmax", CUDA100).asm["cubin"]
    text = nvdisasm(cubin, tmp_path, "-c", "-plr", "-lrm", "narrow")
    found = 0
    for pc, sass, assigned, used in life_ranges(text):
        touched = access(split(pc, sass))
        if (
            "LDGSTS" not in sass and "CALL" not in sass
        ):  # marked as assigning what they read, or what they may
            assert assigned <= touched.writes, sass
            assert used <= touched.reads, sass
            found += len(assigned) + len(used)
    assert found > 500


def test_predicates_moved_together_are_those_of_the_mask() -> None:
    assert access(split(0, "P2R R23, PR, RZ, 0x29")).reads == {"P0", "P3", "P5"}
    assert access(split(0, "R2P PR, R23, 0x6")).writes == {"P1", "P2"}


MMAS = {  # by opcode in SASS: shape and types in PTX, registers of a and of b
    "IMMA.16816": ("m16n8k16", "s32.s8.s8.s32", 2, 1),
    "IMMA.16832": ("m16n8k32", "s32.s8.s8.s32", 4, 2),
    "HMMA.16816": ("m16n8k16", "f32.f16.f16.f32", 4, 2),
    "HMMA.1688": ("m16n8k8", "f32.f16.f16.f32", 2, 1),
}


def test_registers_of_an_mma_are_those_of_its_ptx(tmp_path: Path) -> None:
    body = ""
    for shape, kinds, a, b in MMAS.values():
        names = [f"%r{at}" for at in range(a + b + 4)]
        of_a, of_b, of_c = (f"{{{', '.join(own)}}}" for own in (names[:a], names[a : a + b], names[a + b :]))
        body += "".join(f"ld.global.b32 {name}, [%a+{4 * at}];\n" for at, name in enumerate(names))
        body += f"mma.sync.aligned.{shape}.row.col.{kinds} {of_c}, {of_a}, {of_b}, {of_c};\n"
        body += f"st.global.v4.b32 [%a], {of_c};\n"
    (tmp_path / "k.ptx").write_text(f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b32 %r<12>; .reg .b64 %a;
ld.param.u64 %a, [p];
{body}ret;
}}""")
    command = [knobs.nvidia.ptxas.path, "-arch=sm_80", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k")]
    subprocess.run(command, check=True)
    listing = read_listing(nvdisasm((tmp_path / "k").read_bytes(), tmp_path, "-c", "-hex"))
    found = {
        ".".join(each.opcode.split(".")[:2]): access(each)
        for each in listing.instructions
        if "MMA" in each.name
    }
    assert {opcode: (len(mma.reads), len(mma.writes)) for opcode, mma in found.items()} == {
        opcode: (a + b + 4, 4) for opcode, (_, _, a, b) in MMAS.items()
    }


def life_ranges(text: str) -> list[tuple[int, str, set[str], set[str]]]:
    """pc, sass, and the registers that are assigned (^, x) and used (v, x), by columns of a table."""
    banks = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
    table = [line.partition("//") for line in text.splitlines() if "//" in line and "|" in line]
    heads = next(line[2] for line in table if "GPR" in line[2])
    digits = next(line[2] for line in table if "#" in line[2])
    edges = [at for at, character in enumerate(heads) if character == "|"]
    ranges = []
    for code, _, columns in table:
        match = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", code)
        if match is None:
            continue
        marks: dict[str, set[str]] = {"^": set(), "v": set()}
        for first, last in pairwise(edges):
            bank = banks[heads[first + 1 : last].strip()]
            start = first + 1 + re.search(r"\d", digits[first + 1 : last]).start()  # type: ignore[union-attr]
            for number, character in enumerate(columns[start:last]):
                for mark in "^v" if character == "x" else character:
                    marks.setdefault(mark, set()).add(f"{bank}{number}")
        ranges.append((int(match[1], 16), match[2], marks["^"], marks["v"]))
    return ranges


class Kernel:
    def __init__(self, **stages: Any) -> None:
        self.asm = stages


def test_what_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    kernel = built("matmul", CUDA80)
    for wrong, error, message in [
        (Kernel(amdgcn="", hsaco=b""), profscope.errors.OptionError, "not for AMD or the emulator"),
        (3, profscope.errors.OptionError, "not int"),
        ("a.ptx", profscope.errors.OptionError, "the path of a .cubin is expected"),
        (tmp_path / "none.cubin", profscope.errors.OptionError, "No such file"),
        (Kernel(cubin=b"text", ptx=""), ToolchainError, "not a cubin"),
        (
            Kernel(cubin=b"\x7fELF\x02" + bytes(100), ptx=""),
            ToolchainError,
            "nvdisasm failed",
        ),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            profscope.instructions(wrong)
    other = kernel.asm["ptx"].replace("mad.", "mul.", 1).replace("shl.b32", "shr.b32", 1)
    with pytest.raises(ToolchainError, match="not the one"):
        profscope.instructions(Kernel(cubin=kernel.asm["cubin"], ptx=other))
    with pytest.raises(profscope.errors.OptionError, match="has its own"):
        profscope.instructions(kernel, "a.ptx")


def test_what_is_wrong_with_a_file_is_said_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "cut.cubin").write_bytes(built("matmul", CUDA80).asm["cubin"][:300])
    (tmp_path / "cut.ptx").write_text("")
    with pytest.raises(ToolchainError, match=r"/cut\.cubin: nvdisasm failed: .*") as raised:
        profscope.instructions(tmp_path / "cut.cubin")
    assert "profscope-" not in str(raised.value)
    with pytest.raises(profscope.errors.OptionError, match=r"cannot read 'a.*\.cubin': embedded null byte"):
        profscope.instructions("a\0.cubin")
    with pytest.raises(profscope.errors.OptionError, match=r"the path of a .*, not int"):
        profscope.instructions("a.cubin", 5)  # type: ignore[arg-type]


def test_a_cubin_without_its_ptx_has_innermost_lines_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = built("softmax", CUDA100).asm
    monkeypatch.setattr(rows, "embedded", lambda cubin: None)
    df = profscope.instructions(Kernel(cubin=stages["cubin"], ptx=stages["ptx"] + "\n"))
    assert len(df.attrs["notes"]) == 1
    assert "innermost lines" in df.attrs["notes"][0]
    assert set(df["call_path"]) == {""}
    assert df["line"].astype(bool).mean() > 0.9
