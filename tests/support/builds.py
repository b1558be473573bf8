"""Building a kernel as a launch on a GPU would, without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from triton.compiler import ASTSource, compile

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.programs import manifest_in
from profscope.dispatch.recording_stages import RecordingStages
from profscope.instrument_passes import cost, toolchain
from profscope.instrument_passes.manifest import Manifest
from profscope.options import Options
from tests.kernels import add
from tests.kernels.aot import gpu_target
from tests.kernels.spec import CUDA80, Spec

ADD = add.specs()[0]


def build(spec: Spec = ADD) -> Any:
    """Compile as a launch on a GPU would."""
    signature = dict(spec.signature) | dict.fromkeys(spec.constexprs, "constexpr")
    source = ASTSource(fn=spec.fn, signature=signature, constexprs=dict(spec.constexprs))
    return compile(source, target=gpu_target(CUDA80), options=dict(spec.options))


@contextmanager
def recording_builds(options: Options) -> Iterator[None]:
    """What this thread compiles within it gets records, as a session with these options compiles it."""
    with RecordedCompiler(options.digest("test"), RecordingStages(options)).recording():
        yield


@contextmanager
def cached_builds() -> Iterator[None]:
    """Within it a module whose cost is taken is built once; its text says all there is to it."""
    with pytest.MonkeyPatch.context() as patch:
        built = cache(toolchain.build)
        patch.setattr(cost, "build", built)
        yield


def manifest(kernel: Any) -> Manifest | None:
    """What a binary records, or None of a bare one."""
    return manifest_in(kernel.asm["ttgir"])
