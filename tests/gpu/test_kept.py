"""Binaries that users keep, on a real device: Triton's own launcher, modules that go, CUDA graphs."""

from __future__ import annotations

import pytest
import torch
from triton.compiler import CompiledKernel

import profscope
from tests.kernels.add import add_kernel
from tests.support.validation import validate

N = 3000


def launched() -> CompiledKernel:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    return add_kernel[(3,)](x, x, torch.empty_like(x), N, BLOCK=1024)


def run(kernel: CompiledKernel) -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    kernel[(3, 1, 1)](x, x, out, N, 1024)
    assert torch.equal(out, x * 2)


def test_in_a_cuda_graph() -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    add_kernel.device_caches.clear()
    early = launched()
    with profscope.session(backend="gpu") as prof:
        run(early)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            early[(3, 1, 1)](x, x, out, N, 1024)
        graph.replay()
        graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x * 2)
    assert prof.launches["replay"].tolist() == [-1, 0, 1]
    assert validate(prof.profile.tables) == []


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_first_launched_while_a_graph_is_captured() -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    add_kernel.device_caches.clear()
    early = launched()
    run(early)
    with profscope.session(backend="gpu", instrument="heavy") as prof:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            early[(3, 1, 1)](x, x, out, N, 1024)
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x * 2)
    assert prof.launches["records"].gt(0).tolist() == [True]  # the replay
    assert prof.metadata["notes"] == []
