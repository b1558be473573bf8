"""Scopes that kernels name: in the binary, in the records, in the tables."""

from __future__ import annotations

import linecache
import os
import re
import runpy
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

import profscope
import profscope.language as psl
from profscope import emulator
from profscope.compat.programs import manifest_in
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ir.tokens import quote
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.scopes import Marker, marker_of, marker_text
from profscope.options import Options
from tests.kernels import aot, scopes
from tests.kernels.spec import CUDA80, CUDA90, CUDA100, Spec
from tests.support.builds import build, manifest, recording_builds
from tests.support.validation import validate

SPECS = {spec.name: spec for spec in scopes.specs()}


def session(**options: Any) -> profscope.Session:
    return profscope.session(backend="emulator", **options)


def compiled(spec: Spec, target: str, level: Any = "light") -> tuple[Manifest, str]:
    """The manifest and the TTGIR of a kernel that a session compiles, taken down to LLVM IR."""
    with recording_builds(Options(instrument=level)):
        text = aot.lowered(spec, target, "llir")[0]["ttgir"]
    found = manifest_in(text)
    assert found is not None
    return found, text


def names(found: Manifest, kind: str = "scope") -> list[list[str]]:
    """By warp program, the names of its scopes."""
    return [[span.name for span in section.spans if span.kind == kind] for section in found.sections]


# Off.

WITH = '''
import triton
import triton.language as tl
import triton.profiler.language as pl
import profscope.language as psl

@triton.jit
def helper(x):
    psl.enter_scope("help")
    y = x * 2
    psl.exit_scope("help")
    return y

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    psl.enter_scope("all")
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        with psl.scope("step", step=i):
            psl.mark("again")
            psl.payload("twice", i * 2)
            acc += helper(tl.load(x_ptr + i * BLOCK + offs))
    pl.enter_scope("proton")
    tl.store(out_ptr + offs, acc)
    pl.exit_scope("proton")
    psl.exit_scope("all")
'''  # fmt: skip
WITHOUT = re.sub(
    r"^(\s*)(psl|pl)\.\w+\(.*\)$", r"\1pass", re.sub(r"with psl\.scope\(.*\):", "if True:", WITH), flags=re.M
)


@pytest.mark.parametrize("target", [CUDA80, CUDA90])
def test_without_a_session_the_binary_is_that_without_scopes(target: str, tmp_path: Path) -> None:
    """Line information included: both kernels stand in the same file, one after the other.

    ptxas puts the size of that file and when it was changed into the cubin, so those are the same too.
    """
    found = []
    for text in (WITH, WITHOUT):
        path = tmp_path / "scoped_kernel.py"
        path.write_text(text.ljust(max(len(WITH), len(WITHOUT)), "#"))
        os.utime(path, (0, 0))
        linecache.clearcache()
        kernel = runpy.run_path(str(path))["kernel"]
        signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
        found.append(aot.compiled(Spec("kernel", kernel, signature, {"BLOCK": 256}), target))
    scoped, plain = found
    assert scoped.hash != plain.hash  # it was compiled twice
    assert scoped.asm["ptx"] == plain.asm["ptx"]
    assert ".loc" in scoped.asm["ptx"]
    assert scoped.asm["cubin"] == plain.asm["cubin"]


def test_passes_without_scope_spans_leave_no_trace_of_scopes() -> None:
    found, text = compiled(SPECS["matmul_scopes"], CUDA80, ["kernel-span"])
    assert names(found) == [[]]
    assert "profscope:" not in text
    assert "// profscope" not in text


# The kernel's own ops.


@pytest.mark.parametrize("target", [CUDA80, CUDA90, CUDA100])
def test_a_session_leaves_the_pipeline_of_the_kernel_alone(target: str) -> None:
    """With a payload and a mark in the loop: the same copies, waits and dots as without a session."""
    spec = SPECS["matmul_scopes"]
    scalars = "elementwise_inline_asm|ptr_to_int|int_to_ptr|addptr|get_program_id|get_num_programs"
    others = re.compile(rf"arith|scf|tt\.({scalars})|ttg\.global_scratch|proton_gpu")

    def kinds(text: str) -> Counter[str]:
        return Counter(op.name for op in parse(text).walk() if not others.match(op.name))

    bare = aot.ttgir(spec, target)
    assert kinds(compiled(spec, target)[1]) == kinds(bare)
    assert any("async" in name for name in kinds(bare))


def test_a_scope_is_where_its_ops_are() -> None:
    found, _ = compiled(SPECS["matmul_scopes"], CUDA80)
    (spans,) = [section.spans for section in found.sections]
    (loop,) = [span for span in spans if span.kind == "loop"]
    fetches = [span for span in spans if span.name.startswith("fetch [")]
    total = len(fetches)
    assert [span.name for span in fetches] == [f"fetch [{i}/{total}]" for i in range(1, total + 1)]
    assert fetches[0].parent != loop.id  # the prologue of the pipeline
    assert all(span.parent == loop.id for span in fetches[1:])
    assert spans[loop.parent].name == "main loop"
    assert [spans[span.parent].name for span in spans if span.name == "scale"] == ["epilogue"] * 2
    assert {span.file for span in spans if span.kind == "scope"} == {scopes.__file__}


@pytest.mark.parametrize("target", [CUDA80, CUDA90, CUDA100])
def test_gluon(target: str) -> None:
    found, _ = compiled(SPECS["gluon_scopes"], target)
    assert names(found) == [["all", "read", "write"]]


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_partitions_have_their_own_spans(target: str) -> None:
    found, _ = compiled(SPECS["gluon_ws_scopes"], target, "heavy")
    assert names(found) == [["all [1/2]", "read", "write"], ["all [2/2]", "worker"]]
    worker = next(span for span in found.sections[1].spans if span.name == "worker")
    frame = found.sections[1].frames[worker.frame]
    assert [frame.columns[at].name for at in worker.payloads] == ["step"]
    assert names(found, "mark") == [[], ["pass"]]


@pytest.mark.parametrize("target", [CUDA90, CUDA100])
def test_the_compilers_own_partitions(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    found, _ = compiled(SPECS["matmul_ws_scopes"], target)
    assert len(found.sections) > 1
    placed = {re.sub(r" \[.*", "", name) for section in names(found) for name in section}
    assert placed == {"fetch", "multiply", "epilogue"}
    if target == CUDA100:
        assert found.notes == ()
        return
    # Triton's pass for Hopper fails on assumptions, users' own included; scopes are there all the same.
    assert "operation destroyed but still has uses" in capfd.readouterr().err
    (note,) = found.notes
    assert note.startswith("payload 'program' (")
    assert "has no spans: Triton cannot optimise this kernel with it" in note


# What is missing.


@triton.jit
def missing_kernel(x_ptr, n):
    with psl.scope("unused"):
        x = tl.load(x_ptr + n) * 2  # noqa: F841
    with psl.scope("empty"):
        pass


def test_a_scope_without_ops_is_noted() -> None:
    with recording_builds(Options()):
        found = manifest(build(Spec("missing", missing_kernel, {"x_ptr": "*i32", "n": "i32"})))
    assert found is not None
    assert names(found) == [[]]
    notes = {note.split(" (")[0]: note for note in found.notes}
    assert set(notes) == {"scope 'unused'", "scope 'empty'"}
    for note in notes.values():
        assert "no op of it is left that could be recorded" in note
        assert re.search(rf"{re.escape(__file__)}:\d+\)", note)


# Whole sessions.


@triton.jit(noinline=True)
def _far(x_ptr, n):
    with psl.scope("far", n=n):
        tl.store(x_ptr, n)


@triton.jit
def calls_kernel(x_ptr, n):
    with psl.scope("near"):
        _far(x_ptr, n)
    _far(x_ptr + 1, n + 1)


def test_scopes_in_functions_that_are_not_inlined() -> None:
    out = torch.empty(2, dtype=torch.int32)
    with session() as prof:
        calls_kernel[(1,)](out, 5, num_warps=1)
    assert out.tolist() == [5, 6]
    assert prof.metadata["notes"] == []
    far = prof.df[prof.df["scope"] == "far"]
    assert far["n"].tolist() == [5, 6]
    call = prof.df.loc[far["parent"]]
    assert call["scope"].str.startswith("call _far").all()
    assert prof.df.loc[call["parent"], "scope"].tolist() == ["near", "calls_kernel"]


def matmul() -> torch.Tensor:
    torch.manual_seed(0)
    a, b = torch.randn(128, 128).half(), torch.randn(128, 64).half()
    c = torch.empty(128, 64, dtype=torch.float16)
    scopes.matmul_scopes_kernel[(2, 1)](a, b, c, 64, 128, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return c


@pytest.fixture(scope="module", params=["light", "heavy"])
def profile(request: pytest.FixtureRequest) -> profscope.Profile:
    with emulator.activate():
        bare = matmul()
    with session(instrument=request.param) as prof:
        assert torch.equal(matmul(), bare)
    return prof.profile


def test_the_table_has_the_scopes(profile: profscope.Profile) -> None:
    assert validate(profile.tables) == []
    assert profile.metadata["notes"] == []
    df = profile.df
    warps = 2 * 4
    count = df[df["kind"] == "scope"]["scope"].value_counts()
    for once in ("setup", "main loop", "epilogue"):
        assert count[once] == warps
    assert count["scale"] == 2 * warps
    assert sum(n for name, n in count.items() if str(name).startswith("multiply")) % (4 * warps) == 0
    inside = df[df["scope"].str.startswith("multiply")]
    assert set(inside["iteration"]) == {0, 1, 2, 3}
    above = df.loc[df.loc[df["scope"] == "scale", "parent"]]
    assert set(above["scope"]) == {"epilogue"}


def test_payloads_are_columns(profile: profscope.Profile) -> None:
    df = profile.df
    setup = df[df["scope"] == "setup"]
    assert (setup["program"] == setup["cta"]).all()
    fetched = df[df["k"].notna()]
    assert fetched["scope"].str.startswith("fetch").all()
    assert (fetched["k"] == 32 * fetched["iteration"]).all()
    assert len(fetched) == 4 * 2 * 4
    assert (df.loc[df["scope"] == "epilogue", "gain"] == 0.5).all()
    assert df.loc[df["scope"] != "epilogue", "gain"].isna().all()


def test_marks_are_points(profile: profscope.Profile) -> None:
    marks = profile.df[profile.df["kind"] == "mark"]
    assert set(marks["scope"]) == {"fetched"}
    assert (marks["duration_cycles"] == 0).all()
    assert sorted(set(marks["iteration"])) == [0, 1, 2, 3]
    assert len(marks) == 4 * 2 * 4


def test_kernels_written_for_proton() -> None:
    x, out = torch.arange(256.0), torch.empty(256)
    with session() as prof:
        scopes.proton_scopes_kernel[(1,)](x, out, BLOCK=256)
    assert torch.equal(out, x + 1)
    spans = prof.df[(prof.df["kind"] == "scope") & (prof.df["warp"] == 0)]
    assert spans["scope"].tolist() == ["read", "write"]


@triton.jit
def values_kernel(out_ptr, n, flag, half, byte):
    with psl.scope(
        'a "quoted"\\ name', n=n, flag=flag, half=half, byte=byte, constant=-7, unsigned=n.to(tl.uint8)
    ):
        tl.store(out_ptr, n)


def test_values_of_every_type_that_fits() -> None:
    out = torch.empty(1, dtype=torch.int32)
    with session() as prof:
        values_kernel[(1,)](out, 300, True, 2.5, -3, num_warps=1)
    (span,) = prof.df[prof.df["kind"] == "scope"].to_dict("records")
    assert span["scope"] == 'a "quoted"\\ name'
    values = {name: span[name] for name in ("n", "flag", "half", "byte", "constant", "unsigned")}
    assert values == {"n": 300, "flag": 1, "half": 2.5, "byte": -3, "constant": -7, "unsigned": 44}


def test_other_threads_compile_bare_meanwhile() -> None:
    found: list[Any] = []
    with recording_builds(Options()):
        thread = threading.Thread(target=lambda: found.append(build(SPECS["matmul_scopes"])))
        thread.start()
        thread.join()
        found.append(build(SPECS["matmul_scopes"]))
    bare, recorded = found
    assert "profscope" not in bare.asm["ttgir"]
    assert "main loop" in names(manifest(recorded) or pytest.fail("no manifest"))[0]


def test_in_the_interpreter_scopes_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    interpreted = triton.jit(values_kernel.fn)
    out = torch.empty(1, dtype=torch.int32)
    with psl.scope("nothing here either"):
        interpreted[(1,)](out, 300, 1, 2.5, -3)
    assert out.tolist() == [300]


@given(st.text(min_size=1))
def test_markers_read_back(name: str) -> None:
    asm = marker_text("enter", name)
    assert "\n" not in asm
    attributes = '{constraints = "=r", packed_element = 1 : i32, pure = false}'
    text = f"module {{\n  %0 = tt.elementwise_inline_asm {quote(asm)} {attributes} -> i1\n}}\n"
    (op,) = parse(text).body.ops
    assert marker_of(op) == Marker("enter", name)
