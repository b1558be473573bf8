"""The table of ops: class, name shown, meaning of the end of a span, bytes and FLOPs.

A span around an op covers its issue: the warp goes on as soon as the instructions are issued, unless the op
itself waits (`OpInfo.completes`). The table knows every op of Triton's dialects from 3.6 to 3.9, also those
without time of their own, so that an op without a row is news: `lower-records` notes it in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from profscope.instrument_passes.ir import Module, Op

__all__ = ["CLASSES", "DEFAULT_CLASSES", "OPS", "SPANNABLE", "OpInfo", "info_of", "uncovered"]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """A profiler's facts about an op.

    cls: one of CLASSES; label: the name shown. completes: a span on the op ends when its effect is done;
    otherwise it covers issue only: the warp goes on while the effect is under way. partners: the ops that
    finish what this one starts asynchronously. moves: which printed type tells the bytes moved, see
    `metrics.bytes_of`; flops: which rule tells the floating-point operations, see `metrics.flops_of`.
    """

    cls: str
    label: str
    completes: bool = False
    partners: tuple[str, ...] = ()
    moves: str = ""
    flops: str = ""


# Class -> what it covers, for `op-spans{classes=...}` and `profscope opt --coverage`.
CLASSES: Final[Mapping[str, str]] = {
    "load": "global loads",
    "store": "global stores",
    "atomic": "atomics on global or shared memory",
    "async_copy": "asynchronous copies between global, shared and tensor memory (cp.async, TMA, TDM)",
    "wait": "waits for asynchronous work: copies, phases of barriers, tensor cores, other kernels",
    "mma": "dots and tensor-core instructions",
    "barrier": "barriers, their set-up and arrivals, fences, locks",
    "reduce": "reductions, scans, histograms, gathers across lanes and warps",
    "layout": "layout conversions through shared memory or shuffles",
    "local": "loads, stores and copies of shared and tensor memory",
    "call": "calls of device functions",
    "descriptor": "building, changing and publishing tensor descriptors",
    "math": "functions, divisions and roots of tensors: many instructions an element",
    "convert": "conversions of the elements of tensors to other types",
    "elementwise": "other arithmetic on tensors, inline assembly",
    "alloc": "reserving shared, tensor or scratch memory: no time of its own",
    "debug": "prints, assertions, checks of sanitizers",
    "view": "other shapes and addresses of values: address arithmetic at most",
    "scalar": "scalars: program ids, constants, loop arithmetic",
    "control": "loops, branches, functions, partitions and their terminators",
    "hint": "hints to the compiler's scheduling: no instruction",
}
# What `op-spans` records unless told otherwise, and what it can record: ops that have time of their own.
DEFAULT_CLASSES: Final = (
    "load", "store", "atomic", "async_copy", "wait", "mma", "barrier", "reduce", "layout", "local", "call",
    "descriptor",
)  # fmt: skip
SPANNABLE: Final = (*DEFAULT_CLASSES, "math", "convert", "elementwise", "debug")


def _rows(cls: str, prefix: str, names: str) -> dict[str, OpInfo]:
    """Rows of plain ops of one class, labelled with their own names."""
    return {f"{prefix}.{name}": OpInfo(cls, name.replace("_", " ")) for name in names.split()}


# Dialects of every target: Triton's own (tt, ttg, gluon), MLIR's, and those that instrumentation inserts.

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
    **_rows("elementwise", "tt", "clampf mulhiui"),
    **_rows("math", "tt", "approx_divf precise_divf precise_sqrt"),
    **_rows("convert", "tt", "fp_to_fp"),
    **_rows(
        "view",
        "tt",
        "addptr advance bitcast broadcast cat expand_dims int_to_ptr join make_range make_tensor_ptr "
        "ptr_to_int reshape splat split trans unsplat",
    ),
    **_rows("scalar", "tt", "get_num_programs get_program_id"),
    **_rows("control", "tt", "func return reduce.return scan.return map_elementwise.return"),
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
    **_rows("alloc", "ttg", "local_dealloc"),
    **_rows("convert", "ttg", "fp4_to_fp"),
    **_rows(
        "view", "ttg", "memdesc_index memdesc_reinterpret memdesc_reshape memdesc_subslice memdesc_trans"
    ),
    **_rows("scalar", "ttg", "warp_id predicate_stage"),
    **_rows(
        "control", "ttg", "mask mask.return warp_return warp_specialize warp_specialize.partitions warp_yield"
    ),
}


# Dialects that MLIR brings: arith, math, scf, cf, ub, gpu, and what is printed of llvm and rocdl.

_UPSTREAM: Final = {
    **_rows(
        "elementwise",
        "arith",
        "addf addi addui_extended andi cmpf cmpi maximumf maxnumf maxsi maxui minimumf minnumf minsi "
        "minui mulf muli mulsi_extended mului_extended negf ori select shli shrsi shrui subf subi "
        "subui_extended xori",
    ),
    **_rows("math", "arith", "ceildivsi ceildivui divf divsi divui floordivsi remf remsi remui"),
    **_rows(
        "convert",
        "arith",
        "convertf extf extsi extui fptosi fptoui scaling_extf scaling_truncf sitofp truncf trunci uitofp",
    ),
    **_rows("view", "arith", "bitcast index_cast index_castui"),
    **_rows("scalar", "arith", "constant"),
    **_rows("elementwise", "arith", "flush_denormals"),
    **_rows(
        "elementwise", "math", "absf absi clampf copysign ctlz ctpop cttz fma isfinite isinf isnan isnormal"
    ),
    **_rows(
        "math",
        "math",
        "acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor fpowi "
        "ipowi log log10 log1p log2 powf round roundeven rsqrt sin sincos sinh sqrt tan tanh trunc",
    ),
    **_rows(
        "control",
        "scf",
        "condition execute_region for forall forall.in_parallel if index_switch parallel reduce "
        "reduce.return while yield",
    ),
    **_rows("control", "cf", "br cond_br switch"),
    **_rows("control", "ub", "unreachable"),
    **_rows("scalar", "ub", "poison"),
    **_rows("debug", "cf", "assert"),
    "gpu.barrier": OpInfo("barrier", "barrier", completes=True),
    **_rows("scalar", "gpu", "block_id block_dim grid_dim thread_id lane_id subgroup_id cluster_id"),
    **_rows("hint", "rocdl", "s.setprio sched.barrier sched.group.barrier iglp.opt"),
    "rocdl.s.barrier": OpInfo("barrier", "barrier", completes=True),
    "rocdl.s.waitcnt": OpInfo("wait", "wait count", completes=True),
    **_rows("hint", "llvm", "intr.assume"),
}


# Ops that instrumentation inserts: Triton's sanitizers (tti), its profiler (proton), and ours.

_GSAN: Final = (
    "atomic_cas atomic_load atomic_poll atomic_rmw atomic_store atomic_tensor_access "
    "atomic_tensordesc_access cluster_barrier_init cluster_barrier_sync grid_dependency_wait "
    "indexed_tensordesc_access init kernel_exit mbarrier_arrive mbarrier_init mbarrier_table_init "
    "mbarrier_wait tensor_access tensordesc_access tensordesc_info"
)

_INSTRUMENTATION: Final = {
    **_rows("debug", "tti", " ".join(f"experimental_gsan_{name}" for name in _GSAN.split())),
    **_rows(
        "debug",
        "tti",
        "experimental_assert_in_thread experimental_assert_uniform experimental_buffer_descriptors "
        "experimental_buffer_pointers experimental_cluster_cta_id experimental_fpsan_embed "
        "experimental_fpsan_unembed experimental_local_gather experimental_memdesc_to_i32 "
        "experimental_memdesc_to_i64 experimental_memory_offset_to_i32",
    ),
    "tti.experimental_lock_acquire": OpInfo("barrier", "lock acquire", completes=True),
    "tti.experimental_lock_release": OpInfo("barrier", "lock release"),
    "tti.dot_i8": OpInfo("mma", "dot", flops="dot"),
    **_rows("debug", "proton", "record event allocate_event"),
    **_rows(
        "debug",
        "proton_gpu",
        "circular_store finalize global_scratch_alloc init_ctx initialize read_counter restore_ctx "
        "save_ctx segment_alloc",
    ),
    **_rows("debug", "profscope", "begin end payload buffer"),
}

# Dialects of GPUs: NVIDIA's ttng, with the nvg and nvws ops of the stages around it, and AMD's amdg.

_BARRIER: Final = ("ttng.wait_barrier",)
_STORE_WAIT: Final = ("ttng.async_tma_store_wait",)
_MMA: Final = ("ttng.wait_barrier", "ttng.tc_gen5_commit")

_COPIES: Final = {
    "ttng.async_tma_copy_global_to_local": OpInfo(
        "async_copy", "tma load", partners=_BARRIER, moves="memdesc"
    ),
    "ttng.async_tma_copy_local_to_global": OpInfo(
        "async_copy", "tma store", partners=_STORE_WAIT, moves="memdesc"
    ),
    "ttng.async_tma_gather": OpInfo("async_copy", "tma gather", partners=_BARRIER, moves="memdesc"),
    "ttng.async_tma_scatter": OpInfo("async_copy", "tma scatter", partners=_STORE_WAIT, moves="memdesc"),
    "ttng.async_tma_reduce": OpInfo("async_copy", "tma reduce", partners=_STORE_WAIT, moves="memdesc"),
    "ttng.async_tma_store_wait": OpInfo("wait", "tma store wait", completes=True),
    "ttng.async_shared_store": OpInfo("async_copy", "cluster store", partners=_BARRIER, moves="first"),
    "ttng.async_copy_mbarrier_arrive": OpInfo("barrier", "copy arrive", partners=_BARRIER),
}
_BARRIERS: Final = {
    "ttng.init_barrier": OpInfo("barrier", "barrier init"),
    "ttng.inval_barrier": OpInfo("barrier", "barrier inval"),
    "ttng.barrier_expect": OpInfo("barrier", "barrier expect", partners=_BARRIER),
    "ttng.arrive_barrier": OpInfo("barrier", "barrier arrive", partners=_BARRIER),
    "ttng.wait_barrier": OpInfo("wait", "barrier wait", completes=True),
    "ttng.cluster_arrive": OpInfo("barrier", "cluster arrive", partners=("ttng.cluster_wait",)),
    "ttng.cluster_wait": OpInfo("wait", "cluster wait", completes=True),
    "ttng.cluster_barrier": OpInfo("barrier", "cluster barrier", completes=True),
    "ttng.fence_async_shared": OpInfo("barrier", "fence"),
    "ttng.fence_mbarrier_init_release_cluster": OpInfo("barrier", "fence barrier init"),
    "ttng.clc_try_cancel": OpInfo("async_copy", "next tile request", partners=_BARRIER),
    "ttng.clc_try_cancel_sync": OpInfo("wait", "next tile", completes=True),
    "ttng.clc_load_result": OpInfo("local", "next tile load"),
    **_rows("scalar", "ttng", "clc_is_canceled clc_get_program_id"),
}
_MATH: Final = {
    "ttng.warp_group_dot": OpInfo("mma", "dot issue", partners=("ttng.warp_group_dot_wait",), flops="dot"),
    "ttng.warp_group_dot_wait": OpInfo("wait", "dot wait", completes=True),
    "ttng.tc_gen5_mma": OpInfo("mma", "mma issue", partners=_MMA, flops="mma"),
    "ttng.tc_gen5_mma_scaled": OpInfo("mma", "mma scaled issue", partners=_MMA, flops="mma"),
    "ttng.tc_gen5_commit": OpInfo("mma", "mma commit", partners=_BARRIER),
    "ttng.packed_arith": OpInfo("elementwise", "packed arithmetic"),
}
_TENSOR_MEMORY: Final = {
    "ttng.tmem_alloc": OpInfo("local", "tmem alloc", moves="first"),
    "ttng.tmem_copy": OpInfo("local", "tmem copy", partners=_MMA, moves="first"),
    "ttng.tmem_load": OpInfo("local", "tmem load", completes=True, moves="result"),
    "ttng.tmem_store": OpInfo("local", "tmem store", completes=True, moves="first"),
    "ttng.tmem_wait": OpInfo("wait", "tmem wait", completes=True),
    **_rows("view", "ttng", "tmem_subslice"),
}
_DESCRIPTORS: Final = {
    "ttng.tensormap_create": OpInfo("descriptor", "tensormap create"),
    "ttng.tensormap_fenceproxy_acquire": OpInfo("descriptor", "tensormap acquire", completes=True),
    "ttng.tensor_desc_to_tma_ptr": OpInfo("view", "descriptor to pointer"),
    **_rows("view", "ttng", "reinterpret_tensor_descriptor"),
}
_OTHERS: Final = {
    **_rows("scalar", "nvg", "cluster_id warp_id warp_group_barrier_id tensor_memory_base"),
    "nvg.ld_acquire": OpInfo("load", "load acquire", completes=True),
    "nvg.wgmma": OpInfo("mma", "wgmma", partners=("nvg.wgmma_wait_group",)),
    "nvg.wgmma_wait_group": OpInfo("wait", "wgmma wait", completes=True),
    "nvws.descriptor_load": OpInfo("async_copy", "tma load", partners=("nvws.consumer_wait",)),
    "nvws.descriptor_gather": OpInfo("async_copy", "tma gather", partners=("nvws.consumer_wait",)),
    "nvws.clc_try_cancel": OpInfo("async_copy", "next tile request"),
    "nvws.aref.put.enter": OpInfo("wait", "put enter", completes=True),
    "nvws.aref.get.enter": OpInfo("wait", "get enter", completes=True),
    "nvws.producer_acquire": OpInfo("wait", "producer acquire", completes=True),
    "nvws.consumer_wait": OpInfo("wait", "consumer wait", completes=True),
    **_rows("barrier", "nvws", "aref.put.exit aref.get.exit producer_commit consumer_release"),
    **_rows("alloc", "nvws", "aref.create create_token"),
    **_rows("view", "nvws", "aref.buffer aref.phi"),
    **_rows("control", "nvws", "warp_group warp_group.return warp_group.yield"),
}


_ASYNC: Final = ("amdg.async_wait", "ttg.async_wait", "amdg.async_copy_mbarrier_arrive")
_TDM: Final = ("amdg.async_tdm_wait", "amdg.async_tdm_intrinsic_wait", "amdg.wait_barrier")

_AMD: Final = {
    "amdg.buffer_load": OpInfo("load", "buffer load", moves="result"),
    "amdg.masked_load": OpInfo("load", "masked load"),
    "amdg.buffer_store": OpInfo("store", "buffer store", moves="tensor"),
    "amdg.masked_store": OpInfo("store", "masked store"),
    "amdg.buffer_atomic_rmw": OpInfo("atomic", "buffer atomic", moves="result"),
    "amdg.buffer_atomic_cas": OpInfo("atomic", "buffer atomic cas", moves="result"),
    "amdg.buffer_load_to_local": OpInfo(
        "async_copy", "buffer load to local", partners=_ASYNC, moves="memdesc"
    ),
    "amdg.async_copy_local_to_global": OpInfo("async_copy", "async store", partners=_ASYNC, moves="memdesc"),
    "amdg.async_tdm_copy_global_to_local": OpInfo("async_copy", "tdm load", partners=_TDM, moves="memdesc"),
    "amdg.async_tdm_fused_copy_global_to_local": OpInfo(
        "async_copy", "tdm fused load", partners=_TDM, moves="memdesc"
    ),
    "amdg.async_tdm_copy_local_to_global": OpInfo("async_copy", "tdm store", partners=_TDM, moves="memdesc"),
    "amdg.async_tdm_gather": OpInfo("async_copy", "tdm gather", partners=_TDM, moves="memdesc"),
    "amdg.async_tdm_scatter": OpInfo("async_copy", "tdm scatter", partners=_TDM, moves="memdesc"),
    "amdg.tdm_prefetch": OpInfo("async_copy", "tdm prefetch"),
    "amdg.async_wait": OpInfo("wait", "async wait", completes=True),
    "amdg.async_tdm_wait": OpInfo("wait", "tdm wait", completes=True),
    "amdg.async_tdm_intrinsic_wait": OpInfo("wait", "tdm wait", completes=True),
    "amdg.memory_counter_wait": OpInfo("wait", "memory counter wait", completes=True),
    "amdg.wait_barrier": OpInfo("wait", "barrier wait", completes=True),
    "amdg.cluster_barrier_wait": OpInfo("wait", "cluster wait", completes=True),
    "amdg.cluster_barrier_arrive": OpInfo(
        "barrier", "cluster arrive", partners=("amdg.cluster_barrier_wait",)
    ),
    "amdg.init_barrier": OpInfo("barrier", "barrier init"),
    "amdg.arrive_barrier": OpInfo("barrier", "barrier arrive", partners=("amdg.wait_barrier",)),
    "amdg.async_copy_mbarrier_arrive": OpInfo("barrier", "copy arrive", partners=("amdg.wait_barrier",)),
    "amdg.cond_barrier": OpInfo("barrier", "conditional barrier", completes=True),
    "amdg.local_load_packed_tranposed": OpInfo("local", "local load transposed", moves="result"),
    "amdg.local_load_packed_transposed": OpInfo("local", "local load transposed", moves="result"),
    "amdg.in_thread_transpose": OpInfo("layout", "transpose in threads", moves="result"),
    "amdg.update_tensor_descriptor": OpInfo("descriptor", "update descriptor"),
    **_rows(
        "convert",
        "amdg",
        "scaled_downcast_fp4 scaled_downcast_fp8 scaled_upcast_fp4 scaled_upcast_fp8 upcast_mxfp",
    ),
    **_rows("view", "amdg", "concat extract_slice"),
    **_rows("hint", "amdg", "instruction_sched_hint"),
}

OPS: Final[Mapping[str, OpInfo]] = {
    **_UPSTREAM,
    **_TT,
    **_TTG,
    **_rows("layout", "gluon", "set_auto_layout"),
    **_INSTRUMENTATION,
    **_COPIES,
    **_BARRIERS,
    **_MATH,
    **_TENSOR_MEMORY,
    **_DESCRIPTORS,
    **_OTHERS,
    **_AMD,
}

# On scalars these are loop and address arithmetic.
_PER_ELEMENT: Final = ("elementwise", "math", "convert", "view")
# With an operand they store it, without one they only reserve memory.
_ALLOCATIONS: Final = ("ttg.local_alloc", "ttng.tmem_alloc")
# What `tl.extra.cuda.gdc_wait` and `gdc_launch_dependents` were before Triton 3.9 gave them ops.
_GRID_DEPENDENCY: Final = {
    '"griddepcontrol.wait;': "tt.grid_dependency_wait",
    '"griddepcontrol.launch_dependents;': "tt.grid_dependency_launch_dependents",
}


def info_of(op: Op) -> OpInfo | None:
    """The row of an op, as this op uses it; None if the table does not know the op."""
    info = OPS.get(op.name)
    if info is None:
        return None
    if op.name == "tt.elementwise_inline_asm":
        for assembly, name in _GRID_DEPENDENCY.items():
            if assembly in op.first_line:
                return OPS[name]
    if info.cls in _PER_ELEMENT and not any("<" in value.type for value in op.results):
        return replace(info, cls="scalar")
    if op.name in _ALLOCATIONS and not op.operands:
        return replace(info, cls="alloc", moves="")
    if op.name == "ttng.warp_group_dot" and op.attributes.get("isAsync") != "true":
        return replace(info, label="dot", completes=True, partners=())
    return info


def uncovered(module: Module) -> list[Op]:
    """The first op of every name that the table does not know, in the order of the text."""
    first_of: dict[str, Op] = {}
    for op in module.walk():
        if op.name not in OPS:
            first_of.setdefault(op.name, op)
    return list(first_of.values())
