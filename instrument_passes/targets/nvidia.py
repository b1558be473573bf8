"""NVIDIA GPUs: PTX inline assembly.

Scalar inline assembly runs in every thread, so a clock read is per warp, and a predicated store lets one
lane write. What a read costs and where ptxas leaves it is measured in `bench/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instrument_passes.records import MAGIC, VERSION, byte_offset

__all__ = ["Nvidia"]


@dataclass(frozen=True, slots=True)
class Nvidia:
    """Target "cuda:<capability>"; clustered: the kernel's CTAs come in clusters of several."""

    capability: int
    clustered: bool = False

    @property
    def name(self) -> str:
        return f"cuda:{self.capability}"

    @property
    def lanes(self) -> int:
        return 32

    def clock(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %clock;", "=r")

    def thread_id(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %tid.x;", "=r", pure=True)

    def linear_cta_id(self, out: str) -> str:
        text = (
            "{ .reg .b32 x, y, z, nx, ny; mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z; "
            "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mad.lo.u32 y, z, ny, y; mad.lo.u32 $0, y, nx, x; }"
        )
        return _asm(out, text, "=r", pure=True)

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        count = len(values)
        names = ", ".join(f"${i + 2}" for i in range(count))
        width, operand = ("", names) if count == 1 else (f".v{count}", f"{{{names}}}")
        text = f"@${count + 2} st.global.cs{width}.b32 [$1+{offset}], {operand}; mov.u32 $0, 0;"
        types = ["i64", *["i32"] * count, "i1"]
        constraints = ",".join(["=r", "l", *["r"] * count, "b"])
        return _asm(out, text, constraints, [address, *values, lane], types)

    def header_start(self, out: str, area: str, leader: str, cta: str, flags: str) -> str:
        text = " ".join(
            [
                "{ .reg .b64 clk, ns; .reg .b32 sm, rank, id;",
                "mov.u64 clk, %clock64; mov.u64 ns, %globaltimer; mov.u32 sm, %smid;",
                "mov.u32 rank, %cluster_ctarank; shl.b32 rank, rank, 16; or.b32 sm, sm, rank;"
                if self.clustered
                else "",
                f"mov.u32 id, {MAGIC << 16 | VERSION};",
                f"@$2 st.global.cs.v2.b64 [$1+{byte_offset('start_clock')}], {{clk, ns}};",
                f"@$2 st.global.cs.v4.b32 [$1+{byte_offset('version')}], {{id, $3, sm, $4}};",
                "} mov.u32 $0, 0;",
            ]
        )
        return _asm(out, text, "=r,l,b,r,r", [area, leader, cta, flags], ["i64", "i1", "i32", "i32"])

    def header_end(self, out: str, area: str, leader: str, digest: str) -> str:
        text = " ".join(
            [
                "{ .reg .b64 clk, ns; .reg .b32 nx, ny, nz, digest;",
                "mov.u64 clk, %clock64; mov.u64 ns, %globaltimer;",
                "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mov.u32 nz, %nctaid.z;",
                f"mov.u32 digest, {digest};",
                f"@$2 st.global.cs.v2.b64 [$1+{byte_offset('end_clock')}], {{clk, ns}};",
                f"@$2 st.global.cs.v4.b32 [$1+{byte_offset('grid_x')}], {{nx, ny, nz, digest}};",
                "} mov.u32 $0, 0;",
            ]
        )
        return _asm(out, text, "=r,l,b", [area, leader], ["i64", "i1"])


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
