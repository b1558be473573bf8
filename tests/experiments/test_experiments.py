"""What experiments say of kernels that the emulator runs, and what they leave as it was."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.analysis.experiments import experiments_text
from profscope.compat.edited import options_of, swapped
from profscope.compat.triton_parts import CompiledKernel
from profscope.device.backend import Backend, select
from profscope.experiments import builds as builds_module
from profscope.experiments.arguments import Arguments, extents
from profscope.experiments.builds import Builds
from profscope.experiments.running import experiments_table, run
from profscope.experiments.timing import PairTimer
from profscope.instrument_passes.ablation.groups import SCATTERED
from profscope.schema import EXPERIMENT_DTYPES
from profscope.tuning.launches import launch_of
from tests.kernels.atomics import lock_kernel

# ruff: noqa: N803


@triton.jit
def scattering(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at * columns, x)


@triton.jit
def interleaving(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + 8 * at, x)
    tl.store(out_ptr + 8 * at + 1, 2 * x)
    tl.store(out_ptr + 8 * at + 2, 3 * x)


@triton.jit
def filling(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK) * columns, 7.0)


@triton.jit
def summing(x_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    """A sum over all warps in each of as many steps as the data say."""
    at = tl.arange(0, BLOCK)
    total = 0.0
    for step in range(tl.load(count_ptr)):
        x = tl.load(x_ptr + step * BLOCK + at)
        total += tl.sum(tl.exp(x), 0)
    tl.store(out_ptr + tl.program_id(0), total)


@pytest.fixture(scope="module")
def emulator() -> Iterator[Backend]:
    with select("emulator") as machine:
        yield machine


def measured(
    kernel: Any,
    grid: tuple[int, ...],
    args: list[Any],
    options: dict[str, Any],
    machine: Backend,
    builds: Builds,
) -> pd.DataFrame:
    launch = launch_of(kernel, grid, args, options, {})
    arguments = Arguments(launch.values)
    compiled = launch()
    arguments.keep_result()
    timer = PairTimer(machine, arguments.restore)
    with swapped(compiled, launch) as in_place:
        results = run(compiled, in_place, extents(compiled, launch.given), timer, builds, 120.0)
    arguments.reset()
    return experiments_table(results, compiled.name, 3, timer.unit)


def row(table: pd.DataFrame, op: str, how: str = "off") -> pd.Series[Any]:
    (found,) = table.index[(table["op"] == op) & (table["experiment"] == how)]
    return table.loc[found]


@pytest.fixture(scope="module")
def scattered(emulator: Backend, building: Builds) -> pd.DataFrame:
    x, out = torch.arange(2048.0), torch.zeros(2048 * 64)
    return measured(scattering, (4,), [x, out, 64], {"BLOCK": 512}, emulator, building)


@pytest.fixture(scope="module")
def summed(emulator: Backend, building: Builds) -> pd.DataFrame:
    x, count, out = torch.zeros(8 * 512), torch.tensor([8], dtype=torch.int32), torch.zeros(2)
    return measured(summing, (2,), [x, count, out], {"BLOCK": 512}, emulator, building)


def test_a_scattered_store_costs_what_neighbouring_addresses_save(scattered: pd.DataFrame) -> None:
    store, contiguous = row(scattered, "store"), row(scattered, "store", "contiguous")
    assert store["valid"]
    assert contiguous["valid"]
    assert 10 < contiguous["saved_pct"] <= store["saved_pct"] < 100
    assert row(scattered, "load x")["saved_pct"] < store["saved_pct"] / 2
    assert row(scattered, "all global memory")["saved_pct"] >= store["saved_pct"]


def test_stores_to_the_same_sectors_are_moved_together(emulator: Backend, building: Builds) -> None:
    x, out = torch.arange(512.0), torch.zeros(512 * 8)
    table = measured(interleaving, (1,), [x, out], {"BLOCK": 512}, emulator, building)
    together = row(table, SCATTERED, "contiguous")
    assert together["valid"]
    assert together["saved_pct"] > 5
    each = table[(table["op"] == "store") & (table["experiment"] == "contiguous")]
    assert each["line"].nunique() == 3
    assert together["saved_pct"] > each["saved_pct"].max()


def test_rows_say_kernel_place_time_and_interval(scattered: pd.DataFrame) -> None:
    store = row(scattered, "store")
    assert (store["kernel"], store["variant"]) == ("scattering", 3)
    assert store["file"] == __file__
    source, first = inspect.getsourcelines(scattering.fn)
    assert source[store["line"] - first].strip().startswith("tl.store")
    assert store["low_pct"] == store["saved_pct"] == store["high_pct"], "cycles are the same each time"
    assert store["time_kcycles"] > 0
    assert scattered["time_us"].isna().all(), "cycles are no GPU time"
    assert {name: str(dtype) for name, dtype in scattered.dtypes.items()} == EXPERIMENT_DTYPES
    assert scattered.loc[scattered["line"] == 0, "file"].eq("").all()


def test_a_reduction_in_each_step_is_what_a_loop_waits_for(summed: pd.DataFrame) -> None:
    assert row(summed, "reduce")["saved_pct"] > 20


def test_a_loop_bound_that_is_data_is_refused_by_its_line(summed: pd.DataFrame) -> None:
    (refused,) = summed.loc[summed["why_not"].str.startswith("a loop's bounds"), "op"]
    assert refused == "load"
    assert summed["saved_pct"].notna().sum() >= 3, "the others are made"


def test_a_kernel_that_waits_for_others_is_not_tried(emulator: Backend, building: Builds) -> None:
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    table = measured(lock_kernel, (2,), [lock, total, torch.ones(2)], {}, emulator, building)
    assert len(table) == 1
    assert "may wait for" in table["why_not"].iloc[0]
    assert "no experiment: " in "\n".join(experiments_text(table))


def test_time_that_is_over_is_said(emulator: Backend, building: Builds) -> None:
    x, out = torch.arange(512.0), torch.zeros(512 * 4)
    launch = launch_of(scattering, (1,), [x, out, 4], {"BLOCK": 512}, {})
    compiled = launch()
    timer = PairTimer(emulator, lambda: None)
    results = run(compiled, lambda kernel: launch(), {}, timer, building, 0.0)
    assert {each.why_not for each in results if not each.experiment.why_not} == {"out of time"}


def test_launches_go_elsewhere_only_while_they_are_told_to(emulator: Backend) -> None:
    x, out = torch.arange(512.0), torch.zeros(512 * 4)
    before = vars(CompiledKernel)["run"]
    other = filling[(1,)](x, out, 4, BLOCK=512)
    compiled = scattering[(1,)](x, out, 4, BLOCK=512)
    with swapped(compiled, lambda: scattering[(1,)](x, out, 4, BLOCK=512)) as in_place:
        in_place(other)
        assert out[::4].eq(7.0).all()
        in_place(None)
        assert torch.equal(out[::4], x)
    assert vars(CompiledKernel)["run"] is before


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT"])
def test_a_compiler_that_crashes_is_a_reason(
    signal: str, emulator: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        f"os.kill(os.getpid(), signal.{signal})"
    )
    monkeypatch.setattr(builds_module, "WORKER_PROGRAM", program)
    compiled = scattering[(1,)](torch.zeros(512), torch.zeros(512), 1, BLOCK=512)
    with Builds().open() as builds:
        built = builds.submit(compiled.asm["ttgir"], options_of(compiled)).result()
    assert re.fullmatch(rf"the compiler crashed \(signal \d+, {signal}\)", built.failed)


def test_what_triton_refuses_is_a_reason(emulator: Backend, building: Builds) -> None:
    compiled = scattering[(1,)](torch.zeros(512), torch.zeros(512), 1, BLOCK=512)
    broken = compiled.asm["ttgir"].replace("tt.store", "tt.stored")
    built = building.submit(broken, options_of(compiled)).result()
    assert built.failed
    assert built.instructions is None
    again = building.submit(compiled.asm["ttgir"], options_of(compiled)).result()
    assert not again.failed, "the process goes on"
    assert again.instructions is not None
    assert sum(count for kind, count in again.instructions.items() if kind.startswith("global store")) > 0


def test_explain_prints_and_keeps_them_and_gives_memory_back(tmp_path: Path) -> None:
    x, out = torch.arange(2048.0), torch.full((2048 * 64,), 7.0)
    explanation = profscope.explain(scattering, x, out, 64, grid=(4,), BLOCK=512, backend="emulator")
    assert torch.equal(x, torch.arange(2048.0))
    assert out.eq(7.0).all()
    table = explanation.profile.experiments
    assert set(table["experiment"]) == {"off", "contiguous"}
    assert (table["variant"] == explanation.variant).all()
    text = explanation.text()
    assert "saved without one thing" in text
    assert re.search(r"contiguous +store test_experiments\.py:\d+", text)
    explanation.profile.save(tmp_path / "x.json")
    loaded = profscope.load(tmp_path / "x.json")
    assert loaded.experiments.equals(table)
    told = explanation.findings
    assert loaded.findings()["finding"].tolist() == told["finding"].tolist()
    store = told.set_index("finding").loc["uncoalesced-store"]
    contiguous = row(table, "store", "contiguous")
    assert (store["tried"], store["measured_pct"]) == ("contiguous (store)", contiguous["saved_pct"])
    assert (store["basis"], pd.isna(store["gain_pct"])) == ("modelled", True), "cycles are no gain"


def test_a_module_that_cannot_be_read_is_a_reason(emulator: Backend, building: Builds) -> None:
    compiled = scattering[(1,)](torch.zeros(512), torch.zeros(512), 1, BLOCK=512)
    timer = PairTimer(emulator, lambda: None)
    broken = types.SimpleNamespace(asm={"ttgir": "module {\n  %x = "}, metadata=compiled.metadata)
    (result,) = run(broken, lambda kernel: compiled, {}, timer, building, 10.0)  # type: ignore[arg-type]
    assert result.why_not.startswith("its TTGIR cannot be read: ")
