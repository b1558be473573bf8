"""All cases, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from bench.corpus.case import Case

__all__ = ["CASES"]

_MODULES: Final = (
    "idle_sms", "tail", "load_imbalance", "tiny_ctas", "low_occupancy", "too_many_warps", "masked_work",
    "no_tensor_cores", "matmul", "attention", "decode_product", "partition_starved", "mma_not_overlapped",
    "late_warp", "serial_reduction", "layout_conversion", "uncoalesced_load", "uncoalesced_store",
    "unvectorized_access", "bank_conflict", "register_spills", "atomics", "tile_reread", "exposed_latency",
    "redundant_load", "fp64_arithmetic", "index_arithmetic", "slow_math", "conversions", "good_streams",
    "good_rows", "good_gathers", "good_convolution",
)  # fmt: skip
CASES: Final[dict[str, Case]] = {
    case.name: case for name in _MODULES for case in import_module(f"bench.corpus.{name}").CASES
}
