"""AMD GPUs: amdg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops.info import OpInfo, rows

__all__ = ["ROWS"]

_ASYNC: Final = ("amdg.async_wait", "ttg.async_wait", "amdg.async_copy_mbarrier_arrive")
_TDM: Final = ("amdg.async_tdm_wait", "amdg.async_tdm_intrinsic_wait", "amdg.wait_barrier")

ROWS: Final[Mapping[str, OpInfo]] = {
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
    **rows(
        "convert",
        "amdg",
        "scaled_downcast_fp4 scaled_downcast_fp8 scaled_upcast_fp4 scaled_upcast_fp8 upcast_mxfp",
    ),
    **rows("view", "amdg", "concat extract_slice"),
    **rows("hint", "amdg", "instruction_sched_hint"),
}
