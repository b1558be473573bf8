"""Where ops stand: the user's line, the calls that lead there, and nothing where that is not known."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.programs import manifest_in
from profscope.instrument_passes.analyses.places import Places, is_library, variable_of
from profscope.instrument_passes.functions import Function, checked, functions_in
from profscope.instrument_passes.ir import Location, parse
from profscope.instrument_passes.ir.location import Caller
from profscope.instrument_passes.manifest import Manifest, Span
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.lower_records import manifest_of
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.options import Options
from tests.kernels import aot, call_chains
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, Spec
from tests.support.builds import recording_builds

INPUTS = Path(__file__).parent / "inputs"
STANDARD = "/lib/site-packages/triton/language/standard.py"


def instrumented(spec: Spec, *passes: str) -> Manifest:
    with recording_builds(Options(instrument=passes)):
        texts, _ = aot.lowered(spec, CUDA90, "ttgir")
    manifest = manifest_in(texts["ttgir"])
    assert manifest is not None
    return manifest


def spans_of(manifest: Manifest) -> list[Span]:
    return [span for section in manifest.sections for span in section.spans]


def steps(span: Span) -> list[tuple[str, str]]:
    """Functions and base names of a call path."""
    found = [re.fullmatch(r"(\S+) (\S+):(\d+)", step) for step in span.call_path.split(" > ") if step]
    assert all(found), span.call_path
    return [(step[1], step[2]) for step in found if step]


KERNEL, MINE, THEIRS = "call_chains_kernel", "call_chains.py", "standard.py"
EXPECTED: Sequence[tuple[str, str, list[str]]] = (
    # name, text of the line, functions called
    (KERNEL, "def call_chains_kernel(", []),
    ("load x", "x = tl.load(x_ptr + offs", []),
    ("reduce mean", "return tl.sum(x, axis=0) / count", ["_average", "sum"]),
    ("reduce total", "total = tl.sum(x * x, axis=0)", ["sum"]),
    ("centre", 'with psl.scope("centre"):', ["_spread"]),
    ("reduce spread", "return tl.max(tl.abs(centred), axis=0)", ["_spread", "max"]),
    ("reduce soft", "soft = tl.softmax(x)", ["softmax", "max"]),
    ("reduce soft", "soft = tl.softmax(x)", ["softmax", "sum"]),
    ("load first", "first = tl.load(x_ptr + by)", ["_shifted"]),
    ("load row", "row = tl.load(x_ptr + tl.arange(0, 64))", ["_shifted"]),
    ("reduce", "return tl.sum(x, axis=0) / count", ["_shifted", "_average", "sum"]),
    ("reduce", "return tl.sum(x, axis=0) / count", ["_average", "sum"]),
    ("store", "tl.store(out_ptr + offs", []),
)


def test_functions_of_all_kinds() -> None:
    """Triton's own, the user's, inlined and not, one from another, and a scope in one of them."""
    found = instrumented(call_chains.spec(), "kernel-span", "scope-spans", "op-spans")
    spans = [span for span in spans_of(found) if not span.name.startswith("call ")]
    assert [span.name for span in spans] == [name for name, _, _ in EXPECTED]
    for span, (_, text, functions) in zip(spans, EXPECTED, strict=True):
        assert Path(span.file) == Path(call_chains.__file__)
        assert linecache.getline(span.file, span.line).strip().startswith(text)
        path = steps(span)
        assert [name for name, _ in path] == ([KERNEL, *functions] if functions else [])
        assert [file for _, file in path] == [
            THEIRS if name in ("sum", "max", "softmax") else MINE for name, _ in path
        ]


def test_gluon_partitions() -> None:
    spec = next(spec for spec in specs() if spec.name == "gluon_ws")
    manifest = instrumented(spec, "kernel-span", "op-spans{classes=load;reduce}")
    body, *workers = manifest.sections
    assert {steps(span)[-1] for span in body.spans if span.op == "tt.reduce"} == {
        ("sum", THEIRS),
        ("max", THEIRS),
    }
    for section in workers:
        (load,) = [span for span in section.spans if span.op == "tt.load"]
        assert steps(load) == [("gluon_ws_kernel", "gluon_ws.py"), ("_worker", "gluon_ws.py")]
        assert "gl.load(" in linecache.getline(load.file, load.line)


def test_clones_of_a_function_name_the_calls_that_lead_to_them() -> None:
    spec = next(spec for spec in specs() if spec.name == "call_paths")
    spans = spans_of(instrumented(spec, "kernel-span", "op-spans{classes=load}"))
    loads = [span for span in spans if span.op == "tt.load"]
    paths = [[name for name, _ in steps(span)] for span in loads]
    assert paths == [
        ["call_paths_kernel", "row_sum"],
        ["call_paths_kernel", "row_score", "row_sum"],
        ["call_paths_kernel", "row_sum"],
    ]
    assert len({span.call_path for span in loads}) == 3


# Without the functions: what profscope opt knows of a module.


def lowered(text: str, *functions: Function) -> list[Span]:
    module = parse(text, "k.ttgir")
    context = PassContext(functions=functions)
    run_pipeline(module, parse_pipeline("kernel-span,loop-spans,op-spans,lower-records"), context)
    manifest = manifest_of(module)
    assert manifest is not None
    return spans_of(manifest)


MODULE = """\
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @kernel(%p: !tt.ptr<f32>, %n: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {{
      %x = tt.load %p : !tt.ptr<f32> {load}
    }} {loop}
    tt.return
  }} {kernel}
}}
"""


def test_without_locations_nothing_is_guessed() -> None:
    for unknown in ("", "loc(unknown)"):
        kernel, loop, load = lowered(MODULE.format(load=unknown, loop=unknown, kernel=unknown))
        assert [(s.name, s.file, s.line, s.call_path) for s in (kernel, loop, load)] == [
            ("kernel", "", 0, ""),
            ("loop", "", 0, ""),
            ("load", "", 0, ""),
        ]


def test_names_of_functions_that_are_not_known_are_left_out() -> None:
    load = f'loc(callsite("{STANDARD}":293:3 at callsite("/u/helper.py":7:1 at "v"("/u/k.py":3:1))))'
    *_, span = lowered(MODULE.format(load=load, loop="", kernel='loc("/u/k.py":1:0)'))
    assert (span.name, span.file, span.line) == ("load v", "/u/helper.py", 7)
    assert span.call_path == "kernel k.py:3 > helper.py:7 > standard.py:293"
    functions = (
        Function(STANDARD, 287, "sum"),
        Function("/u/helper.py", 2, "f"),
        Function("/u/helper.py", 9, "g"),
    )
    *_, span = lowered(MODULE.format(load=load, loop="", kernel='loc("/u/k.py":1:0)'), *functions)
    assert span.call_path == "kernel k.py:3 > f helper.py:7 > sum standard.py:293"


@pytest.mark.parametrize(
    ("location", "place"),
    [
        # What is unknown on the way is left out.
        ('callsite(unknown at "/u/k.py":3:1)', ("/u/k.py", 3, "")),
        (f'callsite("{STANDARD}":5:1 at unknown)', (STANDARD, 5, "")),
        # Code of Triton's package alone: its innermost line is as good as any.
        (f'callsite("{STANDARD}":5:1 at "{STANDARD}":9:1)',
         (STANDARD, 5, "kernel standard.py:9 > standard.py:5")),
        (r'callsite("C:\\triton\\language\\standard.py":5:1 at "C:\\u\\k.py":3:1)',
         (r"C:\u\k.py", 3, "kernel k.py:3 > standard.py:5")),
        ('fused[callsite("/u/h.py":5:1 at "/u/k.py":3:1), "/u/other.py":1:1]',
         ("/u/h.py", 5, "kernel k.py:3 > h.py:5")),
    ],
)  # fmt: skip
def test_places(location: str, place: tuple[str, int, str]) -> None:
    module = parse(MODULE.format(load=f"loc({location})", loop="", kernel=""))
    (load,) = [op for op in module.walk() if op.name == "tt.load"]
    where = Places().of(load)
    assert (where.file, where.line, where.call_path) == place


@pytest.mark.parametrize(
    ("file", "library"),
    [
        (STANDARD, True),
        ("/home/u/triton/python/triton/language/standard.py", True),
        (r"C:\venv\Lib\site-packages\triton\language\extra\cuda\libdevice.py", True),
        ("/v/triton/experimental/gluon/language/_standard.py", True),
        ("triton/language/math.py", True),
        ("/home/u/triton/kernels.py", False),
        ("/home/u/triton/language/model.py", False),
        ("/home/u/my_triton/language/standard.py", False),
        ("/home/u/triton/experiments/gluon/language/a.py", False),
        ("/home/u/triton/experimental/gluon/tutorial.py", False),
        ("/home/u/standard.py", False),
        ("", False),
    ],
)
def test_files_of_tritons_package(file: str, library: bool) -> None:
    assert is_library(file) is library


def test_the_outermost_variable_names_a_value() -> None:
    inlined = (Caller("h.py", 2, 8, "total"), Caller("k.py", 3), Caller("k.py", 4, 1, "mean"))
    assert variable_of(Location("s.py", 1, 1, "z", inlined)) == "mean"
    assert variable_of(Location("s.py", 1, 1, "z", (Caller("k.py", 3),))) == "z"
    assert variable_of(Location("s.py", 1, 1)) == ""


def test_functions_of_a_printed_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton hands it to its first stage, which does not run if the kernel is in the cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sources: list[str] = []

    def noted(backend: Any, stages: dict[str, Any], *others: object) -> None:
        make = stages["ttir"]

        def stage(source: object, metadata: object) -> object:
            sources.append(str(source))
            return make(source, metadata)

        stages["ttir"] = stage

    with RecordedCompiler("test", noted).recording():
        aot.compiled(call_chains.spec(), CUDA90)
    (text,) = sources
    functions = functions_in(text)
    assert checked(functions) == functions
    names = {function.name: function for function in functions}
    assert {KERNEL, "_average", "_spread", "_shifted", "sum", "max", "softmax"} <= set(names)
    for function in functions:
        assert linecache.getline(function.file, function.line).startswith(f"def {function.name}(")


# Functions whose text was generated from another one's.

SOURCE = """\
import triton

def generate(template):
    text = template
    return text

@triton.jit
def template(
    x_ptr,
    n,
):
    x = x_ptr
    return n
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    file = tmp_path / "template.py"
    file.write_text(SOURCE)
    return str(file)


def test_a_signature_that_was_generated_has_no_line(source: str) -> None:
    """Its lines are counted from another place; those of the body may be right."""
    shifted = Function(source, 10, "template_bf16")
    (function,) = checked((shifted,))
    assert function.bodies == ((12, 13),)
    module = MODULE.format(
        load=f'loc("{source}":12:4)', loop=f'loc("{source}":11:0)', kernel=f'loc("{source}":10:0)'
    )
    places = [(span.name, span.file, span.line) for span in lowered(module, function)]
    assert places == [("kernel", "", 0), ("loop", "", 0), ("load", source, 12)]


def test_a_function_generated_in_a_file_without_kernels_has_no_lines(source: str) -> None:
    Path(source).write_text(SOURCE.partition("@triton.jit")[0])
    (function,) = checked((Function(source, 4, "generated"),))
    assert function.bodies == ()
    assert [span.line for span in lowered(MODULE.format(
        load=f'loc("{source}":5:4)', loop=f'loc("{source}":5:0)', kernel=f'loc("{source}":4:0)'
    ), function)] == [0, 0, 0]  # fmt: skip


def test_what_cannot_be_checked_is_believed(source: str) -> None:
    given = (Function("/no/such/file.py", 4, "f"), Function(source, 8, "template"))
    assert checked(given) == given
    Path(source).write_text("def (")
    assert checked((Function(source, 7, "f"),)) == (Function(source, 7, "f", ()),)


# Two copies of one file.


def test_digest_and_tag_do_not_depend_on_names_of_files() -> None:
    def manifest(text: str) -> Manifest:
        module = parse(text)
        run_pipeline(module, parse_pipeline("kernel-span,loop-spans,op-spans,lower-records"), PassContext())
        found = manifest_of(module)
        assert found is not None
        return found

    for file in ("call_paths", "softmax"):
        text = (INPUTS / f"{file}.ttgir").read_text()
        path = re.search(r'loc\("([^"]+\.py)":', text)
        assert path is not None
        here, there = manifest(text), manifest(text.replace(path[1], "/elsewhere/copy of it.py"))
        assert here != there
        assert (here.digest, here.tag) == (there.digest, there.tag)
        other_line = manifest(re.sub(r'\.py":(\d+)', lambda m: f'.py":{int(m[1]) + 1}', text))
        assert other_line.digest != here.digest
