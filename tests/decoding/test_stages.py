"""Pipelined loops: prologue, steady state, epilogue, and which iteration each op works for."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.instrument_passes.analyses.loop_stages import STAGES, stages
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.ops import info_of
from tests.kernels import aot
from tests.kernels.corpus import specs
from tests.kernels.spec import CUDA80, CUDA90, CUDA100
from tests.support.sessions import heavy
from tests.support.validation import validate

# By kernel and target: how many iterations ahead the ops that start copies and tensor-core work run.
AHEAD = {
    ("softmax", CUDA80): {"async_copy x": 1},
    ("matmul", CUDA80): {"async_copy a": 2, "async_copy b": 2},
    ("matmul", CUDA90): {"async_copy a": 2, "async_copy b": 2, "mma acc": 0},
    ("matmul", CUDA100): {"async_copy a": 3, "async_copy b": 3, "mma acc": 1},
    ("matmul_tma", CUDA90): {"async_copy a": 2, "async_copy b": 2, "mma acc": 0},
    ("matmul_tma", CUDA100): {"async_copy a": 3, "async_copy b": 3, "mma acc": 1},
    ("attention", CUDA80): {"async_copy k": 1, "async_copy v": 1},
    ("attention", CUDA90): {"async_copy k": 1, "async_copy v": 1, "mma acc": 0, "mma scores": 0},
    ("attention", CUDA100): {"async_copy k": 3, "async_copy v": 2, "mma acc": 1, "mma scores": 2},
}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(*each, marks=() if CUDA90 in each or each[0] == "softmax" else pytest.mark.exhaustive)
        for each in AHEAD
    ],
)
def test_how_far_ahead_the_pipeliner_has_moved_an_op(name: str, target: str) -> None:
    spec = next(spec for spec in specs() if spec.name == name)
    found: dict[str, set[int]] = defaultdict(set)
    early: dict[tuple[int, str], list[int]] = defaultdict(list)
    for op, stage in stages(kernel_of(parse(aot.assembly(spec, target, "ttgir")))).items():
        info = info_of(op)
        assert info is not None
        assert stage.part in STAGES
        if info.cls in ("async_copy", "mma") and "commit" not in op.name:
            scope = f"{info.cls} {op.loc.name}"
            if stage.part == "steady":
                found[scope].add(stage.ahead)
            elif stage.part == "prologue":
                early[stage.loop, scope].append(stage.ahead)
    loops = 2 if name == "attention" else 1
    for scope, ahead in AHEAD[name, target].items():
        assert found[scope] == {ahead}, scope
        begun = [iterations for (_, of), iterations in early.items() if of == scope]
        assert begun == [list(range(ahead))] * (loops if ahead else 0), scope
    assert len({loop for loop, _ in early}) == loops


@pytest.mark.parametrize("name", ["gluon_ws", "nested_loops", "while"])
def test_loops_that_are_not_pipelined_have_no_labels(name: str) -> None:
    spec = next(spec for spec in specs() if spec.name == name)
    assert stages(kernel_of(parse(aot.assembly(spec, CUDA90, "ttgir")))) == {}


PIPELINED = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
  tt.func public @k(%p: tensor<128x!tt.ptr<f32>, #blocked>, %m: !ttg.memdesc<128xf32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %d = arith.constant DISTANCE : i32
    %on = arith.cmpi sgt, %n, %c0 : i32
    %mask = tt.splat %on : i1 -> tensor<128xi1, #blocked>
    COPIES
    scf.for %i = %c0 to %n step %c1  : i32 {
      %last = arith.subi %n, %d : i32
      %more = arith.cmpi COMPARE, %i, %last : i32
      %mask2 = tt.splat %more : i1 -> tensor<128xi1, #blocked>
      COPY2
    } loc("k.py":4:0)
    tt.return
  }
}
"""
COPY = (
    "%{0} = ttg.async_copy_global_to_local %p, %m mask %{1} : tensor<128x!tt.ptr<f32>, #blocked> -> <128xf32>"
    ' loc("k.py":{2}:0)'
)


@pytest.mark.parametrize(
    ("distance", "copies", "compare", "line", "labelled"),
    [
        (2, 2, "slt", 5, True),
        (1, 1, "slt", 5, True),
        (2, 1, "slt", 5, False),  # the copies do not agree with the predicate
        (1, 2, "slt", 5, False),
        (2, 2, "sle", 5, False),  # another predicate
        (2, 2, "slt", 6, False),  # copies of another op
    ],
)
def test_nothing_is_labelled_unless_predicate_and_copies_agree(
    distance: int, copies: int, compare: str, line: int, labelled: bool
) -> None:
    text = PIPELINED.replace("DISTANCE", str(distance)).replace("COMPARE", compare)
    text = text.replace("COPIES", "\n    ".join(COPY.format(f"t{k}", "mask", line) for k in range(copies)))
    found = stages(kernel_of(parse(text.replace("COPY2", COPY.format("u", "mask2", 5)))))
    parts = [(stage.part, stage.ahead) for stage in found.values()]
    expected = [("prologue", k) for k in range(copies)] + [("steady", distance)]
    assert sorted(part for part in parts if part != ("steady", 0)) == (expected if labelled else [])


# In the tables.


@pytest.mark.parametrize(
    ("name", "copied", "user"),
    [("matmul", "a", "dot acc"), ("softmax", "x", "local load x"), ("attention", "k", "dot scores")],
)
def test_every_iteration_has_its_copy_and_its_use(name: str, copied: str, user: str) -> None:
    """An iteration's data is copied once, before the iteration uses it, whatever stage did so."""
    assert validate(heavy(name).tables) == []
    df = heavy(name).df
    copies = df[(df["scope"] == f"async copy {copied}") & (df["kind"] == "op")]
    uses = df[df["scope"] == user]
    assert (uses["stage"] == "steady").all()
    assert (uses["for_iteration"] == uses["iteration"]).all()
    assert set(copies["stage"]) == {"prologue", "steady"}
    assert (copies[copies["stage"] == "prologue"]["iteration"] == -1).all()
    if name == "attention":  # two loops: of the second one every copy comes behind the first loop
        return
    keys = ["cta", "warp", "for_iteration"]
    assert not copies.duplicated(keys).any()
    pairs = uses.merge(copies, on=keys, suffixes=("_use", "_copy"))
    assert len(pairs) == len(uses)
    assert (pairs["start_cycle_copy"] < pairs["start_cycle_use"]).all()
    # What is behind the last iteration is switched off.
    trips = uses.groupby(["cta", "warp"])["for_iteration"].max()
    most = copies.groupby(["cta", "warp"])["for_iteration"].max()
    assert ((most - trips) == (2 if name == "matmul" else 1)).all()


def test_waits_behind_the_loop_are_its_epilogue() -> None:
    df = heavy("matmul").df
    epilogue = df[df["stage"] == "epilogue"]
    assert set(epilogue["scope"]) == {"async wait (drain)"}
    assert epilogue["for_iteration"].isna().all()  # of all that is left
    waits = df[df["scope"] == "async wait a"]
    assert waits["stage"].isna().all()  # which iteration they wait for is not the pipeliner's to say


def test_copies_for_iterations_that_there_are_not_move_nothing() -> None:
    summary = heavy("matmul").summary().set_index("scope")
    ctas, iterations = 6, 3
    for copied in ("a", "b"):
        assert summary.loc[f"async copy {copied}", "bytes_at_most"] == ctas * iterations * 64 * 32 * 2
        assert summary.loc[f"async copy {copied}", "count"] == ctas * 4 * (iterations + 2)


def test_the_columns_are_there_only_where_a_loop_is_pipelined(tmp_path: Path) -> None:
    assert "stage" not in heavy("add").df
    profile = heavy("softmax")
    assert str(profile.df["stage"].dtype) == "category"
    assert str(profile.df["for_iteration"].dtype) == "Int32"
    for name in ("trace.json", "trace.json.gz"):
        profile.save(tmp_path / name)
        pd.testing.assert_frame_equal(profscope.load(tmp_path / name).df, profile.df)
    assert '"stage":"prologue"' in (tmp_path / "trace.json").read_text()
