"""Models that AOTInductor has compiled, and what a session says of them; of real ones on a GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.export.pt2_archive._package import AOTICompiledModel
from torch.utils import _pytree as pytree

import profscope
from profscope.compat import aot_inductor
from profscope.compat.aot_inductor import kernels_in
from profscope.dispatch import observing as proton_sampling
from profscope.dispatch.observing import proton_has_sampled
from tests.support.sessions import launch_add, session

LIBRARY = b"\x7fELF\0triton_poi_fused_gelu_0\0no_triton_poi_fused_1\0triton_per_fused_norm_1\0triton_poi\0"


class Model(AOTICompiledModel):  # type: ignore[misc]
    """A package's loader is C++; its specs are torch's own."""

    def __init__(self, device: str) -> None:
        spec, out = (pytree.tree_structure(each) for each in (((torch.ones(1),), {}), torch.ones(1)))
        texts = [pytree.treespec_dumps(spec), pytree.treespec_dumps(out)]
        super().__init__(
            SimpleNamespace(
                get_call_spec=lambda: texts,
                boxed_run=lambda inputs: [inputs[0] + 1],
                get_metadata=lambda: {"AOTI_DEVICE_KEY": device},
            )
        )


class Graph:
    """What of Inductor's own, which takes seconds to import, counts here."""

    def __init__(self, device: str, cpp: bool, text: str) -> None:
        self.fx_kwargs = {"cpp_wrapper": cpp}
        self.device_types = {device}
        self.source_code = text

    def __call__(self, inputs: list[int]) -> list[int]:
        return inputs


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "data" / "aotinductor" / "model" / "abc.wrapper.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(LIBRARY)
    maps = f"7f00-7f01 r-xp 00000000 08:01 1  {path}\n7f02-7f03 r-xp 00000000 08:01 2  /usr/lib/libc.so.6\n"
    monkeypatch.setattr(aot_inductor, "mapped_files", lambda: maps)
    return maps


@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")
def test_calls_are_counted_and_kernels_named(library: str) -> None:
    on_gpu, on_cpu, before = Model("cuda"), Model("cpu"), AOTICompiledModel.__call__
    with session() as prof:
        launch_add()
        for _ in range(3):
            assert on_gpu(torch.zeros(2)).tolist() == on_cpu(torch.zeros(2)).tolist() == [1, 1]
    on_gpu(torch.zeros(2))
    assert AOTICompiledModel.__call__ is before
    said = [note for note in prof.metadata["notes"] if "AOTInductor" in note]
    assert len(said) == 1
    assert said[0].startswith("3 calls of models that AOTInductor has compiled went unrecorded")
    assert "(triton_per_fused_norm_1, triton_poi_fused_gelu_0)" in said[0]
    assert "torch.compile" in said[0]
    assert "profscope.export" in said[0]
    with session() as prof:
        launch_add()
        on_cpu(torch.zeros(2))
    assert not any("AOTInductor" in note for note in prof.metadata["notes"])


@pytest.mark.parametrize("cpp", [True, False])
def test_calls_of_graphs_with_the_cpp_wrapper_are_counted(cpp: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text as Inductor writes it for a GPU, shortened."""
    text = 'static CUfunction triton_poi_fused_mul_0 = loadKernel("/c.cubin", "triton_poi_fused_mul_0", 0);'
    graphs = ModuleType("torch._inductor.output_code")
    vars(graphs)["CompiledFxGraph"] = Graph
    monkeypatch.setitem(sys.modules, graphs.__name__, graphs)
    on_gpu, on_cpu, before = Graph("cuda", cpp, text), Graph("cpu", cpp, text), Graph.__call__
    with session() as prof:
        launch_add()
        assert [on_gpu([1]), on_gpu([2]), on_cpu([3])] == [[1], [2], [3]]
    assert Graph.__call__ is before
    said = [note for note in prof.metadata["notes"] if "cpp_wrapper" in note]
    assert len(said) == cpp
    for note in said:
        assert note.startswith(
            "2 calls of graphs that torch.compile made with cpp_wrapper=True went unrecorded"
        )
        assert "(triton_poi_fused_mul_0)" in note


def test_a_torch_without_these_classes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = ModuleType("torch._inductor.output_code")
    monkeypatch.setitem(sys.modules, graphs.__name__, graphs)
    with session() as prof:
        launch_add()
    version = torch.__version__
    assert (
        f"calls from C++ are not counted: torch {version} has no output_code.CompiledFxGraph"
        in (prof.metadata["notes"])
    )


def test_a_library_that_is_gone_names_nothing(library: str, tmp_path: Path) -> None:
    assert kernels_in(library) == ["triton_per_fused_norm_1", "triton_poi_fused_gelu_0"]
    assert kernels_in(library.replace("abc", "gone")) == []
    assert kernels_in("") == []


def test_an_empty_session_says_why(library: str) -> None:
    model: Any = Model("cuda")
    with pytest.warns(profscope.EmptyProfileWarning, match="AOTInductor"), session():
        model(torch.zeros(2))


def test_nothing_is_sampled_behind_protons_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files as a process on an H200 has them after `proton.start(mode=...)` and `proton.finalize()`."""
    traced = (
        "7f00-7f01 r-xp 0 08:01 1  /site/triton/_C/libproton.so\n"
        "7f02-7f03 r-xp 0 08:01 2  /site/triton/backends/nvidia/lib/cupti/libcupti.so\n"
    )
    sampled = traced + "7f04-7f05 r-xp 0 08:01 3  /usr/local/cuda-13.0/lib/libnvperf_host.so\n"
    monkeypatch.setattr(proton_sampling, "HAS_SAMPLED", set())
    assert proton_has_sampled(traced) == ""
    assert proton_has_sampled(sampled.replace("libproton", "libother")) == ""
    assert "pcsampling has been on in this process" in proton_has_sampled(sampled)
    monkeypatch.setattr(proton_sampling, "HAS_SAMPLED", {os.getpid()})
    assert proton_has_sampled(sampled) == ""  # the library is there since a session has sampled
