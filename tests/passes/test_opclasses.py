"""The table of ops against the ops that the installed Triton has, prints, and against its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import triton
from triton._C.libtriton import ir
from triton.compiler import make_backend

from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ops import (
    CLASSES,
    DEFAULT_CLASSES,
    OPS,
    SPANNABLE,
    info_of,
    uncovered,
)
from profscope.instrument_passes.passes.lower_records import manifest_of
from profscope.instrument_passes.passes.op_spans import OpSpans
from profscope.instrument_passes.pipeline import PassContext, parse_pipeline, run_pipeline
from tests.kernels.aot import context_for, gpu_target, ttgir
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, GFX942, TARGETS
from tests.support.generated_pages import ops_page
from tests.support.quick import quick

HERE = Path(__file__).parent
FOREIGN = """module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @kernel() {
    ttng.from_the_future %0 : i32
    ttng.from_the_future %0 : i32 loc("k.py":7:1)
    "other.op"() : () -> () loc("k.py":7:1)
    tt.return
  }
}
"""


@pytest.mark.exhaustive
def test_every_op_in_the_library_has_a_row(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Names of ops stand in libtriton as strings, some run together with what follows: try every prefix."""
    library = (Path(triton.__file__).parent / "_C" / "libtriton.so").read_bytes()
    runs = set(_runs(library))
    candidates = {run[:end] for run in runs for end in range(6, len(run) + 1)}
    context = context_for(CUDA90)
    make_backend(gpu_target(GFX942)).load_dialects(context)
    tried = []
    file = tmp_path / "one.mlir"
    for name in sorted(candidates - set(OPS)):
        if not re.fullmatch(r"[a-z]+\.[a-z0-9_.]*[a-z0-9]", name):
            continue
        file.write_text(f"module {{\n  {name}\n}}\n")
        with pytest.raises(RuntimeError):
            ir.parse_mlir_module(str(file), context)
        tried.append(name)
    unknown = set(re.findall(r"custom op '([^']*)' is unknown", capfd.readouterr().err))
    assert len(tried) > 100
    assert set(tried) - unknown == set()


def _runs(library: bytes) -> Iterator[str]:
    """What may begin with the name of an op. A regular expression takes 15 s for the 400 MB: look at dots."""
    dialect, name = (
        re.compile(rb"(?<![a-z0-9_.])(?:tt|ttg|ttng|amdg)$"),
        re.compile(rb"[a-z][a-z0-9_.]{2,45}"),
    )
    data = np.frombuffer(library, np.uint8)
    dots = np.flatnonzero(data == ord("."))[6:]
    near = np.isin(data[dots - 1], list(b"tg")) & np.isin(data[dots - 2], list(b"tnd"))
    for dot in dots[near].tolist():
        before, behind = dialect.search(library[dot - 6 : dot]), name.match(library, dot + 1)
        if before is not None and behind is not None:
            yield f"{before[0].decode()}.{behind[0].decode()}"


@pytest.mark.parametrize("target", quick(TARGETS, (CUDA90,)))
def test_every_op_that_triton_prints_has_a_row(target: str) -> None:
    for spec in specs():
        if target not in spec.unsupported:
            assert uncovered(parse(ttgir(spec, target))) == [], spec.name


def test_rows_are_consistent() -> None:
    assert {info.cls for info in OPS.values()} == set(CLASSES)
    assert set(DEFAULT_CLASSES) < set(SPANNABLE) < set(CLASSES)
    for name, info in OPS.items():
        assert all(partner in OPS for partner in info.partners), name
        assert not (info.partners and info.completes and info.cls != "local"), name
        assert info.completes or info.cls != "wait", name
        assert not (info.moves or info.flops) or info.cls in SPANNABLE, name


def test_class_depends_on_the_use_of_an_op() -> None:
    text = (HERE / "inputs" / "matmul_tma_sm100.ttgir").read_text()
    ops = list(parse(text).walk())
    assert {info_of(op).cls for op in ops if op.name == "arith.muli"} == {"scalar"}
    assert {info_of(op).cls for op in ops if op.name == "ttng.tmem_alloc"} == {"alloc"}
    stored = parse(text.replace("ttng.tmem_alloc : ()", "ttng.tmem_alloc %cst : (tensor<64x64xf32, #b>)"))
    assert {info_of(op).cls for op in stored.walk() if op.name == "ttng.tmem_alloc"} == {"local"}
    dots = parse((HERE / "inputs" / "matmul_tma_sm90.ttgir").read_text().replace("isAsync = true", ""))
    assert all(info_of(op).completes for op in dots.walk() if op.name == "ttng.warp_group_dot")


def test_ops_without_a_row_are_noted_in_the_manifest() -> None:
    module = parse(FOREIGN)
    run_pipeline(module, parse_pipeline("kernel-span,op-spans,lower-records"), PassContext())
    manifest = manifest_of(module)
    assert manifest is not None
    assert manifest.notes == (
        "ttng.from_the_future (line 3 of its TTGIR) is not in the table of ops, so spans of ops leave it out",
        "other.op (k.py:7) is not in the table of ops, so spans of ops leave it out",
    )


@pytest.mark.parametrize("cls", ["view", "scalar", "control", "hint", "alloc", "nonsense"])
def test_classes_without_time_cannot_be_recorded(cls: str) -> None:
    with pytest.raises(ValueError, match=f"unknown op class '{cls}'; classes: load, store"):
        OpSpans(classes=(cls,))


def test_documentation_is_up_to_date() -> None:
    found = (HERE.parent.parent / "docs" / "ops.md").read_text()
    assert found == ops_page(), "run: python -m tests.support.generated_pages docs"
