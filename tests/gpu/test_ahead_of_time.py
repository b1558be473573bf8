"""Exported kernels, launched by the examples and decoded: as the same launch in a session."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

import profscope
from profscope.demo.kernels import softmax_kernel
from tests.support.validation import validate

_GPU = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not _GPU, reason="needs an NVIDIA GPU")]

EXAMPLE = Path(__file__).parents[2] / "examples" / "ahead_of_time"
SIGNATURE = {"out_ptr": "*fp32:16", "in_ptr": "*fp32:16", "rows": "i32", "cols": "i32:16", "BLOCK": 1024}
ROWS, COLS, CTAS = 512, 1024, 128
CUDA_H = Path(triton.__file__).parent / "backends" / "nvidia" / "include"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    profscope.export(softmax_kernel, SIGNATURE, folder / "softmax")
    return folder


def as_in_a_session(decoded: profscope.Profile) -> None:
    """The same spans of the same CTAs and warps; only clocks differ. rows is a multiple of 16 in a launch,
    which this kernel makes no use of."""
    x = torch.zeros((ROWS, COLS), device="cuda")
    with profscope.session(backend="gpu") as prof:
        softmax_kernel[(CTAS,)](torch.empty_like(x), x, ROWS, COLS, BLOCK=1024)
    columns = ["cta", "warp", "scope", "kind", "line", "iteration", "depth"]
    pairs = [each.tables.df[columns].sort_values(columns, ignore_index=True) for each in (decoded, prof)]
    assert len(pairs[0]) == len(pairs[1]) > 0
    assert (pairs[0] == pairs[1]).all(axis=None)
    assert decoded.launches["dropped"].sum() == 0
    assert validate(decoded.tables) == []
    ratio = [(each.launches["end_ns"] - each.launches["start_ns"]).item() for each in (decoded, prof)]
    print("launch, ns: exported and in a session", ratio)


def test_a_launcher_in_c(build: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    flags = ["-I", str(build), "-isystem", str(CUDA_H), "-l:libcuda.so.1"]
    subprocess.run([compiler, str(EXAMPLE / "launch.c"), "-o", str(tmp_path / "launch"), *flags], check=True)
    records = tmp_path / "softmax.records"
    subprocess.run([str(tmp_path / "launch"), str(build / "softmax.cubin"), str(records)], check=True)
    as_in_a_session(profscope.decode(records, build / "softmax.json"))


def test_a_launcher_by_ctypes(build: Path, tmp_path: Path) -> None:
    records = tmp_path / "softmax.records"
    command = [sys.executable, str(EXAMPLE / "launch.py"), str(build / "softmax.json"), str(records)]
    subprocess.run(command, check=True)
    as_in_a_session(profscope.decode(records, build / "softmax.json"))
