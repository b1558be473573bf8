"""Whole sessions, on the emulator: launch, collect, decode, tables, files, and what goes wrong."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope import emulator
from profscope.emulator.driver import EmulatorDriver
from profscope.errors import SessionError
from tests.support.quick import quick
from tests.support.sessions import CASES, assert_equal, launch_add, launch_collatz, same_bits, session
from tests.support.short_rings import short_rings
from tests.support.triton_globals import triton_globals
from tests.support.validation import validate

# Every kernel.


class Ran(NamedTuple):
    identical: bool  # to the outputs of the bare run
    profile: profscope.Profile


@cache
def outputs_of(name: str) -> Mapping[str, torch.Tensor]:
    """Of a bare run."""
    with emulator.activate():
        return CASES[name].launch(CASES[name].inputs("cpu"))


@cache
def run(name: str, level: str) -> Ran:
    """Run a case bare and instrumented."""
    case = CASES[name]
    inputs, bare = case.inputs("cpu"), outputs_of(name)
    with session(instrument=level) as prof:
        outputs = case.launch(inputs)
    return Ran(same_bits(bare, outputs), prof.profile)


FEW = ("softmax", "matmul_tma", "nested_loops", "noinline", "call_paths", "joined_paths")
RUNS = [(name, level) for level in ("light", "default", "heavy") for name in CASES]
QUICK = {("nested_loops", "light"), ("call_paths", "light"), ("matmul", "default"), ("softmax", "default")}
QUICK |= {(name, "heavy") for name in FEW}
each_level = pytest.mark.parametrize(("name", "level"), quick(RUNS, QUICK))


@each_level
def test_outputs_are_the_bits_of_the_bare_run(name: str, level: str) -> None:
    assert run(name, level).identical


@each_level
def test_the_tables_are_sound_and_nothing_is_missing(name: str, level: str) -> None:
    profile = run(name, level).profile
    assert validate(profile.tables) == []
    assert profile.metadata["notes"] == []
    assert profile.emulated
    (launch,) = profile.launches.itertuples()
    assert launch.ctas == launch.grid_x * launch.grid_y * launch.grid_z
    roots = profile.df[profile.df["depth"] == 0]
    assert len(roots) == launch.ctas * launch.num_warps  # no kernel here is warp-specialised
    assert set(roots["kind"]) == {"kernel"}
    assert (roots["start_ns"] >= launch.start_ns).all()
    assert (roots["start_ns"] + roots["duration_ns"] <= launch.end_ns).all()


# By case, for each source line with a loop: iterations of one warp in all, as a function of its CTA. Counted
# by hand from the kernels and the sizes of the cases.
TRIPS: dict[str, list[Callable[[int], int]]] = {
    "softmax": [lambda cta: 5 if cta == 0 else 4],  # 17 rows over 4 programs
    "layer_norm": [lambda cta: 1] * 3,  # 200 columns in blocks of 256
    "matmul": [lambda cta: 3],  # K = 96 in steps of 32
    "matmul_tma": [lambda cta: 3, lambda cta: 3 * 2],  # 6 tiles over 2 programs, K = 96 in steps of 64
    "attention": [lambda cta: (cta % 2) * 2 + 2],  # causal: blocks of 32 before the 64 rows, and in them
    "while": [lambda cta: collatz_steps(cta + 1)],
    "nested_loops": [lambda cta: 3, lambda cta: 3 * 2, lambda cta: 0 + 1 + 2],
    "branch_in_loop": [lambda cta: 9],
    "noinline": [lambda cta: 3],
    # 20 rows of two blocks, summed once before the loop and once in it, once more where their score is wanted
    "call_paths": [
        lambda cta: 2 * (1 + 20 - cta + len(scored_rows(cta))),
        lambda cta: 20 - cta,
    ],
    "joined_paths": [
        lambda cta: cta if cta in (2, 4) else 0,
        lambda cta: 6 if cta < 2 else 0,
        lambda cta: 2 if cta != 3 else 0,
    ],
}


def scored_rows(cta: int) -> list[int]:
    """Rows whose sum row_score wants: odd ones, but no multiples of three."""
    return [row for row in range(cta, 20) if row % 2 == 1 and row % 3]


@pytest.mark.parametrize("name", TRIPS)
def test_every_loop_has_its_true_trip_count(name: str) -> None:
    profile = run(name, "heavy").profile
    iterations = profile.df[profile.df["kind"] == "iteration"]
    lines = sorted(set(iterations["line"]))
    assert len(lines) == len(TRIPS[name])
    ctas, warps = (range(profile.launches[column].iloc[0]) for column in ("ctas", "num_warps"))
    everyone = pd.MultiIndex.from_product([ctas, warps])
    for line, trips in zip(lines, TRIPS[name], strict=True):
        found = iterations[iterations["line"] == line].groupby(["cta", "warp"]).size()
        found = found.reindex(everyone, fill_value=0)
        assert found.tolist() == [trips(cta) for cta, _ in everyone]


def test_the_same_run_gives_the_same_profile() -> None:
    first, between_ns = run("matmul", "heavy").profile, time.time_ns()
    second = run.__wrapped__("matmul", "heavy").profile
    assert_equal(first, second)
    assert first.metadata["began_unix_ns"] < between_ns < second.metadata["began_unix_ns"] < time.time_ns()


# Loops that ran often, or not at all.


def collatz_steps(value: int) -> int:
    steps = 0
    while value > 1:
        value, steps = (value // 2 if value % 2 == 0 else 3 * value + 1), steps + 1
    return steps


def test_a_small_buffer_keeps_the_newest_iterations_and_counts_the_others() -> None:
    with short_rings(), session(instrument="heavy") as prof:
        launch_collatz()
    steps = {cta: collatz_steps(cta + 1) for cta in range(30)}
    iterations = prof.df[(prof.df["kind"] == "iteration") & (prof.df["warp"] == 0)]
    for cta, total in steps.items():
        found = iterations.loc[iterations["cta"] == cta, "iteration"].tolist()
        assert found == list(range(max(0, total - 16), total))
    lost = sum(max(0, total - 16) for total in steps.values()) * 4  # warps; one record per iteration
    assert prof.launches["dropped"].tolist() == [lost]
    (note,) = prof.metadata["notes"]
    assert f"the oldest {lost} of" in note
    assert validate(prof.profile.tables) == []


# Calls of noinline functions.


def call_tree(df: pd.DataFrame) -> set[tuple[Any, ...]]:
    """By recorded span: CTA, warp, and the names and iterations from the root down."""
    above: list[tuple[Any, ...]] = []
    for parent, scope, iteration in zip(df["parent"], df["scope"], df["iteration"], strict=True):
        above.append((*(above[parent] if parent >= 0 else ()), (scope, iteration)))
    recorded = (df["kind"] != "gap").to_numpy()
    paths = [path for path, is_span in zip(above, recorded, strict=True) if is_span]
    spans = set(zip(df["cta"][recorded], df["warp"][recorded], paths, strict=True))
    assert len(spans) == recorded.sum()
    return spans


def test_spans_in_noinline_functions_lie_below_each_call() -> None:
    df = run("call_paths", "heavy").profile.df
    names = {tuple(name for name, _ in path if "iteration" not in name) for _, _, path in call_tree(df)}
    root, loop, summing = ("call_paths_kernel",), ("loop L125",), ("loop L105", "load total")
    for path in (
        (*root, "call row_sum L124", *summing),
        (*root, *loop, "call row_score L127", "call row_sum L114", *summing),
        (*root, *loop, "call row_score L127", "barrier"),
        (*root, *loop, "call row_sum L128", *summing),
    ):
        assert path in names
    mine = df[(df["cta"] == 1) & (df["warp"] == 2)]
    nested = mine.loc[mine["scope"] == "call row_sum L114", "iteration"]
    assert (nested + 1).tolist() == scored_rows(
        1
    )  # the iteration of the loop that calls, not of the function


def test_calls_that_did_not_run_leave_nothing_in_a_ring() -> None:
    case = CASES["call_paths"]
    inputs = case.inputs("cpu")
    with short_rings(), session(instrument="heavy") as prof:
        case.launch(inputs)
    assert validate(prof.profile.tables) == []
    kept, everything = call_tree(prof.df), call_tree(run("call_paths", "heavy").profile.df)
    assert kept < everything
    outer = {(cta, path[-1][1]) for cta, _, path in kept if path[-1][0] == "iteration L125"}
    assert outer == {(cta, i) for cta in range(4) for i in range(max(0, 4 - cta), 20 - cta)}


# What is recorded.


def test_a_session_goes_on_after_the_end_of_one_that_was_paused_for_it() -> None:
    outer, inner = session(), session()
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(outer)
        launch_add()
        outer.pause()
        second.enter_context(inner)
        launch_add()
        first.close()
        launch_add()
    assert (len(outer.launches), len(inner.launches)) == (1, 2)
    assert not isinstance(triton.runtime.driver._active, EmulatorDriver)


def test_threads_launch_side_by_side() -> None:
    outputs: dict[int, torch.Tensor] = {}

    def work(n: int) -> None:
        outputs[n] = launch_add(n)

    with session() as prof:
        launch_add(100)
        threads = [threading.Thread(target=work, args=(n,)) for n in (1000, 2000, 3000, 4000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n, out in outputs.items():
        assert torch.equal(out, torch.arange(n) * 2.0)
    assert sorted(prof.launches["grid_x"]) == [1, 1, 2, 3, 4]
    assert validate(prof.profile.tables) == []


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda prof: pickle.loads(pickle.dumps(prof))])
def test_a_copy_of_a_closed_session_is_its_profile(copied: Callable[[Any], Any]) -> None:
    with session() as prof:
        launch_add(100)
        for open_or_not_begun in (prof, session()):
            with pytest.raises(SessionError):
                copied(open_or_not_begun)
    other = copied(prof)
    assert type(other) is profscope.Profile
    assert_equal(other, prof.profile)
    assert len(other.summary()) == len(prof.summary())


@pytest.mark.parametrize("is_spooled", [False, True])
def test_metadata_stay_as_they_were_when_the_session_ended(is_spooled: bool, tmp_path: Path) -> None:
    """Whatever is launched later, whether anybody has read them, and in each file."""
    with (
        emulator.activate() as driver,
        session(every=2, spool=tmp_path / "spool" if is_spooled else None) as prof,
    ):
        launch_add(), launch_add()
    driver.device.note_late("add_kernel", 3, 100)  # as a later launch would
    with session(instrument="heavy"):
        launch_add()
    ended = copy.deepcopy(prof.metadata)
    assert not [note for note in ended["notes"] if "on the emulator" in note]
    assert ended["variants"]["add_kernel"][0]["builds"][-1]["rounds_as_bare"] is True
    driver.device.note_late("add_kernel", 3, 100)
    files = [tmp_path / f"trace.{suffix}" for suffix in ("json", "pftrace.gz", "parquet")]
    for file in files:
        prof.save(file)
    assert prof.metadata == ended
    for file in [*files, *([prof.spool] if prof.spool else [])]:
        assert profscope.load(file).metadata == ended


# In which something goes wrong.

# ruff: noqa: N803


def test_a_session_with_no_launches_is_an_empty_profile(tmp_path: Path) -> None:
    with session() as prof:
        pass
    assert len(prof.df) == len(prof.launches) == len(prof.summary()) == 0
    assert validate(prof.profile.tables) == []
    prof.save(tmp_path / "empty.json")
    assert_equal(profscope.load(tmp_path / "empty.json"), prof.profile)


def test_what_was_collected_survives_an_exception() -> None:
    before = triton_globals()
    prof = session()

    def body() -> None:
        with prof:
            launch_add()
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        body()
    assert triton_globals() == before
    assert prof.launches["kernel"].tolist() == ["add_kernel"]


@triton.jit
def broken_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), no_such_name)  # noqa: F821


def test_a_kernel_that_does_not_compile_raises_what_triton_raises() -> None:
    with session() as prof:
        launch_add()
        with pytest.raises(Exception, match="no_such_name"):
            broken_kernel[(1,)](torch.zeros(16), BLOCK=16)
        launch_add()
    assert prof.launches["kernel"].tolist() == ["add_kernel", "add_kernel"]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_kernel_that_cannot_be_instrumented_runs_bare_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from profscope.instrument_passes.errors import PassError

    def fail(*args: Any) -> None:
        raise PassError("kernel.py:3: cannot instrument this")

    monkeypatch.setattr("profscope.dispatch.recording_stages.run_pipeline", fail)
    with session(instrument=["kernel-span", "op-spans{classes=store}"]) as prof:  # compiled by no other test
        out = launch_add()
    assert torch.equal(out, torch.arange(2500) * 2.0)
    assert prof.launches.empty
    assert prof.metadata["notes"] == ["add_kernel runs bare: kernel.py:3: cannot instrument this"]


def test_sessions_neither_nest_nor_run_twice() -> None:
    with session() as outer:
        with pytest.raises(SessionError, match="already active"), session():
            pass
        launch_add()
    assert len(outer.launches) == 1
    with pytest.raises(SessionError, match="has run already"), outer:
        pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_no_gpu() -> None:
    with pytest.raises(SessionError, match="no GPU"), profscope.session(backend="gpu"):
        pass
