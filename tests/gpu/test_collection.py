"""Collection on a real device: arenas in rotation, streams, threads, graphs, faults, memory limits."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import profscope
from tests.kernels.add import add_kernel
from tests.kernels.loops import count_kernel
from tests.support.on_gpu import expected, launch_add
from tests.support.validation import validate


def test_arenas_rotate_and_no_launch_is_lost() -> None:
    outputs = []
    with profscope.session(instrument="heavy", memory=1, backend="gpu") as prof:
        for _ in range(500):
            outputs.append(launch_add())
    assert all(torch.equal(out, expected()) for out in outputs)
    assert prof.launches["profile_bytes"].sum() > 4 << 20  # the memory was filled several times
    assert prof.launches["launch"].tolist() == list(range(500))
    assert (prof.launches["ctas"] == 64).all()
    assert (prof.launches["dropped"] == 0).all()
    assert prof.launches["start_ns"].is_monotonic_increasing
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []


def test_launches_do_not_mind_what_was_in_their_memory() -> None:
    """The rings of a first launch are not zeroed."""
    junk = torch.full((300 << 20,), 0xA5, dtype=torch.uint8, device="cuda")
    del junk
    out = torch.zeros(64 * 32, dtype=torch.int32, device="cuda")
    with profscope.session(instrument="heavy", backend="gpu") as prof:
        for _ in range(3):
            count_kernel[(64,)](out, 100, BLOCK=32, num_warps=1)
    assert prof.launches["records"].nunique() == 1
    assert (prof.launches["dropped"] == 0).all()
    assert (prof.df[prof.df["kind"] == "iteration"].groupby("launch").size() == 64 * 100).all()
    assert not prof.launches["cold"].any()
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []


def test_streams_side_by_side() -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    outputs = []
    torch.cuda.synchronize()
    with profscope.session(memory=1, backend="gpu") as prof:
        for _ in range(50):
            for stream in streams:
                with torch.cuda.stream(stream):
                    outputs.append(launch_add())
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected()) for out in outputs)
    assert prof.launches["stream"].value_counts().tolist() == [50, 50, 50]
    assert validate(prof.profile.tables) == []


def test_threads_side_by_side() -> None:
    outputs: dict[int, list[torch.Tensor]] = {}

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            outputs[index] = [launch_add() for _ in range(50)]
            torch.cuda.current_stream().synchronize()

    with profscope.session(memory=1, backend="gpu") as prof, ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert all(torch.equal(out, expected()) for mine in outputs.values() for out in mine)
    assert len(prof.launches) == 200
    assert validate(prof.profile.tables) == []


def capture(x: torch.Tensor, outs: list[torch.Tensor]) -> torch.cuda.CUDAGraph:
    """A graph that adds x to itself into each of `outs`, by one launch each."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for out in outs:
            add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
    return graph


def test_every_replay_of_a_captured_graph_is_recorded_and_told_apart() -> None:
    x = torch.ones(4096, device="cuda")
    outs = [torch.empty_like(x) for _ in range(3)]
    with profscope.session(memory=1, backend="gpu") as prof:
        add_kernel[(4,)](x, x, outs[0], 4096, BLOCK=1024)
        torch.cuda.synchronize()
        first, second = capture(x, outs[:2]), capture(x, outs[2:])
        for value in range(200):  # the arenas are filled several times
            x.fill_(value)
            first.replay()
            second.replay()
            assert all((out == 2 * value).all() for out in outs)
    launches = prof.launches
    assert launches["graph"].tolist() == [-1] + [0, 0, 1] * 200
    assert launches["replay"].tolist() == [-1] + [n for n in range(200) for _ in range(3)]
    assert (launches["ctas"] == 4).all()
    assert launches["start_ns"].is_monotonic_increasing
    assert prof.df.groupby("launch").size().nunique() == 1
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []
    x.fill_(-1)
    first.replay()  # after the session, too
    del prof
    second.replay()
    torch.cuda.synchronize()
    assert all((out == -2).all() for out in outs)


def test_a_graph_replayed_back_to_back_and_on_other_streams_loses_nothing() -> None:
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    streams = [torch.cuda.Stream() for _ in range(3)]
    with profscope.session(instrument="heavy", backend="gpu") as prof:
        add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
        graph = capture(x, [out])
        for index in range(60):
            with torch.cuda.stream(streams[index % 3]):
                graph.replay()
    replays = prof.launches[prof.launches["graph"] == 0]
    assert replays["replay"].tolist() == list(range(60))
    assert replays["stream"].nunique() == 3
    assert replays["start_ns"].is_unique
    assert replays["start_ns"].is_monotonic_increasing
    assert validate(prof.profile.tables) == []


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_graph_captured_before_the_session_runs_bare_and_the_notes_say_so() -> None:
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
    graph = capture(x, [out])
    with profscope.session(backend="gpu") as prof:
        graph.replay()
    assert prof.launches.empty
    assert any("1 replays of CUDA graphs ran unrecorded" in note for note in prof.metadata["notes"])


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_no_device_memory_leaves_the_launch_bare_and_says_so() -> None:
    launch_add()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (16 << 20)) / total)
    try:
        with profscope.session(memory=1024, backend="gpu") as prof:
            out = launch_add()
        assert torch.equal(out, expected())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert free > 1 << 30
    assert prof.launches.empty
    assert any("no device memory for the 1024 MiB" in note for note in prof.metadata["notes"])


_FAULT = """
import torch, triton, triton.language as tl
import profscope
from tests.support.on_gpu import launch_add

@triton.jit
def fault_kernel(ptr):
    tl.store(ptr + (1 << 45), 1.0)

error = None
try:
    with profscope.session(backend="gpu") as prof:
        launch_add()
        torch.cuda.synchronize()
        assert len(prof.launches) == 1
        fault_kernel[(1,)](torch.zeros(1, device="cuda"))
        torch.cuda.synchronize()
except RuntimeError as caught:
    error = caught
assert error is not None and "illegal" in str(error).lower(), error
assert prof.launches["kernel"].tolist() == ["add_kernel"], prof.launches
print([note for note in prof.metadata["notes"] if "the device has faulted" in note])
"""


def test_what_was_collected_before_a_fault_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "fault.py"  # a file: Triton reads a kernel's source from it
    script.write_text(_FAULT)
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", f"import runpy; runpy.run_path({str(script)!r})"],
        capture_output=True, text=True, cwd=root, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "fault_kernel" in ran.stdout
