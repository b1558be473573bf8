"""Collection on a real device: arenas in rotation, streams, threads, graphs, faults, memory limits."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import triton

import profscope
from tests.kernels.add import add_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def launch_add(n: int = 65_536) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, 1024),)](x, x, out, n, BLOCK=1024)
    return out


def expected(n: int = 65_536) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32, device="cuda") * 2


def test_arenas_rotate_and_no_launch_is_lost() -> None:
    outputs = []
    with profscope.session(instrument="heavy", memory=1, backend="gpu") as prof:
        for _ in range(500):
            outputs.append(launch_add())
    assert all(torch.equal(out, expected()) for out in outputs)
    assert prof.launches["profile_bytes"].sum() > 5 << 20  # the memory was filled several times
    assert prof.launches["launch"].tolist() == list(range(500))
    assert (prof.launches["ctas"] == 64).all()
    assert (prof.launches["dropped"] == 0).all()
    assert prof.launches["start_ns"].is_monotonic_increasing
    assert prof.metadata["notes"] == []
    assert prof.profile.validate() == []


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
    assert prof.profile.validate() == []


def test_threads_side_by_side() -> None:
    outputs: dict[int, list[torch.Tensor]] = {}

    def work(index: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            outputs[index] = [launch_add() for _ in range(50)]
            torch.cuda.current_stream().synchronize()

    with profscope.session(memory=1, backend="gpu") as prof:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.equal(out, expected()) for mine in outputs.values() for out in mine)
    assert len(prof.launches) == 200
    assert prof.profile.validate() == []


def test_a_captured_graph_runs_unrecorded_and_says_so() -> None:
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    with profscope.session(backend="gpu") as prof:
        add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add_kernel[(4,)](x, x, out, 4096, BLOCK=1024)
        x.fill_(3)
        graph.replay()
        torch.cuda.synchronize()
    assert (out == 6).all()
    assert len(prof.launches) == 1
    assert any("CUDA graph capture is not recorded" in note for note in prof.metadata["notes"])
    graph.replay()  # after the session, too
    torch.cuda.synchronize()


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
from tests.gpu.test_collection import launch_add

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


def test_an_autotuned_kernel_is_profiled() -> None:
    configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024) for warps in (2, 4)]
    tuned = triton.autotune(configs=configs, key=["n"])(add_kernel)
    x = torch.ones(10_000, device="cuda")
    out = torch.empty_like(x)
    with profscope.session(backend="gpu") as prof:
        tuned[lambda meta: (triton.cdiv(10_000, meta["BLOCK"]),)](x, x, out, 10_000)
    assert (out == 2).all()
    assert not prof.launches.empty
    assert prof.profile.validate() == []
