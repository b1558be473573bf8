"""NVIDIA GPUs: PTX inline assembly.

Scalar inline assembly runs in every thread, so a clock read is per warp, and a predicated store lets one
lane write. What a read costs and where ptxas leaves it is measured in `bench/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from instrument_passes.records import CTA_HEADER, MAGIC, VERSION, word_offset
from instrument_passes.targets.base import Identity

__all__ = ["Nvidia"]

_FIRST_CLUSTER_CAPABILITY: Final = 90


@dataclass(frozen=True, slots=True)
class Nvidia:
    """Target "cuda:<capability>"."""

    capability: int

    @property
    def name(self) -> str:
        return f"cuda:{self.capability}"

    def clock(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %clock;", "=r")

    def identity(self, base: str, segment_bytes: str, identity: Identity, prefix: str) -> str:
        tid = f"{prefix}_tid"
        return "\n".join(
            [
                _asm(tid, "mov.u32 $0, %tid.x;", "=r", pure=True),
                f"{prefix}_lanes = arith.constant 31 : i32",
                f"{prefix}_zero = arith.constant 0 : i32",
                f"{prefix}_in_warp = arith.andi {tid}, {prefix}_lanes : i32",
                f"{identity.lane} = arith.cmpi eq, {prefix}_in_warp, {prefix}_zero : i32",
                f"{identity.leader} = arith.cmpi eq, {tid}, {prefix}_zero : i32",
                f"{prefix}_log_lanes = arith.constant 5 : i32",
                f"{prefix}_warp = arith.shrui {tid}, {prefix}_log_lanes : i32",
                f"{prefix}_stride = arith.constant {segment_bytes} : i32",
                f"{prefix}_offset = arith.muli {prefix}_warp, {prefix}_stride : i32",
                f"{prefix}_wide = arith.extui {prefix}_offset : i32 to i64",
                f"{prefix}_header = arith.constant {CTA_HEADER.itemsize} : i64",
                f"{prefix}_first = arith.addi {base}, {prefix}_header : i64",
                f"{identity.segment} = arith.addi {prefix}_first, {prefix}_wide : i64",
            ]
        )

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        count = len(values)
        names = ", ".join(f"${i + 2}" for i in range(count))
        width, operand = ("", names) if count == 1 else (f".v{count}", f"{{{names}}}")
        text = f"@${count + 2} st.global.cs{width}.b32 [$1+{offset}], {operand}; mov.u32 $0, 0;"
        types = ["i64", *["i32"] * count, "i1"]
        constraints = ",".join(["=r", "l", *["r"] * count, "b"])
        return _asm(out, text, constraints, [address, *values, lane], types)

    def header_start(self, out: str, base: str, leader: str) -> str:
        text = (
            "{ .reg .b64 clk, ns; mov.u64 clk, %clock64; mov.u64 ns, %globaltimer; "
            f"@$2 st.global.cs.v2.b64 [$1+{word_offset('start_clock')}], {{clk, ns}}; }} mov.u32 $0, 0;"
        )
        return _asm(out, text, "=r,l,b", [base, leader], ["i64", "i1"])

    def header_end(
        self, out: str, base: str, leader: str, digest_low: str, digest_high: str, warps: int
    ) -> str:
        clustered = self.capability >= _FIRST_CLUSTER_CAPABILITY
        text = " ".join(
            [
                "{ .reg .b64 clk, ns; .reg .b32 x, y, z, nx, ny, nz, id, sm, rank;",
                ".reg .b32 low, high, n, magic, version, none;",
                "mov.u64 clk, %clock64; mov.u64 ns, %globaltimer;",
                "mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z;",
                "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mov.u32 nz, %nctaid.z;",
                "mad.lo.u32 id, z, ny, y; mad.lo.u32 id, id, nx, x; mov.u32 sm, %smid;",
                "mov.u32 rank, %cluster_ctarank;" if clustered else "mov.u32 rank, 0;",
                f"mov.u32 low, {digest_low}; mov.u32 high, {digest_high}; mov.u32 n, {warps};",
                f"mov.u32 magic, {MAGIC}; mov.u32 version, {VERSION}; mov.u32 none, 0;",
                f"@$2 st.global.cs.v2.b64 [$1+{word_offset('end_clock')}], {{clk, ns}};",
                f"@$2 st.global.cs.v4.b32 [$1+{word_offset('magic')}], {{magic, version, id, sm}};",
                f"@$2 st.global.cs.v4.b32 [$1+{word_offset('grid_x')}], {{nx, ny, nz, rank}};",
                f"@$2 st.global.cs.v4.b32 [$1+{word_offset('digest_low')}], {{low, high, n, none}};",
                "} mov.u32 $0, 0;",
            ]
        )
        return _asm(out, text, "=r,l,b", [base, leader], ["i64", "i1"])


def _asm(
    out: str,
    text: str,
    constraints: str,
    operands: Sequence[str] = (),
    types: Sequence[str] = (),
    *,
    pure: bool = False,
) -> str:
    """One scalar inline-assembly op with an i32 result (a store's result is unused and costs nothing)."""
    signature = f" {', '.join(operands)} : {', '.join(types)}" if operands else ""
    return (
        f'{out} = tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", '
        f"packed_element = 1 : i32, pure = {str(pure).lower()}}}{signature} -> i32"
    )
