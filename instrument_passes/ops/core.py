"""Triton's own dialects, for every target: tt, ttg, gluon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops.info import OpInfo, rows

__all__ = ["ROWS"]

_TT: Final = {
    "tt.load": OpInfo("load", "load", moves="result"),
    "tt.descriptor_load": OpInfo("load", "descriptor load", moves="result"),
    "tt.descriptor_gather": OpInfo("load", "descriptor gather", moves="result"),
    "tt.store": OpInfo("store", "store", moves="pointee"),
    "tt.descriptor_store": OpInfo("store", "descriptor store", moves="last"),
    "tt.descriptor_scatter": OpInfo("store", "descriptor scatter", moves="last"),
    "tt.descriptor_reduce": OpInfo("store", "descriptor reduce", moves="last"),
    "tt.atomic_rmw": OpInfo("atomic", "atomic", moves="result"),
    "tt.atomic_cas": OpInfo("atomic", "atomic cas", moves="result"),
    "tt.atomic_load": OpInfo("atomic", "atomic load", moves="result"),
    "tt.atomic_store": OpInfo("atomic", "atomic store", moves="pointee"),
    "tt.atomic_poll": OpInfo("wait", "atomic poll", completes=True),
    "tt.dot": OpInfo("mma", "dot", flops="dot"),
    "tt.dot_scaled": OpInfo("mma", "dot scaled", flops="dot"),
    "tt.reduce": OpInfo("reduce", "reduce"),
    "tt.scan": OpInfo("reduce", "scan"),
    "tt.histogram": OpInfo("reduce", "histogram"),
    "tt.gather": OpInfo("reduce", "gather"),
    "tt.call": OpInfo("call", "call", completes=True),
    "tt.make_tensor_descriptor": OpInfo("descriptor", "make descriptor"),
    "tt.grid_dependency_wait": OpInfo("wait", "grid dependency wait", completes=True),
    "tt.grid_dependency_launch_dependents": OpInfo("barrier", "launch dependents"),
    "tt.elementwise_inline_asm": OpInfo("elementwise", "inline asm"),
    "tt.extern_elementwise": OpInfo("math", "extern"),
    "tt.map_elementwise": OpInfo("elementwise", "map elementwise"),
    "tt.print": OpInfo("debug", "print"),
    "tt.assert": OpInfo("debug", "assert"),
    **rows("elementwise", "tt", "clampf mulhiui"),
    **rows("math", "tt", "approx_divf precise_divf precise_sqrt"),
    **rows("convert", "tt", "fp_to_fp"),
    **rows(
        "view",
        "tt",
        "addptr advance bitcast broadcast cat expand_dims int_to_ptr join make_range make_tensor_ptr "
        "ptr_to_int reshape splat split trans unsplat",
    ),
    **rows("scalar", "tt", "get_num_programs get_program_id"),
    **rows("control", "tt", "func return reduce.return scan.return map_elementwise.return"),
}
_TTG: Final = {
    "ttg.async_copy_global_to_local": OpInfo(
        "async_copy",
        "async copy",
        partners=("ttg.async_wait", "ttng.async_copy_mbarrier_arrive"),
        moves="pointee",
    ),
    "ttg.async_commit_group": OpInfo("async_copy", "commit group", partners=("ttg.async_wait",)),
    "ttg.async_wait": OpInfo("wait", "async wait", completes=True),
    "ttg.barrier": OpInfo("barrier", "barrier", completes=True),
    "ttg.local_barrier": OpInfo("barrier", "barrier", completes=True),
    "ttg.convert_layout": OpInfo("layout", "convert layout", moves="result"),
    "ttg.local_load": OpInfo("local", "local load", moves="result"),
    "ttg.local_store": OpInfo("local", "local store", moves="first"),
    "ttg.local_alloc": OpInfo("local", "local alloc", moves="first"),
    "ttg.local_gather": OpInfo("local", "local gather", moves="result"),
    "ttg.local_scatter": OpInfo("local", "local scatter", moves="tensor"),
    "ttg.local_atomic_scatter_rmw": OpInfo("atomic", "local atomic", moves="tensor"),
    "ttg.global_scratch_alloc": OpInfo("alloc", "scratch alloc"),
    "ttg.inline_asm": OpInfo("elementwise", "inline asm"),
    **rows("alloc", "ttg", "local_dealloc"),
    **rows("convert", "ttg", "fp4_to_fp"),
    **rows("view", "ttg", "memdesc_index memdesc_reinterpret memdesc_reshape memdesc_subslice memdesc_trans"),
    **rows("scalar", "ttg", "warp_id predicate_stage"),
    **rows(
        "control", "ttg", "mask mask.return warp_return warp_specialize warp_specialize.partitions warp_yield"
    ),
}
ROWS: Final[Mapping[str, OpInfo]] = {**_TT, **_TTG, **rows("layout", "gluon", "set_auto_layout")}
