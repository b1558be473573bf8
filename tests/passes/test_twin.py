"""CTAs that do not record run the kernel's own code: a second body of it, which has no records."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from profscope.compat.programs import manifest_in
from profscope.instrument_passes.contractions import contractions_of
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ir.tokens import quote
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.lower_records import LowerRecords, manifest_of
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.options import Options
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA90, Spec
from tests.support.builds import recording_builds
from tests.support.quick import quick
from tests.support.sessions import launch_add, session

# ptxas refuses what Triton makes of one, with and without records.
SPECS = {spec.name: spec for spec in specs() if CUDA90 not in spec.unsupported and spec.name != "strings"}
ARITHMETIC = re.compile(r"^\s*((?:fma|mul|add|sub)\.)[\w.]*\b(?:b?f16|f32|f64)(?:x2)?\s", re.MULTILINE)
RETURN = re.compile(r"^\s*tt\.return\b", re.MULTILINE)
WITHOUT = {"matmul_ws", "gluon_ws", "gluon_ws_loop", "noinline", "call_paths"}  # partitions, calls


def lowered(spec: Spec, *, alone: bool = False, **options: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """As a session on a GPU compiles it; without options as it is compiled outside of one. alone: without a
    second body."""
    if not options:
        return aot.lowered(spec, CUDA90, "ptx")
    bodies = patch.object(Options, "_has_bare_ctas", False) if alone else nullcontext()
    with bodies, recording_builds(Options(**options)):
        return aot.lowered(spec, CUDA90, "ptx")


@pytest.mark.parametrize("name", quick(sorted(SPECS.keys() - WITHOUT), ("softmax", "joined_paths")))
def test_the_second_body_is_the_bare_kernels(name: str) -> None:
    spec = SPECS[name]
    (bare, about_bare), (alone, _), (twin, about) = (
        lowered(spec, **options) for options in ({}, {"ctas": 2, "alone": True}, {"ctas": 2})
    )
    for texts, has_one in ((alone, False), (twin, True)):
        manifest = manifest_in(texts["ttgir"])
        assert manifest is not None
        assert manifest.twin is has_one
    stamps = twin["ptx"].count("%globaltimer_lo") - 1  # but for that of their begin
    assert 1 <= stamps <= max(1, len(RETURN.findall(bare["ttgir"])))  # LLVM may join returns
    began = twin["ptx"].count("%clock") - alone["ptx"].count("%clock") - stamps
    assert began in (0, 1)  # LLVM may read it once for both bodies
    parts = [contractions_of(texts["ptx"]).sums.keys() for texts in (bare, alone, twin)]
    assert parts[2] == parts[0] | parts[1]
    counts = [Counter(ARITHMETIC.findall(texts["ptx"])) for texts in (bare, alone, twin)]
    assert counts[2] == counts[0] + counts[1]
    assert about["shared"] == about_bare["shared"]


def clustered(spec: Spec) -> Spec:
    """A matmul whose tiles are twice as wide, shared by two CTAs."""
    tiles = {**spec.constexprs, "BLOCK_N": 2 * spec.constexprs["BLOCK_N"]}
    return replace(spec, constexprs=tiles, options={**spec.options, "num_ctas": 2})


ONCE = {name: SPECS[name] for name in sorted(WITHOUT)} | {"matmul, clustered": clustered(SPECS["matmul"])}


@pytest.mark.parametrize("name", quick(list(ONCE), ("matmul_ws", "noinline")))
def test_partitions_calls_and_clusters_are_there_once(name: str) -> None:
    alone, twin = (lowered(ONCE[name], ctas=2, **more)[0] for more in ({"alone": True}, {}))
    manifest = manifest_in(twin["ttgir"])
    assert manifest is not None
    assert not manifest.twin
    assert replace(manifest, stamps=False) == manifest_in(alone["ttgir"])
    # Of the stamp: its begin and its end.
    assert twin["ptx"].count("%globaltimer_lo") == 2
    assert twin["ptx"].count("%clock") == alone["ptx"].count("%clock") + 2


@pytest.mark.parametrize(
    ("assembly", "is_once"),
    [
        ("mov.b32 $0, $1; again: add.s32 $0, $0, 1;", True),
        ("// as it comes\n.reg .pred p;\nsetp.ne.s32 p, $1, 0; selp.s32 $0, 1, 2, p;", True),
        ("{ .reg .b32 low, high; { .reg .pred p; } done: mov.b32 $0, $1; }", False),
        ("mov.b64 {$0, _}, $1; mbarrier.arrive.shared::cta.b64 _, [$1]; // one: two", False),
        ("v_mov_b64 $0, v[0:1]\n; s_nop", False),
    ],
)
def test_names_that_assembly_gives_to_a_whole_function_are_there_once(assembly: str, is_once: bool) -> None:
    """ptxas would refuse a second label, or register, of the same name."""
    module = parse(
        f"""module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @kernel(%x: i32) {{
    %y = tt.elementwise_inline_asm {quote(assembly)} {{constraints = "=r,r", packed_element = 1 : i32, pure = false}} %x : i32 -> i32
    tt.return
  }}
}}
"""  # noqa: E501
    )
    run_pipeline(module, parse_pipeline("kernel-span,lower-records{unrecorded=true}"), PassContext())
    manifest = manifest_of(module)
    assert manifest is not None
    assert manifest.twin is not is_once


@pytest.mark.parametrize(
    ("options", "has_one"),
    [
        ({}, False),
        ({"ctas": 64}, True),
        ({"ctas": [3]}, True),
        ({"ctas": 64, "evidence": True}, True),
    ],
)
def test_when_there_is_one(options: dict[str, Any], has_one: bool) -> None:
    (lowering,) = (step for step in Options(**options).pipeline if isinstance(step, LowerRecords))
    assert lowering.unrecorded is has_one


def test_a_session_that_chooses_ctas_finds_no_binary_of_one_that_does_not() -> None:
    for ctas in (1, 2):
        with session(ctas=ctas) as prof:
            launch_add()
        assert len(prof.launches) == 1
