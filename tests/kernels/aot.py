"""Compile the test kernels for a target, with no GPU."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from tests.kernels.spec import Spec

__all__ = ["assembly", "compiled", "gpu_target", "ttgir"]


def gpu_target(target: str) -> GPUTarget:
    """`target` is "cuda:<capability>" or "hip:<gfx architecture>"."""
    backend, _, arch = target.partition(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def _source(spec: Spec) -> ASTSource:
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
    return compile(_source(spec), target=gpu_target(target), options=dict(spec.options))


def assembly(spec: Spec, target: str, stage: str) -> str:
    """One textual stage of the compilation: "ttir", "ttgir", "llir", "ptx" or "amdgcn"."""
    return str(compiled(spec, target).asm[stage])


def ttgir(spec: Spec, target: str) -> str:
    """The optimised TTGIR, as Triton prints it, locations included."""
    return assembly(spec, target, "ttgir")
