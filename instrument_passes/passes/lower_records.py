"""lower-records: turns the profscope dialect into clock reads and batched stores.

The scheme, per warp program (section): every record becomes a clock read into a register; every fourth,
the four oldest go out as one 16-byte store by one lane, between spans where possible, so that nothing
waits for a fresh clock. Which word of a row a clock lands in is static. A loop body that holds records
gets a frame (see `records.py`): a row counter is carried through the loop, the row's address follows from
it, and the parent's row stores the counter after the loop. In an `scf.if` the clocks leave the region as
results, zero where it did not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profscope.instrument_passes.analyses.places import Places, call_paths
from profscope.instrument_passes.analyses.walk import kernel_of
from profscope.instrument_passes.dialect import BUFFER
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Module, Op, flow
from profscope.instrument_passes.ir.tokens import quote, unquote
from profscope.instrument_passes.lowering.builder import SectionBuilder, fill_holes
from profscope.instrument_passes.lowering.calls import expand_calls
from profscope.instrument_passes.lowering.prologue import Area, Program
from profscope.instrument_passes.lowering.unrecorded_body import can_have_one, join, without_records
from profscope.instrument_passes.lowering.weave import weave_kernel, weave_partition
from profscope.instrument_passes.manifest import ATTRIBUTE, Manifest, layout
from profscope.instrument_passes.ops import uncovered
from profscope.instrument_passes.passes import ALLOCATES, LOWERS, TRITONS, Pass, PassContext, register
from profscope.instrument_passes.records import align
from profscope.instrument_passes.scopes import notes_of
from profscope.instrument_passes.selection import MAX_LISTED, Selection
from profscope.instrument_passes.targets import target_of

__all__ = ["AllocateBuffer", "LowerRecords", "manifest_of", "warps_of"]

# Triton pads the warps of a warp-specialised kernel to whole warp groups.
_WARP_GROUP = 4
_MAX_WARPS = 32  # of a CTA, which has 1024 threads at most


@register
@dataclass(frozen=True)
class LowerRecords(Pass):
    """Clock reads, batched stores and row counters for every record of the module.

    It also writes the manifest that decodes them. Without options one CTA of every 2^s records; the launch
    sets s.

    ctas: only CTAs with these linear ids.

    unrecorded: CTAs that do not record run a copy of the kernel without records, at the bare kernel's speed,
    and store their begin, end and SM. Kernels that are warp-specialised or clustered, call functions, use
    tensor memory, or have assembly with labels or registers outside of braces get no copy.
    """

    name: ClassVar[str] = "lower-records"
    rank: ClassVar[int] = LOWERS
    ctas: tuple[str, ...] = ()
    unrecorded: bool = False

    def __post_init__(self) -> None:
        _numbers("ctas", self.ctas, 1 << 31)

    def apply(self, module: Module, context: PassContext) -> None:
        kernel = kernel_of(module)
        target = target_of(module)
        specialised = [op for op in kernel.walk() if op.name == "ttg.warp_specialize"]
        base_warps, warps = module.integer("ttg.num-warps"), warps_of(module, kernel)
        selection = Selection(_numbers("ctas", self.ctas, 1 << 31))
        said = [_uncovered_note(op) for op in uncovered(module)]
        bare = without_records(module, kernel) if self.unrecorded and can_have_one(module, kernel) else []
        calls, left_out = expand_calls(module, kernel, Places(context.functions))
        notes = (*notes_of(module), *said, *left_out)
        program = Program(
            module, kernel, target, selection, calls,
            Places(context.functions, calls),
            marked=bool(specialised), wide=context.triton >= (3, 8), stamps=self.unrecorded, shared=not bare,
        )  # fmt: skip
        area = Area.fresh(module)
        body = SectionBuilder(0, "kernel", base_warps)
        sections, groups = [body], [0]
        for group, op in enumerate(specialised, start=1):
            for index, own_warps in enumerate(_partition_warps(op)):
                sections.append(SectionBuilder(len(sections), f"partition{index}", own_warps))
                groups.append(group)
        weave_kernel(program, body, area)
        rest = iter(sections[1:])
        for op in specialised:
            addresses = flow.add_capture(op, area.address, "i64")
            flags = flow.add_capture(op, area.settled, "i32")
            for region, address, flag in zip(op.regions[1:], addresses, flags, strict=True):
                weave_partition(program, next(rest), Area(address, flag), region)
        if bare:
            join(program, bare)
        paths = call_paths((s.attributes.name, s.place) for each in sections for s in each.spans.values())
        placed, fixed_bytes, ring_bytes = layout([s.finish(paths) for s in sections], groups)
        manifest = Manifest(
            kernel.symbol or "",
            target.name,
            warps,
            fixed_bytes,
            ring_bytes,
            placed,
            notes,
            selection=selection,
            twin=bool(bare),
            stamps=self.unrecorded,
        )
        fill_holes(module, manifest)
        module.set_attr(ATTRIBUTE, quote(manifest.to_json()))


def manifest_of(module: Module) -> Manifest | None:
    """The manifest in a module's attribute, None if it has none. Raises ManifestError if it is not one."""
    text = module.attr(ATTRIBUTE)
    if text is None:
        return None
    return Manifest.from_json(unquote(text))


def warps_of(module: Module, kernel: Op) -> int:
    """Warps of a CTA, partitions included. Raises PassError if it cannot have so many."""
    specialised = [op for op in kernel.walk() if op.name == "ttg.warp_specialize"]
    warps = module.integer("ttg.num-warps") + max(
        (sum(_partition_warps(op)) for op in specialised), default=0
    )
    if specialised:
        warps = align(warps, _WARP_GROUP)
    if not 1 <= warps <= _MAX_WARPS:
        raise PassError(f"the module has {warps} warps; a CTA has 1 to {_MAX_WARPS}")
    return warps


def _uncovered_note(op: Op) -> str:
    where = f"{op.loc.file}:{op.loc.line}" if op.loc.line else f"line {op.line} of its TTGIR"
    return f"{op.name} ({where}) is not in the table of ops, so spans of ops leave it out"


def _numbers(name: str, texts: tuple[str, ...], bound: int) -> tuple[int, ...]:
    """The distinct numbers of a list option, ascending."""
    if len(texts) > MAX_LISTED:
        raise ValueError(f"{name} lists {len(texts)} of at most {MAX_LISTED}")
    for text in texts:
        if not text.isdecimal() or int(text) >= bound:
            raise ValueError(f"{name}: {text!r} is not a number from 0 to {bound - 1}")
    return tuple(sorted({int(text) for text in texts}))


def _partition_warps(op: Op) -> list[int]:
    return [partition.num_warps for partition in flow.partitions(op)]


# allocate-buffer: the scratch allocation behind `profscope.buffer`, spelled as each Triton needs it.
#
# Triton gives every CTA a slice of the launch's profile buffer; ours is as long as the program's tag, which
# says nothing of what the CTA writes: the kernel finds its area itself (see `records.py`).
#
# 3.6 spells the op in the proton_gpu dialect; 3.7 as ttg with a `backend` attribute, which 3.6 would accept
# and silently put into the *global* scratch; 3.8 and later as ttg with `third_party_allocation`. Up to 3.7
# the offset and the module's size attributes are written here, because the pass that would compute them
# aborts on modules with several functions.


@register
@dataclass(frozen=True)
class AllocateBuffer(Pass):
    """Requests the memory for the records, in the spelling of the Triton version in use.

    It comes last, after lower-records.
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
        if not manifest.sections:
            return  # nothing is stored
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
