"""NVIDIA GPUs: PTX inline assembly.

Scalar inline assembly runs in every thread, so a clock read is per warp, and a predicated store lets one
lane write. What a read costs and where ptxas leaves it is measured in `bench/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from instrument_passes.ir.signature import element_type, with_element
from instrument_passes.records import MAGIC, VERSION, byte_offset

__all__ = ["Nvidia"]

# Bits of an element, and the constraint of the register that holds it, or holds several packed.
_REGISTER: Final = {
    "f64": (64, "d"), "i64": (64, "l"), "f32": (32, "f"), "i32": (32, "r"),
    "f16": (16, "r"), "bf16": (16, "r"), "i16": (16, "r"), "i8": (8, "r"),
    "f8E5M2": (8, "r"), "f8E4M3FN": (8, "r"),
}  # fmt: skip


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

    def waitable(self, kind: str) -> bool:
        return element_type(kind) in _REGISTER and (kind.startswith("tensor<") or _REGISTER[kind][0] > 8)

    def wait_for(self, out: str, value: str, kind: str) -> str:
        """A warp issues in order, so an instruction that reads the data is enough, one for each 16 bytes.

        It is a predicated `pmevent`: nothing but a performance monitor, if one is armed, notices it; ptxas
        leaves it where it is, before the clock. The event is due only where the data mix to MAGIC.
        """
        bits, constraint = _REGISTER[element_type(kind)]
        tensor = kind.startswith("tensor<")
        pack = 128 // bits if tensor else 1
        registers = max(1, pack * min(bits, 32) // 32)
        outputs = -(-pack // 4) if tensor else 1  # a byte for each element, since there must be a result
        inputs = [f"${outputs + i}" for i in range(registers)]
        if bits == 64:
            mixed = " ".join(
                f"mov.b64 {{lo, hi}}, {i}; xor.b32 all, all, lo; xor.b32 all, all, hi;" for i in inputs
            )
        elif bits < 32 and not tensor:
            mixed = f"cvt.u32.u16 all, {inputs[0]};"
        else:
            mixed = " ".join(f"xor.b32 all, all, {i};" for i in inputs)
        text = (
            f"{{ .reg .pred due; .reg .b32 all, lo, hi; mov.u32 all, 0; {mixed} "
            f"setp.eq.u32 due, all, {MAGIC << 16}; @due pmevent 0; }} "
            + " ".join(f"mov.u32 ${i}, 0;" for i in range(outputs))
        )
        constraints = ",".join(["=r"] * outputs + [constraint if tensor or bits >= 32 else "h"] * registers)
        result = with_element(kind, "i8") if tensor else "i32"
        return (
            f'{out} = tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", '
            f"packed_element = {pack} : i32, pure = false}} {value} : {kind} -> {result}"
        )

    def thread_id(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %tid.x;", "=r", pure=True)

    def sm_id(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %smid;", "=r", pure=True)

    def count_bits(self, out: str, value: str) -> str:
        return _asm(out, "popc.b32 $0, $1;", "=r,r", [value], ["i32"], pure=True)

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
