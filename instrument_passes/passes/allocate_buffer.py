"""allocate-buffer: the scratch allocation behind `profscope.buffer`, spelled as each Triton needs it.

Triton gives every CTA a slice of the launch's profile buffer; ours is as long as the program's tag, which
says nothing of what the CTA writes: the kernel finds its area itself (see `records.py`).

3.6 spells the op in the proton_gpu dialect; 3.7 as ttg with a `backend` attribute, which 3.6 would accept and
silently put into the *global* scratch; 3.8 and later as ttg with `third_party_allocation`. Up to 3.7 the
offset and the module's size attributes are written here, because the pass that would compute them aborts on
modules with several functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from instrument_passes.analyses.walk import kernel_of
from instrument_passes.context import TRITONS
from instrument_passes.dialect import BUFFER
from instrument_passes.errors import PassError
from instrument_passes.ir import Module, Op
from instrument_passes.manifest import Manifest
from instrument_passes.passes.base import ALLOCATES, Pass, PassContext, register
from instrument_passes.passes.lower_records import manifest_of

__all__ = ["AllocateBuffer"]


@register
@dataclass(frozen=True)
class AllocateBuffer(Pass):
    """The memory for the records, asked for as the Triton version at hand spells it.

    It comes last, behind lower-records.
    """

    name: ClassVar[str] = "allocate-buffer"
    rank: ClassVar[int] = ALLOCATES

    def apply(self, module: Module, context: PassContext) -> None:
        if context.triton not in TRITONS:
            major, minor = context.triton
            raise PassError(f"Triton {major}.{minor} is not supported; profscope knows 3.6 to 3.9")
        manifest = manifest_of(module)
        if manifest is None:
            raise PassError("no manifest; run lower-records before allocate-buffer")
        buffers = [op for op in kernel_of(module).walk() if op.name == BUFFER]
        if not buffers:
            raise PassError(f"no {BUFFER}; the module's buffer is allocated already")
        for op in buffers:
            self._allocate(op, module, manifest, context)

    def _allocate(self, op: Op, module: Module, manifest: Manifest, context: PassContext) -> None:
        if not op.results:
            raise op.error("expected a result")
        size = f"alignment = {manifest.tag} : i32, nbytes = {manifest.tag} : i32"
        if context.triton >= (3, 8):
            text = f"ttg.global_scratch_alloc {{{size}, third_party_allocation}}"
        elif context.triton == (3, 7):
            text = f'ttg.global_scratch_alloc {{backend = "proton", offset = 0 : i32, {size}}}'
        else:
            text = f"proton_gpu.global_scratch_alloc {{offset = 0 : i32, {size}}}"
        if context.triton < (3, 8):
            module.set_attr("ttg.profile_scratch_memory_size", f"{manifest.tag} : i32")
            module.set_attr("ttg.profile_scratch_memory_alignment", f"{manifest.tag} : i32")
        loc = op.loc_text
        op.replace_header(f"{op.results[0].name} = {text} : !tt.ptr<i8> {loc}".rstrip())
