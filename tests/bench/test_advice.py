"""Launches taken out of a library's calls, and kernels with one line changed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import triton

from bench.advice import main
from bench.library_launches import Kernel, Launch, edited, launch_of
from bench.planted_kernels import strided_kernel


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


def test_without_a_gpu_it_says_how_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "--dry-run" in capsys.readouterr().err
