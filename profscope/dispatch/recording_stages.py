"""Puts the passes into one of Triton's compilations: scopes are noted before its first stage, records are
inserted behind the TTGIR optimisations, and the LLVM IR rounds as the bare kernel's does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from profscope.compat.compiling import conflict
from profscope.compat.programs import describe, manifest_in
from profscope.errors import CompileError, ScopeError
from profscope.instrument_passes.errors import InstrumentError
from profscope.instrument_passes.functions import Function, checked, functions_in
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.llvm_ir import corrected
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.scope_spans import ScopeSpans
from profscope.instrument_passes.pipeline import run_pipeline
from profscope.instrument_passes.scopes import (
    MARKER,
    tag_scopes,
    without_markers,
    without_points,
    without_scopes,
)
from profscope.instrument_passes.toolchain import parsed, rejection, triton_version
from profscope.language import RECORDING
from profscope.options import Options

__all__ = ["RecordingStages", "instrument"]

_KERNEL: Final = re.compile(r'tt\.func public @"?([^\s"(]+)')


class RecordingStages:
    """Of all compilations of a session. They raise InstrumentError or CompileError if a kernel cannot be
    recorded."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._context = PassContext(triton_version())

    def __call__(self, backend: Any, stages: dict[str, Any], options: Any) -> None:
        """Replace the stages of one compilation. options: of Triton's backend."""
        if refused := conflict(options.instrumentation_mode, self._context.triton):
            raise CompileError(refused)
        object.__setattr__(options, RECORDING, True)  # a frozen dataclass, made for this compilation
        _Compilation(self._options, self._context, stages).wrap()


class _Compilation:
    """One compilation. stages: Triton's, which `wrap` replaces."""

    def __init__(self, options: Options, context: PassContext, stages: dict[str, Any]) -> None:
        self._options = options
        self._context = context
        self._stages = stages
        self._make = dict(stages)
        self._bare: Callable[[], Any] | None = None  # makes a module of the TTGIR as it is before the passes
        self._functions: tuple[Function, ...] = ()  # those that the kernel is made of, before inlining
        self._with_points = ""  # the kernel before any optimisation, if it has marks or payloads

    def wrap(self) -> None:
        self._stages["llir"] = self._llir
        if "ttir" not in self._stages:  # Gluon, whose kernels are laid out and scheduled already
            self._stages["ttgir"] = self._gluon
            return
        self._stages |= {"ttir": self._ttir, "ttgir": self._ttgir}

    def _gluon(self, source: Any, metadata: Any) -> Any:
        return self._instrumented(self._make["ttgir"](self._noted(source), metadata))

    def _ttir(self, source: Any, metadata: Any) -> Any:
        tagged = self._noted(source)
        text = "" if tagged is source else str(tagged)
        self._with_points = text if MARKER in text else ""
        return self._make["ttir"](tagged, metadata)

    def _ttgir(self, source: Any, metadata: Any) -> Any:
        try:
            module = self._make["ttgir"](source, metadata)
        except RuntimeError:
            if not self._with_points:
                raise
            # Some of Triton's optimisations fail on assumptions, of which marks and payloads are made.
            text = without_points(self._with_points, _kernel_name(self._with_points))
            plain = _reparse(text, source.context)
            module = self._make["ttgir"](self._make["ttir"](plain, metadata), metadata)
        return self._instrumented(module)

    def _llir(self, module: Any, metadata: dict[str, Any]) -> Any:
        """Lower a module, and state in its metadata what it records.

        Raises CompileError if others have put data into the buffer that the records go to.
        """
        manifest, before = manifest_in(str(module)), dict(metadata)
        lowered = self._make["llir"](module, metadata)
        if manifest is not None:
            scratch = metadata.get("profile_scratch_size", 0)
            if manifest.sections and scratch != manifest.tag:
                raise CompileError(
                    f"{manifest.kernel}: another instrumentation (Proton's, or a mode of Triton's) has put "
                    "data of its own into the profile buffer, which holds the records; end it first"
                )
            describe(metadata, manifest)
        if not isinstance(lowered, str):
            return lowered
        bare = self._bare
        return corrected(lowered, bare and (lambda: str(self._make["llir"](bare(), before))))

    def _noted(self, module: Any) -> Any:
        """A module before any optimisation, with its scopes noted in the locations of their ops."""
        text = str(module)
        self._functions = checked(functions_in(text))
        if MARKER not in text:
            return module
        name = _kernel_name(text)
        try:
            if any(isinstance(step, ScopeSpans) for step in self._options.pipeline):
                tagged = tag_scopes(text, name)
            else:
                tagged = without_scopes(text, name)
        except InstrumentError as error:
            raise ScopeError(f"kernel {name}: {error}") from error
        return _reparse(tagged, module.context)

    def _instrumented(self, module: Any) -> Any:
        """The module with the passes applied."""
        text = str(module)
        self._bare = lambda: _reparse(without_markers(text), module.context)
        context = replace(self._context, functions=self._functions)
        return _reparse(instrument(text, self._options, context), module.context)


def instrument(text: str, options: Options, context: PassContext) -> str:
    """A printed TTGIR module with records. Raises InstrumentError naming the pass, the op and the line."""
    module = parse(text, filename=_kernel_name(text))
    run_pipeline(module, options.pipeline, context)
    return str(module)


def _kernel_name(text: str) -> str:
    match = _KERNEL.search(text)
    return match[1] if match else ""


def _reparse(text: str, context: Any) -> Any:
    """Parse and verify by Triton. Raises CompileError with Triton's diagnostic and the op it is about."""
    try:
        return parsed(text, context)
    except RuntimeError as error:
        raise CompileError(str(rejection(text, _kernel_name(text), context))) from error
