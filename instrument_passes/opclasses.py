"""What each op is to a profiler: its class, the name shown, and what the end of a span on it means.

A span around an op covers its issue: the warp goes on as soon as the instructions are issued, unless the
op itself waits. `completes` says which ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CLASSES", "OPS", "OpInfo"]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """cls: one of CLASSES; label: the name shown; completes: the op returns only when its effect is done."""

    cls: str
    label: str
    completes: bool = False


# Class -> what it covers, for `op-spans{classes=...}`.
CLASSES: Final[dict[str, str]] = {
    "load": "global loads",
    "store": "global stores",
    "atomic": "atomics on global memory",
    "async_copy": "asynchronous copies between global and shared memory (cp.async, TMA)",
    "wait": "waits for asynchronous work: copies, barriers' phases, tensor cores",
    "mma": "dots and tensor-core instructions",
    "barrier": "barriers, their set-up, arrivals, fences",
    "reduce": "reductions, scans, histograms, gathers across lanes and warps",
    "layout": "layout conversions through shared memory or shuffles",
    "local": "loads, stores and copies of shared and tensor memory",
    "call": "calls of device functions",
}

OPS: Final[dict[str, OpInfo]] = {
    "tt.load": OpInfo("load", "load"),
    "tt.descriptor_load": OpInfo("load", "descriptor load"),
    "tt.descriptor_gather": OpInfo("load", "descriptor gather"),
    "tt.store": OpInfo("store", "store"),
    "tt.descriptor_store": OpInfo("store", "descriptor store"),
    "tt.descriptor_scatter": OpInfo("store", "descriptor scatter"),
    "tt.descriptor_reduce": OpInfo("store", "descriptor reduce"),
    "tt.atomic_rmw": OpInfo("atomic", "atomic"),
    "tt.atomic_cas": OpInfo("atomic", "atomic cas"),
    "ttg.async_copy_global_to_local": OpInfo("async_copy", "async copy"),
    "ttg.async_commit_group": OpInfo("async_copy", "commit group"),
    "ttng.async_tma_copy_global_to_local": OpInfo("async_copy", "tma load"),
    "ttng.async_tma_copy_local_to_global": OpInfo("async_copy", "tma store"),
    "ttng.async_tma_gather": OpInfo("async_copy", "tma gather"),
    "ttng.async_tma_scatter": OpInfo("async_copy", "tma scatter"),
    "ttng.async_tma_reduce": OpInfo("async_copy", "tma reduce"),
    "ttg.async_wait": OpInfo("wait", "async wait", completes=True),
    "ttng.async_tma_store_wait": OpInfo("wait", "tma store wait", completes=True),
    "ttng.wait_barrier": OpInfo("wait", "barrier wait", completes=True),
    "ttng.warp_group_dot_wait": OpInfo("wait", "dot wait", completes=True),
    "ttng.cluster_wait": OpInfo("wait", "cluster wait", completes=True),
    "tt.dot": OpInfo("mma", "dot"),
    "tt.dot_scaled": OpInfo("mma", "dot scaled"),
    "ttng.warp_group_dot": OpInfo("mma", "dot issue"),
    "ttng.tc_gen5_mma": OpInfo("mma", "mma issue"),
    "ttng.tc_gen5_mma_scaled": OpInfo("mma", "mma scaled issue"),
    "ttng.tc_gen5_commit": OpInfo("mma", "mma commit"),
    "gpu.barrier": OpInfo("barrier", "barrier", completes=True),
    "ttg.barrier": OpInfo("barrier", "barrier", completes=True),
    "ttg.local_barrier": OpInfo("barrier", "barrier", completes=True),
    "ttng.init_barrier": OpInfo("barrier", "barrier init"),
    "ttng.inval_barrier": OpInfo("barrier", "barrier inval"),
    "ttng.barrier_expect": OpInfo("barrier", "barrier expect"),
    "ttng.arrive_barrier": OpInfo("barrier", "barrier arrive"),
    "ttng.cluster_arrive": OpInfo("barrier", "cluster arrive"),
    "ttng.fence_async_shared": OpInfo("barrier", "fence"),
    "tt.reduce": OpInfo("reduce", "reduce"),
    "tt.scan": OpInfo("reduce", "scan"),
    "tt.histogram": OpInfo("reduce", "histogram"),
    "tt.gather": OpInfo("reduce", "gather"),
    "ttg.convert_layout": OpInfo("layout", "convert layout"),
    "ttg.local_load": OpInfo("local", "local load"),
    "ttg.local_store": OpInfo("local", "local store"),
    "ttng.tmem_load": OpInfo("local", "tmem load"),
    "ttng.tmem_store": OpInfo("local", "tmem store"),
    "ttng.tmem_copy": OpInfo("local", "tmem copy"),
    "tt.call": OpInfo("call", "call"),
}
