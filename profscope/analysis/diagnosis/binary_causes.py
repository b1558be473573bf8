"""Causes that the binary alone shows, without the hardware's evidence; what they cost is unknown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import UNKNOWN_GAIN, Finding, Quantity, cited
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.ttgir_ops import PRODUCTS, is_gathered
from profscope.instrument_passes.ir.model import Op

__all__ = ["CAUSES"]

_ALONE: Final = "; by the binary alone, so what it costs is unknown"
_ACCESSES: Final = {"ld": ("tt.load",), "st": ("tt.store",)}
_PLACE: Final = re.compile(r"\.loc\s+\d+\s+(\d+)\s+\d+(?:,.*inlined_at\s+\d+\s+(\d+))?")
_NARROW: Final = re.compile(r"(?:@!?%p\d+\s+)?(ld|st)\.global\.(?:\w+\.)*?(?:b|u|s)(8|16)\b")
_VERSION: Final = re.compile(r"nvidia_mma<\{versionMajor = (\d+).*?instrShape = \[([\d, ]+)\]")
_WGMMA_CAPABILITY: Final = 90


def register_spills(facts: KernelFacts) -> Iterator[Finding]:
    """By what the compiler says."""
    if facts.spills and not facts.known.issuperset(("counts", "samples")):
        line = facts.carried_line or facts.place[1]
        yield Finding(
            "register-spills", facts.place[0], line,
            cited("{spilled} spill" + _ALONE, spilled=Quantity(facts.spills, "registers")),
            "more warps, smaller tiles, or a larger maxnreg", UNKNOWN_GAIN, "low",
        )  # fmt: skip


def fp64_arithmetic(facts: KernelFacts) -> Iterator[Finding]:
    """By the types of the TTGIR's ops in loops, else of all."""
    if facts.known.issuperset(("counts", "samples")):
        return
    lines = Counter(
        line
        for op, line, _ in facts.located_ops
        if line and op.name.startswith(("arith.", "math.")) and any("f64" in each.type for each in op.results)
        and op.name != "arith.constant"
    )  # fmt: skip
    if lines:
        line, ops = lines.most_common(1)[0]
        yield Finding(
            "fp64-arithmetic", facts.place[0], line,
            cited("{ops} compute in float64 at this line" + _ALONE, ops=Quantity(ops, "ops")),
            "float32: cast constants and inputs; look for Python floats", UNKNOWN_GAIN, "low",
        )  # fmt: skip


def small_mma(facts: KernelFacts) -> Iterator[Finding]:
    """By the layouts of products. Compute capability 9.0, where wgmma is the wider one."""
    if facts.capability != _WGMMA_CAPABILITY or facts.known.issuperset(("counters", "counts", "samples")):
        return
    shapes = [(int(version), shape.split(",")) for version, shape in _VERSION.findall(facts.ttgir)]
    products = [(op, line) for op, line, _ in facts.located_ops if PRODUCTS.search(op.name) and line]
    lines = [line for op, line in products if _rows(op) >= thresholds.WGMMA_SIDE]
    if not shapes or not lines:
        return
    version = max(version for version, _ in shapes)
    columns = max(int(shape[1]) for at, shape in shapes if at == version)
    if version == 2:
        what = "mma.sync of {columns} instead of wgmma"
    elif columns < thresholds.WGMMA_SIDE:
        what = "wgmma of {columns}"
    else:
        return
    yield Finding(
        "small-mma", facts.place[0], lines[0], cited(what + _ALONE, columns=Quantity(columns, "columns")),
        "larger tiles in M and N, 4 or 8 warps", UNKNOWN_GAIN, "low",
    )  # fmt: skip


def _rows(product: Op) -> int:
    shape = re.match(r"tensor<(\d+)x\d+x[a-z]", product.results[0].type)
    return int(shape[1]) if shape else 0


def narrow(facts: KernelFacts) -> Iterator[Finding]:
    """unvectorized-access, by the PTX: a thread has 16 bytes or more at a line, in pieces of one or two.
    Addresses that were loaded or divided may be anywhere, so that no vector has them."""
    if facts.known.issuperset(("counters", "counts", "samples")):
        return
    for (line, kind, size), pieces in _narrow_accesses(facts.ptx).items():
        ops = [op for op, at, _ in facts.located_ops if at == line and op.name in _ACCESSES[kind]]
        if not ops or any(is_gathered(op) for op in ops):
            continue
        each = pieces // len(ops)
        if each * size >= thresholds.VECTOR_BYTES:
            yield Finding(
                "unvectorized-access", facts.place[0], line,
                cited(
                    "{accesses} of {width} a thread" + _ALONE,
                    accesses=Quantity(each, "instructions"), width=Quantity(size, "bytes"),
                ),
                "16 bytes a thread: a base, a stride and a mask that are known to be multiples of 16",
                UNKNOWN_GAIN, "low",
            )  # fmt: skip


def _narrow_accesses(ptx: str) -> dict[tuple[int, str, int], int]:
    """By line, kind and bytes of accesses to global memory of one or two bytes, how many there are."""
    found: Counter[tuple[int, str, int]] = Counter()
    line = 0
    for text in ptx.splitlines():
        text = text.strip()
        if place := _PLACE.match(text):
            line = int(place[2] or place[1])
        elif access := _NARROW.match(text):
            found[line, access[1], int(access[2]) // 8] += 1
    return found


CAUSES: Final = (register_spills, fp64_arithmetic, small_mma, narrow)
