"""Launches taken out of a library's calls, and kernels with one line changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from bench import advice
from bench.advice import main
from bench.library_launches import Kernel, Launch, edited, launch_of, with_options


@triton.jit
def strided_kernel(x_ptr, out_ptr, steps, STRIDE: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """Sums every STRIDE-th element."""
    base = tl.program_id(0) * steps * BLOCK
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(steps):
        total += tl.load(x_ptr + (base + step * BLOCK + tl.arange(0, BLOCK)) * STRIDE)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


class Noted:
    """Stands for a kernel: notes how it is launched."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: self.launches.append((grid, args, kwargs))


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_library")
    vars(module)["kernel"] = Noted()
    monkeypatch.setitem(sys.modules, "a_library", module)
    return module


def test_a_launch_is_taken_out_of_a_call(library: ModuleType) -> None:
    kernel = library.kernel

    def call() -> None:
        library.kernel[(3,)](1, 2, BLOCK=8)
        library.kernel[(4,)](5, BLOCK=16)

    launch = launch_of(Kernel("a_library.kernel", lambda device, small: call), "cpu", True)
    assert library.kernel is kernel  # as it was
    assert (launch.grid, launch.args, launch.kwargs) == ((4,), (5,), {"BLOCK": 16})
    launch.changed(grid=(7,), num_warps=2)()
    assert kernel.launches[-1] == ((7,), (5,), {"BLOCK": 16, "num_warps": 2})
    with pytest.raises(RuntimeError, match="a_library kernel was not launched"):
        launch_of(Kernel("a_library.kernel", lambda device, small: lambda: None), "cpu", True)


def test_a_kernel_with_one_line_changed() -> None:
    launch = Launch(strided_kernel, (1,), (), {})
    changed = edited("range(steps)", "tl.range(steps, num_stages=3)", num_warps=2)(launch)
    assert isinstance(changed.kernel, triton.JITFunction)
    assert "for step in tl.range(steps, num_stages=3):" in changed.kernel.src
    assert changed.kernel.cache_key != strided_kernel.cache_key
    assert "num_stages" not in strided_kernel.src
    assert changed.kwargs == {"num_warps": 2}
    with pytest.raises(ValueError, match="strided_kernel has no 'while'"):
        edited("while", "for")(launch)


def _sums(library: ModuleType) -> Kernel:
    """A library's call that sums every second element; one of its changes is wrong."""
    vars(library)["kernel"] = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=2)], key=["steps"])(
        strided_kernel
    )

    def make(device: str, small: bool) -> Any:
        x, out = torch.ones(1024), torch.empty(128)
        return lambda: library.kernel[(2,)](x, out, 4, STRIDE=2)

    half = edited("range(steps)", "range(steps // 2)")
    return Kernel("a_library.kernel", make, {"half": half, "num_warps=1": with_options(num_warps=1)})


@pytest.mark.exhaustive
def test_advice_json_has_what_was_found_and_what_changes_bring(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(advice, "KERNELS", (_sums(library),))
    monkeypatch.setattr(advice, "is_installed", lambda name: True)
    assert main(["--dry-run", "--rounds", "1", "--out", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "advice.json").read_text())["rows"]
    assert len(row["findings"]) == len({(each["finding"], each["line"]) for each in row["findings"]}) > 0
    assert [(each["name"], each["same_results"]) for each in row["changes"]] == [
        ("half", False),
        ("num_warps=1", True),
    ]
    assert "half: " in (printed := capsys.readouterr().out)
    assert printed.count("OTHER RESULTS") == 1
