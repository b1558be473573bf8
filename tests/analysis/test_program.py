"""Questions about a whole program: what launched what, idle GPUs, and the modules of torch.compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.variants import MODEL
from profscope.around.host_tables import enclosing
from profscope.profiles import Profile
from profscope.schema import Tables
from tests.support.around import KERNEL, MAIN, program
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.validation import validate


@pytest.fixture(scope="module")
def profile() -> Profile:
    return program()


def test_events_know_what_launched_them(profile: Profile) -> None:
    events = profile.events.set_index(profile.events["name"].astype("str"))
    assert validate(profile.tables) == []
    assert events["kind"].astype("str").to_dict()["ncclDevKernel"] == "collective"
    assert events.at["Memcpy HtoD", "call_path"] == "step > forward > aten::copy_ > cudaMemcpyAsync"
    assert events.at["nvjet_tst", "call_path"] == (
        "step > backward > MmBackward0 > aten::mm > cudaLaunchKernel"  # of another thread
    )
    assert events.at["ncclDevKernel", "call_path"] == ""
    assert events["host"].to_dict() | {} == {
        **dict.fromkeys(("aten::copy_", "cudaMemcpyAsync", "Memcpy HtoD", "cuLaunchKernelEx", KERNEL), 1),
        **dict.fromkeys(("MmBackward0", "aten::mm", "cudaLaunchKernel", "nvjet_tst"), 2),
        "ncclDevKernel": -1,
    }
    assert events["launch"].to_dict()[KERNEL] == 0
    assert (events["launch"].drop(KERNEL) == -1).all()
    assert events.loc[["Memcpy HtoD"], ["device", "stream", "thread", "bytes"]].to_numpy().tolist() == [
        [0, 7, -1, 4096]
    ]
    assert events.loc["aten::mm", ["device", "stream"]].tolist() == [-1, -1]
    assert events.at["aten::copy_", "thread"] == MAIN


def test_host_scopes(profile: Profile) -> None:
    table = profile.program.host_scopes().set_index("path")
    table = table.loc[["step", "step > backward", "step > forward"]]
    assert table["gpu_launches"].tolist() == [3, 1, 2]
    events = profile.events.set_index(profile.events["name"].astype("str"))
    took = events["end_unix_ns"] - events["start_unix_ns"]
    assert table["gpu_ns"].tolist() == [took["Memcpy HtoD"] + took[KERNEL] + 5000, 5000, 2000 + took[KERNEL]]
    assert table["triton_ns"].tolist() == [took[KERNEL], 0, took[KERNEL]]
    total = table["total_ns"]
    assert table["self_ns"]["step"] == total["step"] - total["step > forward"] - total["step > backward"]
    assert total["step > backward"] == 19_500
    assert table["tokens"]["step"] == 64.0


def test_gpu_gaps(profile: Profile) -> None:
    gaps = profile.program.gpu_gaps()
    assert gaps["duration_ns"].tolist() == [4000, 900]
    assert gaps["before"].tolist() == [KERNEL, "Memcpy HtoD"]
    assert gaps["after"].tolist() == ["nvjet_tst", KERNEL]
    assert gaps["host_late_ns"].tolist() == [3000, 0]  # the call returned 3,000 ns into the first gap
    assert gaps.attrs["devices"][-1, 0]["idle_ns"] == 4900
    assert regular_profile(launches=1, ctas=1, warps=1, iterations=1).program.gpu_gaps().attrs["not_measured"]


def test_gpu_time(profile: Profile) -> None:
    table = profile.program.gpu_time().set_index("name")
    assert table["what"].to_dict() == {
        KERNEL: "Triton", "nvjet_tst": "kernel", "Memcpy HtoD": "copy", "ncclDevKernel": "collective",
    }  # fmt: skip
    assert table["recorded"][KERNEL] == 1
    assert table["share"].sum() == pytest.approx(1)
    assert profile.program.gpu_time().attrs["triton_share"] == pytest.approx(table["share"][KERNEL])


@pytest.mark.parametrize(
    ("backend", "events", "why"),
    [
        ("gpu", False, "there are no events of a GPU; session(events=True) records all that runs on one"),
        ("gpu", True, "events=True saw nothing run on a GPU"),
        ("emulator", False, "the emulator runs kernels on the CPU, so there are no events of a GPU"),
        ("emulator", True, "the emulator runs kernels on the CPU, so there are no events of a GPU"),
    ],
)
def test_why_there_are_no_events_of_a_gpu(backend: str, events: bool, why: str) -> None:
    options = {"backend": backend, "events": events}
    nothing = Profile.of(Tables(metadata=profile_metadata(backend=backend, options=options)))
    assert nothing.program.gpu_time().attrs["not_measured"] == [f"GPU time: {why}"]
    assert nothing.program.gpu_gaps().attrs["not_measured"] == [f"gaps: {why}"]
    assert nothing.program.host_scopes().attrs["not_measured"] == [
        f"only launches that were recorded are known: {why}"
    ]


INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=24)


@given(INTERVALS)
def test_enclosing(rows: list[tuple[int, int, int]]) -> None:
    """Whatever overlaps: it is around it, on its thread, and nothing that began later is."""
    thread = np.array([row[0] for row in rows], np.int64)
    start = np.array([row[1] for row in rows], np.int64)
    end = start + np.array([row[2] for row in rows], np.int64)
    above = enclosing(thread, start, end)
    assert above.shape == (len(rows),)
    for row, outer in enumerate(above.tolist()):
        around = [
            other
            for other in range(len(rows))
            if other != row
            and thread[other] == thread[row]
            and start[other] <= start[row]
            and end[other] >= end[row]
            and (end[other] - start[other]) > (end[row] - start[row])
            and end[other] > start[row]
        ]
        if outer < 0:
            assert around == []
            continue
        assert thread[outer] == thread[row]
        assert start[outer] <= start[row]
        assert end[outer] >= end[row]
        last = max(((start[other], -end[other]) for other in around), default=(0, 0))
        assert not around or (start[outer], -end[outer]) >= last


# Kernels of torch.compile by module and line of the model.

UP = {
    "module": "blocks.*.up",
    "model_file": "/me/model.py",
    "model_line": 8,
    "ops": ["aten.gelu"],
    "places": [],
}


def with_models(models: dict[str, dict[str, Any]]) -> Profile:
    """A program_profile with launches of kernels; models: of those that torch.compile has made."""
    program_profile = regular_profile()
    kernels = list(dict.fromkeys(program_profile.launches["kernel"]))
    variants = {
        kernel: [
            {"variant": 0, "key": "", "builds": [], **({"model": models[kernel]} if kernel in models else {})}
        ]
        for kernel in kernels
    }
    tables = replace(program_profile.tables, metadata={**program_profile.metadata, "variants": variants})
    return Profile.of(tables)


@pytest.fixture(scope="module")
def kernel() -> str:
    return str(regular_profile().launches["kernel"].iloc[0])


def test_spans_and_summary_name_module_and_line(kernel: str) -> None:
    program_profile = with_models({kernel: UP})
    for table in (program_profile.df, program_profile.summary()):
        own = table["kernel"] == kernel
        assert own.any()
        assert set(table.loc[own, "module"]) == {"blocks.*.up"}
        assert set(table.loc[own, "model_file"]) == {"/me/model.py"}
        assert set(table.loc[own, "model_line"]) == {8}
        assert set(table.loc[~own, "module"]) <= {""}
    assert str(program_profile.df["module"].dtype) == "category"
    assert validate(program_profile.tables) == []


def test_time_is_summed_by_module(kernel: str) -> None:
    modules = with_models({kernel: UP}).program.modules()
    summary = with_models({kernel: UP}).summary()
    roots = summary[summary["kind"] == "kernel"]
    assert modules["share"].sum() == pytest.approx(1)
    own = modules[modules["module"] == "blocks.*.up"].iloc[0]
    assert own["total_ns"] == roots.loc[roots["kernel"] == kernel, "total_ns"].sum()
    assert own["kernels"] == 1


def test_profiles_without_such_kernels_name_no_module() -> None:
    program_profile = with_models({})
    assert not {*MODEL} & {*program_profile.df.columns}
    summary = program_profile.summary()
    assert set(summary["module"]) | set(summary["model_file"]) == {""}
    assert summary["model_line"].isna().all()
    assert "model" not in repr(summary)
    assert program_profile.program.modules().empty
