"""Binaries that users keep, on a real device: Triton's own launcher, modules that go, CUDA graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from triton.compiler import CompiledKernel
from triton.runtime import _allocation

import profscope
from tests.kernels.add import add_kernel
from tests.support.validation import validate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

N = 3000


def launched() -> CompiledKernel:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    return add_kernel[(3,)](x, x, torch.empty_like(x), N, BLOCK=1024)


def warmed_up() -> CompiledKernel:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    return add_kernel.warmup(x, x, torch.empty_like(x), N, BLOCK=1024, grid=(3,))


def run(kernel: CompiledKernel) -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    kernel[(3, 1, 1)](x, x, out, N, 1024)
    assert torch.equal(out, x * 2)


@pytest.mark.parametrize("make", [launched, warmed_up])
@pytest.mark.parametrize("every", [1, 3])
def test_before_in_and_after_a_session(make: object, every: int) -> None:
    add_kernel.device_caches.clear()
    before = _allocation._profile_allocator.get()
    early = make()  # type: ignore[operator]
    with profscope.session(backend="gpu", every=every) as prof:
        for _ in range(6):
            run(early)
    assert len(prof.launches) == 6 // every
    with profscope.session(backend="gpu", instrument="heavy", every=every) as prof:
        inside = make()  # type: ignore[operator]
        begun = len(prof.launches)
        run(inside)
    assert begun <= len(prof.launches) <= begun + 1
    for _ in range(3):
        run(inside)
        run(early)
    with profscope.session(backend="gpu", instrument="light") as prof:
        run(inside)
        run(early)
    assert len(prof.launches) == 2
    assert prof.metadata["notes"] == []
    run(inside)
    assert _allocation._profile_allocator.get() is before


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


def test_where_triton_caches_nothing_but_binaries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for _ in range(2):  # compiled, then found
        add_kernel.device_caches.clear()
        with profscope.session(backend="gpu") as prof:
            run(launched())
        assert prof.launches["records"].gt(0).tolist() == [True, True]
    add_kernel.device_caches.clear()
