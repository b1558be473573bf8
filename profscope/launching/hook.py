"""Puts the passes into Triton's compilation, on Triton 3.6 to 3.9, and takes them out again.

Per version: the `ttgir` stage is wrapped through `knobs.runtime.add_stages_inspection_hook` on all. Its
result enters the cache keys since 3.7; on 3.6 the digest of the options goes there by way of
`instrumentation_mode`, which later versions must not see: 3.9 drops a kernel's `maxnreg` where one is set. Up
to 3.7 the scratch op is lowered by a pass of Triton's proton library, which has to be put
into `make_llir` through `CUDABackend.instrumentation`; since 3.8 core does it.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from triton import knobs
from triton._C.libtriton import ir
from triton.compiler import ASTSource, CompiledKernel, compiler
from triton.runtime import jit

from instrument_passes.errors import InstrumentError
from instrument_passes.functions import Function, checked, functions_in
from instrument_passes.ir import parse
from instrument_passes.ir.tokens import quote
from instrument_passes.manifest import ATTRIBUTE, Manifest
from instrument_passes.passes.base import PassContext
from instrument_passes.passes.scope_spans import ScopeSpans
from instrument_passes.pipeline import run_pipeline
from instrument_passes.scope_notes import MARKER, without_markers
from instrument_passes.scope_tags import tag_scopes, without_points, without_scopes
from instrument_passes.toolchain import rejection, scratch_lowering, triton_version
from instrument_passes.unpacking import unpacked_late
from profscope.errors import CompileError, SessionError
from profscope.language import RECORDING
from profscope.launching.modes import conflict
from profscope.launching.proton_instrumentation import alone
from profscope.launching.proton_scopes import proton_scopes
from profscope.launching.rounding import Rounding
from profscope.options import Options
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS, describe, is_described, manifest_in, mode_of

__all__ = ["CompileHook", "instrument"]

_KERNEL: Final = re.compile(r'tt\.func public @"?([^\s"(]+)')


class CompileHook:
    """Installed for the length of a session. A kernel that cannot be instrumented stays bare, and its binary
    carries a manifest that says why.

    gives_way: ends the session where Proton's instrumentation begins; None: that is refused. mode: what tells
    its binaries from others.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.context = PassContext(triton_version())
        self.mode = mode_of(options)
        self._key = self.mode, self.mode
        self.gives_way: Callable[[], None] | None = None
        self._user_hook: Callable[..., Any] | None = None
        self._user_mode = ""
        self._asked = threading.local()  # since: when this thread has asked for the hook's part of cache keys
        self._since = object()

    @property
    def settings(self) -> dict[str, Any]:
        """What the settings that `bare.SETTINGS` names are for those who compile with it, while a session is
        open."""
        mode = self._user_mode
        if self.context.triton < (3, 7):
            mode = f"{mode},{self.mode}" if mode else self.mode
        return {"instrumentation_mode": mode, "add_stages_inspection_hook": self.inspect}

    def outside(self) -> dict[str, Any]:
        """What the settings that `bare.SETTINGS` names were when this was installed last."""
        return {"instrumentation_mode": self._user_mode, "add_stages_inspection_hook": self._user_hook}

    @property
    def portable(self) -> bool:
        """Whether another process can compile as this one does: no hook, mode or pass of the program's own
        is at work."""
        own = any(type(step).__module__ == "__main__" for step in self.options.pipeline)
        return self._user_hook is None and not self._user_mode and not own

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement.

        Raises SessionError if a hook is installed already, or an instrumentation mode that cannot be kept, or
        Proton's instrumentation.
        """
        hook = knobs.runtime.add_stages_inspection_hook
        if isinstance(getattr(hook, "__self__", None), CompileHook):
            raise SessionError("a profscope session is already active in this process; sessions do not nest")
        mode = knobs.compilation.instrumentation_mode
        if refused := conflict(mode, self.context.triton):
            raise SessionError(refused)
        self._user_hook, self._user_mode = hook, mode
        self._since = object()
        try:
            knobs.runtime.add_stages_inspection_hook = self.inspect
            if self.context.triton < (3, 7):
                knobs.compilation.instrumentation_mode = self.settings["instrumentation_mode"]
            checked = patched(CompiledKernel, "__init__", self._checked)
            with (
                alone(lambda: self.gives_way),
                scratch_lowering(self.context.triton),
                proton_scopes(),
                _files_in_cache_keys(),
                checked,
            ):
                yield
        finally:
            knobs.runtime.add_stages_inspection_hook = hook
            knobs.compilation.instrumentation_mode = mode

    def inspect(self, *args: Any) -> tuple[str, str] | None:
        """The inspection hook: without arguments it names itself for the cache keys, else wraps `ttgir`."""
        if not args:  # at every launch
            self._asked.since = self._since
            if self._user_hook is None:
                return self._key
            key, digest = self._user_hook()
            return f"{key}{self.mode}", f"{digest}{self.mode}"
        if self._user_hook is not None:
            self._user_hook(*args)
        _, stages, options = args[:3]
        if self.context.triton < (3, 7) and self.mode not in options.instrumentation_mode:
            return None  # a direct triton.compile: its cache key would not tell the two binaries apart
        if self.context.triton >= (3, 7) and getattr(self._asked, "since", None) is not self._since:
            return None  # this thread made the cache key of what it compiles before the hook was there
        object.__setattr__(options, RECORDING, True)  # a frozen dataclass, made for this compilation
        self._wrap(stages, conflict(options.instrumentation_mode, self.context.triton))
        return None

    def _checked(self, init: Callable[..., None]) -> Callable[..., None]:
        """CompiledKernel.__init__. Triton makes the key first and asks for the stages then: where the session
        has ended meanwhile, in another thread, what it keeps under the key is bare."""

        def made(kernel: CompiledKernel, *args: Any, **kwargs: Any) -> None:
            init(kernel, *args, **kwargs)
            hook = getattr(knobs.runtime.add_stages_inspection_hook, "__self__", None)
            if not isinstance(hook, CompileHook) or not isinstance(kernel.src, ASTSource):
                return
            if hook._keyed(kernel) and not is_described(kernel):
                PROGRAMS.disown(kernel, hook.mode)

        return made

    def _keyed(self, kernel: CompiledKernel) -> bool:
        """Whether the key of what this thread has just compiled, or found, names this hook."""
        if self.context.triton < (3, 7):
            return self.mode in kernel.metadata.instrumentation_mode
        return getattr(self._asked, "since", None) is self._since

    def _wrap(self, stages: dict[str, Callable[[Any, Any], Any]], refused: str) -> None:
        """Wrap one compilation: scopes are noted before its first stage, records put in behind TTGIR.

        refused: why the kernel gets no records, whatever it is; "" if it does.
        """
        make_ttgir, make_llir = stages["ttgir"], stages["llir"]
        rounding = Rounding(make_llir)
        stages["llir"] = lambda module, metadata: self._lowered(module, make_llir, metadata, rounding)
        functions: tuple[Function, ...] = ()  # those that the kernel is made of, before they are inlined

        def noted(source: Any) -> Any:
            nonlocal functions
            text = str(source)
            functions = checked(functions_in(text))
            return self._tagged(source, text)

        if "ttir" not in stages:  # Gluon, whose kernels are laid out and scheduled already

            def gluon(source: Any, metadata: Any) -> Any:
                module = make_ttgir(noted(source), metadata)
                return self._instrumented(module, functions, refused, rounding)

            stages["ttgir"] = gluon
            return
        make_ttir = stages["ttir"]
        points = ""  # the kernel before any optimisation, if it has marks or payloads

        def ttir(source: Any, metadata: Any) -> Any:
            nonlocal points
            tagged = noted(source)
            text = "" if tagged is source else str(tagged)
            points = text if MARKER in text else ""
            return make_ttir(tagged, metadata)

        def ttgir(source: Any, metadata: Any) -> Any:
            try:
                module = make_ttgir(source, metadata)
            except RuntimeError:
                if not points:
                    raise
                # Some of Triton's optimisations fail on assumptions, of which marks and payloads are made.
                plain = _reparse(without_points(points, _kernel_name(points)), source.context)
                module = make_ttgir(make_ttir(plain, metadata), metadata)
            return self._instrumented(module, functions, refused, rounding)

        stages |= {"ttir": ttir, "ttgir": ttgir}

    def _tagged(self, module: Any, text: str) -> Any:
        """A module before any optimisation, with its scopes noted in the locations of their ops.

        Raises CompileError for scopes that are not properly closed: unlike what passes cannot do, this is a
        mistake in the kernel.
        """
        if MARKER not in text:
            return module
        name = _kernel_name(text)
        wanted = any(isinstance(step, ScopeSpans) for step in self.options.pipeline)
        try:
            keep = wanted and self.options.matches(name)
            tagged = tag_scopes(text, name) if keep else without_scopes(text, name)
        except InstrumentError as error:
            raise CompileError(f"kernel {name}: {error}") from error
        return _reparse(tagged, module.context)

    def _lowered(
        self, module: Any, make_llir: Callable[[Any, dict[str, Any]], Any], metadata: dict[str, Any],
        rounding: Rounding,
    ) -> Any:  # fmt: skip
        """Lower a module, and state in its metadata what it records.

        Raises CompileError where others have put data into the buffer the records go to: the kernel would not
        find its place in it.
        """
        manifest, before = manifest_in(str(module)), dict(metadata)
        lowered = make_llir(module, metadata)
        scratch = metadata.get("profile_scratch_size", 0)
        if manifest is not None and manifest.sections and scratch != manifest.tag:
            raise CompileError(
                f"{manifest.kernel}: another instrumentation (Proton's, or a mode of Triton's) has put data "
                "of its own into the profile buffer, which holds the records; run it without a session"
            )
        describe(metadata, manifest, self.mode)
        lowered = rounding.as_bare(lowered, before)
        return unpacked_late(lowered) if isinstance(lowered, str) else lowered

    def _instrumented(
        self, module: Any, functions: tuple[Function, ...], refused: str, rounding: Rounding
    ) -> Any:
        """The module with the passes applied, or with a manifest that says why not."""
        text = str(module)
        rounding.bare = lambda: _reparse(without_markers(text), module.context)
        context = replace(self.context, functions=functions)
        try:
            if refused:
                raise CompileError(refused)
            rewritten = instrument(text, self.options, context)
            return module if rewritten is None else _reparse(rewritten, module.context)
        except (InstrumentError, CompileError) as error:
            failure = quote(Manifest(_kernel_name(text), "", 0, 0, 0, (), failure=str(error)).to_json())
            # Not by our own reader, which may be what failed. Triton's modules always have attributes.
            bare = text.replace("module attributes {", f"module attributes {{{ATTRIBUTE} = {failure}, ", 1)
            return _reparse(without_markers(bare), module.context)


def instrument(text: str, options: Options, context: PassContext) -> str | None:
    """The instrumented text of a printed TTGIR module; None if options.kernels leaves it out.

    Raises InstrumentError naming the pass, the op and the line.
    """
    name = _kernel_name(text)
    if not options.matches(name):
        return None
    module = parse(text, filename=name)
    run_pipeline(module, options.pipeline, context)
    return str(module)


@contextlib.contextmanager
def _files_in_cache_keys() -> Iterator[None]:
    """For the body of a with statement the key of an instrumented binary has the kernel's file.

    Triton's has its text and line alone: a copy of a function, or a file that was moved, would get a binary
    whose spans name the other file.
    """

    def wrapped(make_key: Callable[..., str]) -> Callable[..., str]:
        def key(source: Any, *args: Any, **kwargs: Any) -> str:
            plain = make_key(source, *args, **kwargs)
            hook = knobs.runtime.add_stages_inspection_hook
            code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
            if code is None or not isinstance(getattr(hook, "__self__", None), CompileHook):
                return plain
            return f"{plain}-{code.co_filename}"

        return key

    with patched(compiler, "get_cache_key", wrapped), patched(jit, "get_cache_key", wrapped):
        yield


def _kernel_name(text: str) -> str:
    match = _KERNEL.search(text)
    return match[1] if match else ""


def _reparse(text: str, context: Any) -> Any:
    """Parse and verify by Triton. Raises CompileError with Triton's diagnostic and the op it is about."""
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder) / "instrumented.ttgir"
        path.write_text(text)
        try:
            module = ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            raise CompileError(str(rejection(text, _kernel_name(text), context))) from error
    module.context = context
    return module
