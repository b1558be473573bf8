"""Every run has its own Triton cache, and every test must leave Triton as it found it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where it is left open

import hypothesis
import pytest
import torch
import triton
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import CompiledKernel
from triton.runtime import _allocation, driver

# A deadline would make a busy machine fail a right program.
hypothesis.settings.register_profile("profscope", deadline=None, print_blob=True)
hypothesis.settings.load_profile("profscope")

_HOOKS = ("launch_enter_hook", "launch_exit_hook", "kernel_load_start_hook", "kernel_load_end_hook")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--expect-triton", metavar="X.Y.Z", help="stop unless this Triton is the one imported")


def pytest_configure(config: pytest.Config) -> None:
    expected = config.getoption("--expect-triton")
    if expected and triton.__version__ != expected:
        raise pytest.UsageError(
            f"expected Triton {expected}, imported {triton.__version__} ({triton.__file__})"
        )


def pytest_report_header() -> str:
    return f"triton {triton.__version__}, torch {torch.__version__}, GPU: {torch.cuda.is_available()}"


@pytest.fixture(scope="session", autouse=True)
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Triton's cache folder, new in each run: nothing compiled by another version of the passes is found."""
    folder = tmp_path_factory.mktemp("triton-cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder


def triton_globals() -> dict[str, Any]:
    """Everything in Triton that is process-wide and that profscope touches."""
    found: dict[str, Any] = {
        "stages hook": knobs.runtime.add_stages_inspection_hook,
        "instrumentation mode": knobs.compilation.instrumentation_mode,
        "CompiledKernel": (CompiledKernel.__init__, CompiledKernel.__getitem__),
        "CUDABackend.instrumentation": getattr(CUDABackend, "instrumentation", None),
        "profile allocator": _allocation._profile_allocator.get(),
        "allocator": _allocation._allocator.get(),
        # The default driver comes to life on first use; that is no change.
        "driver": None if driver._active is driver._default else driver._active,
    }
    for name in _HOOKS:
        hook = getattr(knobs.runtime, name)
        found[name] = list(hook.calls) if isinstance(hook, knobs.HookChain) else hook
    return found


@pytest.fixture(autouse=True)
def triton_is_left_as_found() -> Iterator[None]:
    before = triton_globals()
    yield
    assert triton_globals() == before
