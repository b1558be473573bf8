"""Libraries in which Inductor's C++ launches kernels, and what a session says of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import profscope
from profscope.compat import torch_parts
from profscope.compat.torch_parts import kernels_in
from profscope.dispatch import observing as proton_sampling
from profscope.dispatch.observing import proton_has_sampled
from tests.support.sessions import launch_add, session

LIBRARY = b"\x7fELF\0triton_poi_fused_gelu_0\0no_triton_poi_fused_1\0triton_per_fused_norm_1\0triton_poi\0"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "data" / "aotinductor" / "model" / "abc.wrapper.so"
    path.parent.mkdir(parents=True)
    path.write_bytes(LIBRARY)
    maps = f"7f00-7f01 r-xp 00000000 08:01 1  {path}\n7f02-7f03 r-xp 00000000 08:01 2  /usr/lib/libc.so.6\n"
    monkeypatch.setattr(torch_parts, "mapped_files", lambda: maps)
    return maps


def test_kernels_are_named_and_others_recorded(library: str) -> None:
    with session() as prof:
        launch_add()
    assert len(prof.launches) == 1
    (said,) = (note for note in prof.metadata["notes"] if "AOTInductor" in note)
    assert "(triton_per_fused_norm_1, triton_poi_fused_gelu_0)" in said
    assert "torch.compile" in said


def test_a_library_that_is_gone_names_nothing(library: str, tmp_path: Path) -> None:
    assert kernels_in(library) == ["triton_per_fused_norm_1", "triton_poi_fused_gelu_0"]
    assert kernels_in(library.replace("abc", "gone")) == []
    assert kernels_in("") == []


def test_libraries_of_cpp_wrapper_are_known_by_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)  # Inductor sets it once it knows its folder
    for folder in ("torchinductor_me/ab", "torchinductor_me/triton/0", "elsewhere"):
        path = tmp_path / folder / "main.so"
        path.parent.mkdir(parents=True)
        path.write_bytes(LIBRARY.replace(b"gelu", folder[-2:].encode()))
    maps = "\n".join(f"7f00-7f01 r-xp 0 08:01 1  {path}" for path in tmp_path.rglob("*.so"))
    assert kernels_in(maps) == ["triton_per_fused_norm_1", "triton_poi_fused_ab_0"]
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert "triton_poi_fused_re_0" in kernels_in(maps)


@pytest.mark.usefixtures("library")
def test_an_empty_session_says_why() -> None:
    with pytest.warns(profscope.EmptyProfileWarning, match="AOTInductor"), session():
        pass


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
