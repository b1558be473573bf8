"""The row of an op in the table, and the classes that rows belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["CLASSES", "DEFAULT_CLASSES", "SPANNABLE", "OpInfo", "rows"]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """What a profiler needs to know of an op.

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


def rows(cls: str, prefix: str, names: str) -> dict[str, OpInfo]:
    """Rows of plain ops of one class, labelled with their own names."""
    return {f"{prefix}.{name}": OpInfo(cls, name.replace("_", " ")) for name in names.split()}
