"""NVIDIA GPUs: ttng, and the nvg and nvws ops of the stages around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from instrument_passes.ops.info import OpInfo, rows

__all__ = ["ROWS"]

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
    **rows("scalar", "ttng", "clc_is_canceled clc_get_program_id"),
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
    **rows("view", "ttng", "tmem_subslice"),
}
_DESCRIPTORS: Final = {
    "ttng.tensormap_create": OpInfo("descriptor", "tensormap create"),
    "ttng.tensormap_fenceproxy_acquire": OpInfo("descriptor", "tensormap acquire", completes=True),
    "ttng.tensor_desc_to_tma_ptr": OpInfo("view", "descriptor to pointer"),
    **rows("view", "ttng", "reinterpret_tensor_descriptor"),
}
_OTHERS: Final = {
    **rows("scalar", "nvg", "cluster_id warp_id warp_group_barrier_id tensor_memory_base"),
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
    **rows("barrier", "nvws", "aref.put.exit aref.get.exit producer_commit consumer_release"),
    **rows("alloc", "nvws", "aref.create create_token"),
    **rows("view", "nvws", "aref.buffer aref.phi"),
    **rows("control", "nvws", "warp_group warp_group.return warp_group.yield"),
}
ROWS: Final[Mapping[str, OpInfo]] = {
    **_COPIES, **_BARRIERS, **_MATH, **_TENSOR_MEMORY, **_DESCRIPTORS, **_OTHERS
}  # fmt: skip
