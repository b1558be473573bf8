"""Building a kernel as a launch on a GPU would, without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from triton import knobs
from triton.compiler import ASTSource, compile

from bench import static
from instrument_passes import cost, toolchain
from instrument_passes.manifest import Manifest
from instrument_passes.toolchain import triton_version
from profscope.recording.programs import manifest_in
from tests.kernels import add
from tests.kernels.aot import gpu_target
from tests.kernels.spec import CUDA80, Spec

__all__ = ["ADD", "build", "cached_builds", "manifest"]

ADD = add.specs()[0]


def build(spec: Spec = ADD) -> Any:
    """Compile as a launch on a GPU would; up to Triton 3.6 only a launch puts the mode into the options."""
    signature = dict(spec.signature) | dict.fromkeys(spec.constexprs, "constexpr")
    source = ASTSource(fn=spec.fn, signature=signature, constexprs=dict(spec.constexprs))
    options = dict(spec.options)
    if triton_version() < (3, 7):
        options["instrumentation_mode"] = knobs.compilation.instrumentation_mode
    return compile(source, target=gpu_target(CUDA80), options=options)


@contextmanager
def cached_builds() -> Iterator[None]:
    """Within it a module whose cost is taken is built once; its text says all there is to it."""
    with pytest.MonkeyPatch.context() as patch:
        built = cache(toolchain.build)
        for user in (cost, static):
            patch.setattr(user, "build", built)
        yield


def manifest(kernel: Any) -> Manifest | None:
    """What a binary records, or None of a bare one."""
    return manifest_in(kernel.asm["ttgir"])
