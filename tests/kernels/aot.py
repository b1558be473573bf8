"""Compile the test kernels for a target, with no GPU."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile, make_backend

from tests.kernels.spec import Spec

_FP_FUSION = {"enable_fp_fusion": True}  # Triton 3.9 warns where it is left to the default


def gpu_target(target: str) -> GPUTarget:
    """`target` is "cuda:<capability>" or "hip:<gfx architecture>"."""
    backend, _, arch = target.partition(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def ast_source(spec: Spec) -> ASTSource:
    attrs: dict[Any, Any] = {
        (spec.fn.arg_names.index(name),): [["tt.divisibility", 16]] for name in spec.aligned
    }
    signature = {name: spec.signature.get(name, "constexpr") for name in spec.fn.arg_names}
    kind = ASTSource
    if getattr(spec.fn, "is_gluon", lambda: False)():
        from triton.experimental.gluon._runtime import GluonASTSource

        kind = GluonASTSource
    return kind(fn=spec.fn, signature=signature, constexprs=dict(spec.constexprs), attrs=attrs)


def compiled(spec: Spec, target: str) -> Any:
    """Triton's CompiledKernel of `spec`; its `asm` has ttir, ttgir, llir, ptx or amdgcn, and the binary."""
    return compile(ast_source(spec), target=gpu_target(target), options=_FP_FUSION | dict(spec.options))


def assembly(spec: Spec, target: str, stage: str) -> str:
    """One textual stage of the compilation: "ttir", "ttgir", "llir", "ptx" or "amdgcn"."""
    return str(compiled(spec, target).asm[stage])


def context_for(target: str) -> ir.context:
    """A context with every dialect that modules for `target` use."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(gpu_target(target)).load_dialects(context)
    return context


def ttgir(spec: Spec, target: str) -> str:
    """The optimised TTGIR as Triton prints it, locations included; the later stages are not run."""
    return once_a_run("ttgir", spec, target, lambda: lowered(spec, target, "ttgir")[0]["ttgir"])


def once_a_run(what: str, spec: Spec, target: str, make: Callable[[], str]) -> str:
    """A text made of a kernel for a target, kept in Triton's cache folder, which a run's processes share.

    It is made anew where a stages hook is installed. Whoever sets Triton's knobs must call `lowered` instead.
    """
    if knobs.runtime.add_stages_inspection_hook is not None:
        return make()
    parts = (what, spec.fn.cache_key, spec.signature, spec.constexprs, spec.options, spec.aligned, target)
    path = Path(knobs.cache.dir) / "tests" / hashlib.sha256(repr(parts).encode()).hexdigest()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        mine = path.with_name(f"{path.name}.{os.getpid()}")
        mine.write_text(make())
        mine.replace(path)
    return path.read_text()


def lowered(
    spec: Spec, target: str, last: str, options: Mapping[str, Any] | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """The text after each stage up to `last`, by the stage's name, and the metadata that the stages leave."""
    source = ast_source(spec)
    backend = make_backend(gpu_target(target))
    if knobs.runtime.add_stages_inspection_hook is not None:
        knobs.runtime.add_stages_inspection_hook()  # as Triton asks for its part of the cache key
    parsed = backend.parse_options(
        _FP_FUSION | dict(spec.options) | source.parse_options() | dict(options or {})
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    context = context_for(target)
    module = source.make_ir(
        gpu_target(target),
        parsed,
        backend.get_codegen_implementation(parsed),
        backend.get_module_map(),
        context,
    )
    metadata = {"target": gpu_target(target), **parsed.__dict__}
    texts = {}
    names = list(stages)
    for name in names[names.index(source.ext) : names.index(last) + 1]:
        module = stages[name](module, metadata)
        texts[name] = str(module)
    return texts, metadata
