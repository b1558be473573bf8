"""Causes that the binary alone shows, if the evidence that would tell their gain is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import UNKNOWN_GAIN, Finding, Quantity, cited
from profscope.analysis.rules import thresholds
from profscope.analysis.rules.kernel import DOTS, Kernel
from profscope.analysis.rules.memory import carried_line
from profscope.analysis.rules.rule import HOPPER

__all__ = ["by_binary"]

_ALONE: Final = "; by the binary alone, so what it costs is unknown"
_ACCESSES: Final = {"ld": "tt.load", "st": "tt.store"}
_PLACE: Final = re.compile(r"\.loc\s+\d+\s+(\d+)\s+\d+(?:,.*inlined_at\s+\d+\s+(\d+))?")
_NARROW: Final = re.compile(r"(?:@!?%p\d+\s+)?(ld|st)\.global\.(?:\w+\.)*?(?:b|u|s)(8|16)\b")
_VERSION: Final = re.compile(r"nvidia_mma<\{versionMajor = (\d+).*?instrShape = \[([\d, ]+)\]")


def by_binary(kernel: Kernel) -> Iterator[Finding]:
    """Findings without a gain, of what was not measured."""
    if not kernel.known.issuperset(("counts", "waits")):
        yield from _spills(kernel)
        yield from _float64(kernel)
    if not kernel.known.issuperset(("use", "counts", "waits")):
        yield from _narrow(kernel)
        if kernel.capability in HOPPER:
            yield from _small_mma(kernel)


def _spills(kernel: Kernel) -> Iterator[Finding]:
    """By what the compiler says."""
    if kernel.spills:
        spilled = Quantity(kernel.spills, "registers")
        yield Finding(
            "register-spills", *kernel.line(carried_line(kernel)),
            cited("{spilled} spill" + _ALONE, spilled=spilled),
            "more warps, smaller tiles, or a larger maxnreg", UNKNOWN_GAIN, "low",
        )  # fmt: skip


def _float64(kernel: Kernel) -> Iterator[Finding]:
    """By the types of the TTGIR's ops."""
    lines = Counter(
        node.line
        for node in kernel.graph.nodes
        if node.line and node.name.startswith(("arith.", "math.")) and node.name != "arith.constant"
        and any("f64" in value.type for value in node.results)
    )  # fmt: skip
    if lines:
        line, ops = lines.most_common(1)[0]
        yield Finding(
            "fp64-arithmetic", *kernel.line(line),
            cited("{ops} compute in float64 at this line" + _ALONE, ops=Quantity(ops, "ops")),
            "float32: cast constants and inputs; look for Python floats", UNKNOWN_GAIN, "low",
        )  # fmt: skip


def _small_mma(kernel: Kernel) -> Iterator[Finding]:
    """By the layouts of products."""
    aliases = " ".join(kernel.graph.module.aliases.values())
    shapes = [(int(version), int(shape.split(",")[1])) for version, shape in _VERSION.findall(aliases)]
    lines = [
        node.line
        for node in kernel.graph.named(DOTS)
        if node.line and (shape := re.match(r"tensor<(\d+)x\d+x[a-z]", node.results[0].type))
        and int(shape[1]) >= thresholds.WGMMA_SIDE
    ]  # fmt: skip
    if not shapes or not lines:
        return
    version, columns = max(shapes)
    if version > 2 and columns >= thresholds.WGMMA_SIDE:
        return
    what = "mma.sync of {columns} instead of wgmma" if version == 2 else "wgmma of {columns}"
    yield Finding(
        "small-mma", *kernel.line(lines[0]), cited(what + _ALONE, columns=Quantity(columns, "columns")),
        "larger tiles in M and N, 4 or 8 warps", UNKNOWN_GAIN, "low",
    )  # fmt: skip


def _narrow(kernel: Kernel) -> Iterator[Finding]:
    """By the PTX: a thread has 16 bytes or more at a line, in pieces of one or two. Addresses that were
    loaded or divided may be anywhere, so that no vector has them."""
    for (line, kind, size), pieces in _narrow_accesses(kernel.ptx).items():
        nodes = [node for node in kernel.accesses_at(line) if node.name == _ACCESSES[kind]]
        rests = [kernel.graph.depends(node.operands[0]) for node in nodes]
        if not nodes or any(each.loads or each.has_division for each in rests):
            continue
        each = pieces // len(nodes)
        if each * size >= thresholds.VECTOR_BYTES:
            yield Finding(
                "unvectorized-access", *kernel.line(line),
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
