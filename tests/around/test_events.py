"""Events of Kineto's: as they came from an H200, and as a session records them here."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from torch.autograd import profiler

import profscope
from profscope.around import kineto
from profscope.around.host_tables import with_events, with_host
from profscope.errors import SessionError
from profscope.profiles import Profile
from profscope.schema import events_frame, host_frame
from tests.support.around import kineto as kineto_columns
from tests.support.sessions import launch_add, session
from tests.support.validation import validate

CAPTURE = Path(__file__).parents[1] / "data" / "events"
"""Two steps of a GPT of one block under torch.compile: NVIDIA H200, Triton 3.6.0, torch 2.11.0."""


@pytest.fixture(scope="module")
def gpt() -> Profile:
    return profscope.load(CAPTURE / "gpt.pftrace.gz")


@pytest.fixture(scope="module")
def rebuilt(gpt: Profile) -> Profile:
    """The same with host scopes and events made anew, of what recording had."""
    raw = json.loads(lzma.decompress((CAPTURE / "gpt.kineto.json.xz").read_bytes()))
    bare = replace(gpt.tables, host=host_frame(), events=events_frame())
    return Profile.of(with_events(with_host(bare, raw["scopes"]), raw["kineto"]))


def test_tables_of_a_real_run(gpt: Profile, rebuilt: Profile) -> None:
    assert validate(rebuilt.tables) == validate(gpt.tables) == []
    pd.testing.assert_frame_equal(rebuilt.host, gpt.host)
    # When these were recorded Kineto still said which operator set memory by a call that it does not see.
    unseen = rebuilt.events["device"].ge(0) & rebuilt.events["parent"].eq(-1)
    assert rebuilt.events.loc[unseen, "kind"].tolist() == ["set"]
    pd.testing.assert_frame_equal(rebuilt.events[~unseen], gpt.events[~unseen])
    assert rebuilt.launches["host"].tolist() == gpt.launches["host"].tolist()


def test_a_call_on_a_gpu_launches_nothing(gpt: Profile) -> None:
    """Nothing that Kineto says, so that no capture, however damaged, has events around each other."""
    columns = kineto_columns(("odd", "call", 7, 0, 10, 5), ("work", "kernel", 7, 20, 30, 5))
    columns["on_gpu"] = [True, True]
    bare = replace(gpt.tables, host=host_frame(), events=events_frame())
    assert with_events(bare, columns).events["parent"].tolist() == [-1, -1]


def test_each_launch_is_one_of_the_kernels(gpt: Profile) -> None:
    kernels = gpt.events[gpt.events["launch"] >= 0]
    assert sorted(kernels["launch"]) == sorted(gpt.launches["launch"])
    both = kernels.merge(gpt.program.host_times(), on="launch", suffixes=("", "_launch"))
    late = both["start_unix_ns_launch"] - both["start_unix_ns"]
    assert late.between(0, 300).all()  # ns; `error_ns` is above 1,000
    assert (both["end_unix_ns_launch"] <= both["end_unix_ns"]).all()
    assert (both["name"].astype("str") == both["kernel"]).all()
    by_launch = gpt.launches.set_index("launch")["host"]
    assert both["host"].tolist() == by_launch[both["launch"]].tolist()


def test_kernels_of_other_threads_are_in_the_scope_that_waits(gpt: Profile) -> None:
    """Backward passes are launched by autograd's thread."""
    kernels = gpt.events[gpt.events["kind"] == "kernel"]
    inside = kernels["host"].map(gpt.host["scope"])
    assert not kernels["name"].str.startswith("profscope_").any()
    assert inside.value_counts().to_dict() == {"backward": 92, "forward": 28, "training": 2}
    calls = gpt.events["thread"].to_numpy()[kernels["parent"].to_numpy()]
    assert set(calls[inside == "forward"]) == {int(gpt.host["thread"][0])}
    backward = calls[inside == "backward"]
    assert (backward == int(gpt.host["thread"][0])).sum() == 2  # in each step the first gradient, a fill
    assert kernels["call_path"].str.startswith("training > ").all()


def test_questions_of_a_real_run(gpt: Profile) -> None:
    times = gpt.program.gpu_time()
    assert 0 < times.attrs["triton_share"] < 1
    steps = gpt.program.host_scopes().set_index("path")
    second = steps.loc["training > step 1"]
    assert (second["count"], second["launches_each"]) == (1, second["gpu_launches"])
    assert second["gpu_launches"] >= 61
    gaps = gpt.program.gpu_gaps()
    assert gaps["duration_ns"].is_monotonic_decreasing
    busy = gaps.attrs["devices"][-1, 0]
    ours = gpt.events[gpt.events["device"] == 0]
    assert busy["busy_ns"] + busy["idle_ns"] == ours["end_unix_ns"].max() - ours["start_unix_ns"].min()
    late = gaps["host_late_ns"].dropna()
    assert late.between(0, gaps["duration_ns"].loc[late.index]).all()


def test_a_session_here_has_operators() -> None:
    with session(events=True) as prof:
        with profscope.scope("step"):
            launch_add()
            with torch.profiler.record_function("forward"):
                torch.ones(4, 4) @ torch.ones(4, 4)
        during = len(prof.events)
    assert during == 0  # Kineto is read at the end
    events = prof.events
    assert set(events["kind"]) == {"op"}
    mm = events[events["name"] == "aten::mm"].iloc[0]
    assert mm["call_path"] == "step > forward > aten::matmul"
    assert prof.host["scope"][mm["host"]] == "forward"
    assert prof.host["start_unix_ns"][mm["host"]] <= mm["start_unix_ns"] <= mm["end_unix_ns"]
    assert validate(prof.tables) == []
    assert any("events are of the host only" in note for note in prof.metadata["notes"])
    assert not profiler._is_profiler_enabled


def test_torch_compile_does_not_tell_of_its_launches() -> None:
    """It does while this flag of torch's is up, in Python, for each launch."""
    seen = kineto.Kineto(on_gpu=False)
    for _ in range(2):  # a session may be paused
        with seen.installed():
            assert not profiler._is_profiler_enabled
            torch.ones(2).sum()
        assert not profiler._is_profiler_enabled
    columns = seen.columns()
    assert columns is not None
    assert columns["name"].count("aten::ones") == 2


def test_one_profiler_at_a_time() -> None:
    with profiler.profile(use_kineto=True), pytest.raises(SessionError, match=r"a torch\.profiler is active"):
        session(events=True).__enter__()
    with session(events=True) as prof:
        launch_add()
        with profiler.profile(use_kineto=True):
            pass
    assert len(prof.events) == 0
    assert any("ran a torch.profiler of its own" in note for note in prof.metadata["notes"])


def test_without_gpu_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "supported_activities", set)
    with pytest.raises(SessionError, match=r"Kineto in torch .* has no GPU support"):
        kineto.refuse_kineto(on_gpu=True)
    kineto.refuse_kineto(on_gpu=False)


class Event:
    """As torch 2.11 has them, which does not say what an activity is."""

    def __init__(self, name: str, gpu: bool, annotation: bool = False) -> None:
        self.name = lambda: name
        types = torch._C._autograd.DeviceType
        self.device_type = lambda: types.CUDA if gpu else types.CPU
        self.is_user_annotation = lambda: annotation


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Event("add_kernel", True), "kernel"),
        (Event("Memcpy HtoD (Pageable -> Device)", True), "copy"),
        (Event("Memset (Device)", True), "set"),
        (Event("step 1", True, True), ""),
        (Event("step 1", False, True), "annotation"),
        (Event("cudaLaunchKernel", False), "call"),
        (Event("cuLaunchKernelEx", False), "call"),
        (Event("aten::cumsum", False), "op"),
        (Event("custom_op", False), "op"),
        (Event("Context Sync", True), ""),
        (Event("Buffer Flush", False), ""),
    ],
)
def test_kinds_by_name(event: Any, kind: str) -> None:
    assert kineto.kind_of(event) == kind


def test_process_groups_as_kineto_spells_them() -> None:
    said = (
        '"External id": 12, "Collective name": "allreduce", "In msg nelems": 1000, "Group size": 2, '
        '"Process Group Name": "3", "Process Group Description": "{}", "Process Group Ranks": "[0, 2]"'
    )
    assert kineto.process_group(said.format("mesh_tp")) == "mesh_tp 3: ranks 0, 2"
    assert (
        kineto.process_group(said.format("undefined").replace('"[0, 2]"', "[0, 2]")) == "group 3: ranks 0, 2"
    )
    assert kineto.process_group('"Ev Idx": 5') == kineto.process_group("") == ""


def test_groups_as_kineto_saves_them() -> None:
    """Two operators of NCCL's and what lies between, as torch 2.11 wrote them on two H200."""
    trace = (CAPTURE / "nccl.kineto.json").read_text()
    assert kineto.groups_in(trace) == {2: "default_pg 0: ranks 0, 1", 5: "second 1: ranks 0, 1"}
    events = [SimpleNamespace(correlation_id=lambda each=each: each) for each in (1, 2, 5)]
    results = SimpleNamespace(save=lambda path: Path(path).write_text(trace))
    names = ["c10d::allreduce_", "record_param_comms", "record_param_comms"]
    assert kineto.process_groups(results, events, names, []) == [
        "",
        "default_pg 0: ranks 0, 1",
        "second 1: ranks 0, 1",
    ]
    said = {"Process Group Name": '"7"', "Process Group Ranks": '"[2, 3]"'}
    newer = [SimpleNamespace(extra_meta=lambda: said)] * 3  # torch 2.13
    assert kineto.process_groups(None, newer, names, []) == ["", *["group 7: ranks 2, 3"] * 2]


def test_events_are_kept_where_kinetos_file_cannot_be_written() -> None:
    """Kineto only logs that: then there is no file. Said once, however often a session was paused."""
    events = [SimpleNamespace(correlation_id=lambda: 2)]
    results, notes = SimpleNamespace(save=lambda path: None), list[str]()
    for _ in range(2):
        assert kineto.process_groups(results, events, ["record_param_comms"], notes) == [""]
    assert notes == [
        "process groups are missing: Kineto's file could not be written, No such file or directory"
    ]
