"""The cost model: one table of cycles, from which every clock value follows.

A warp issues its instructions in order. Each takes `issue` cycles of the warp's time; its result is ready
`latency` cycles after it was issued, and the first instruction that reads the result waits for it, as does
the end of the basic block if the result is used beyond. Stores, prefetches and asynchronous copies are not
waited for, except by `cp.async.wait_group`. Instructions that a predicate switches off cost the same, but a
wait that is switched off does not wait. Warps do not slow each other down: there is no contention for issue
slots, caches or bandwidth, and no bank conflicts.

The numbers are of the order that microbenchmarks of an A100 give (issue of one warp instruction a cycle and
scheduler; latencies from the instruction tables of public dissections of Ampere); they make a plausible,
reproducible clock, not a prediction of GPU time.
"""

from enum import Enum
from typing import NamedTuple

__all__ = ["BARRIER_CYCLES", "COSTS", "CTA_LAUNCH_CYCLES", "Cost", "Cycles"]


class Cycles(NamedTuple):
    issue: int
    latency: int


class Cost(Enum):
    """Classes of instructions; the table's rows."""

    MOVE = "register moves and special registers"
    ALU = "integer, logic, compare, float32"
    WIDE = "64-bit integer, integer multiply"
    DIVIDE = "integer and exact float division, remainder"
    FLOAT64 = "float64 arithmetic"
    SPECIAL = "ex2, lg2, sin, cos, rcp, rsqrt, sqrt, tanh"
    CONVERT = "conversions, popc, clz"
    EXCHANGE = "shfl, vote, redux"
    MMA = "tensor core"
    MATRIX_LOAD = "ldmatrix"
    PARAMETER = "ld.param, constants"
    SHARED_LOAD = "ld.shared"
    LOCAL = "ld.local, st.local"
    GLOBAL_LOAD = "ld.global"
    STORE = "st.global, st.shared, red, prefetch"
    ATOMIC = "atom"
    ASYNC_COPY = "cp.async"
    WAIT = "cp.async.wait_group, fences"
    CONTROL = "bra, ret, bar, nop"
    CALL = "vprintf"


COSTS = {
    Cost.MOVE: Cycles(1, 1),
    Cost.ALU: Cycles(1, 4),
    Cost.WIDE: Cycles(2, 5),
    Cost.DIVIDE: Cycles(16, 40),
    Cost.FLOAT64: Cycles(2, 8),
    Cost.SPECIAL: Cycles(4, 18),
    Cost.CONVERT: Cycles(2, 6),
    Cost.EXCHANGE: Cycles(2, 23),
    Cost.MMA: Cycles(8, 33),
    Cost.MATRIX_LOAD: Cycles(8, 33),
    Cost.PARAMETER: Cycles(1, 8),
    Cost.SHARED_LOAD: Cycles(2, 23),
    Cost.LOCAL: Cycles(4, 40),
    Cost.GLOBAL_LOAD: Cycles(4, 400),
    Cost.STORE: Cycles(4, 0),
    Cost.ATOMIC: Cycles(4, 500),
    Cost.ASYNC_COPY: Cycles(4, 450),  # from issue to the data's arrival in shared memory
    Cost.WAIT: Cycles(4, 0),
    Cost.CONTROL: Cycles(2, 0),
    Cost.CALL: Cycles(1000, 0),
}

BARRIER_CYCLES = 20  # from the last warp's arrival until all go on
CTA_LAUNCH_CYCLES = 300  # from a slot's release to the first instruction of its next CTA
