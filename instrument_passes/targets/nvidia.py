"""NVIDIA GPUs: PTX inline assembly.

Scalar inline assembly runs in every thread, so a clock read is per warp, and a predicated store lets one
lane write. What a read costs and where ptxas leaves it is measured in `bench/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from instrument_passes.records import MAGIC, VERSION, word_offset

__all__ = ["Nvidia"]

_FIRST_CLUSTER_CAPABILITY: Final = 90


@dataclass(frozen=True, slots=True)
class Nvidia:
    """Target "cuda:<capability>"."""

    capability: int

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

    def header_start(self, out: str, area: str, leader: str, flags: str) -> str:
        text = (
            "{ .reg .b64 clk, ns; mov.u64 clk, %clock64; mov.u64 ns, %globaltimer; "
            f"@$2 st.global.cs.v2.b64 [$1+{word_offset('start_clock')}], {{clk, ns}}; "
            f"@$2 st.global.cs.b32 [$1+{word_offset('launch_bits')}], $3; }} mov.u32 $0, 0;"
        )
        return _asm(out, text, "=r,l,b,r", [area, leader, flags], ["i64", "i1", "i32"])

    def header_end(
        self, out: str, area: str, leader: str, digest_low: str, digest_high: str, warps: int
    ) -> str:
        clustered = self.capability >= _FIRST_CLUSTER_CAPABILITY
        text = " ".join(
            [
                "{ .reg .b64 clk, ns; .reg .b32 x, y, z, nx, ny, nz, id, sm, rank;",
                ".reg .b32 low, high, n, magic, version;",
                "mov.u64 clk, %clock64; mov.u64 ns, %globaltimer;",
                "mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z;",
                "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mov.u32 nz, %nctaid.z;",
                "mad.lo.u32 id, z, ny, y; mad.lo.u32 id, id, nx, x; mov.u32 sm, %smid;",
                "mov.u32 rank, %cluster_ctarank;" if clustered else "mov.u32 rank, 0;",
                f"mov.u32 low, {digest_low}; mov.u32 high, {digest_high}; mov.u32 n, {warps};",
                f"mov.u32 magic, {MAGIC}; mov.u32 version, {VERSION};",
                f"@$2 st.global.cs.v2.b64 [$1+{word_offset('end_clock')}], {{clk, ns}};",
                f"@$2 st.global.cs.v4.b32 [$1+{word_offset('magic')}], {{magic, version, id, sm}};",
                f"@$2 st.global.cs.v4.b32 [$1+{word_offset('grid_x')}], {{nx, ny, nz, rank}};",
                f"@$2 st.global.cs.v2.b32 [$1+{word_offset('digest_low')}], {{low, high}};",
                f"@$2 st.global.cs.b32 [$1+{word_offset('warps')}], n;",
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
