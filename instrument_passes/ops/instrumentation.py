"""Ops that instrumentation inserts: Triton's sanitizers (tti), its profiler (proton), and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops.info import OpInfo, rows

__all__ = ["ROWS"]

_GSAN: Final = (
    "atomic_cas atomic_load atomic_poll atomic_rmw atomic_store atomic_tensor_access "
    "atomic_tensordesc_access cluster_barrier_init cluster_barrier_sync grid_dependency_wait "
    "indexed_tensordesc_access init kernel_exit mbarrier_arrive mbarrier_init mbarrier_table_init "
    "mbarrier_wait tensor_access tensordesc_access tensordesc_info"
)

ROWS: Final[Mapping[str, OpInfo]] = {
    **rows("debug", "tti", " ".join(f"experimental_gsan_{name}" for name in _GSAN.split())),
    **rows(
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
    **rows("debug", "proton", "record event allocate_event"),
    **rows(
        "debug",
        "proton_gpu",
        "circular_store finalize global_scratch_alloc init_ctx initialize read_counter restore_ctx "
        "save_ctx segment_alloc",
    ),
    **rows("debug", "profscope", "begin end payload values buffer"),
}
