"""NVIDIA GPUs: PTX inline assembly.

Scalar inline assembly runs in every thread, so a clock read is per warp, and a predicated store lets one lane
write. `bench/` measures the cost of a read and its place in the SASS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.ir.signature import element_type, elements, with_element
from profscope.instrument_passes.progress import LAUNCH_SHIFT, SLOT, WARPS_OF_SM
from profscope.instrument_passes.records import (
    BASE_ALIGNMENT,
    DURATION_SHIFT,
    FLOAT32_ONE,
    LAUNCH_HEADER,
    MAX_STAMPED,
    PLACE_RANK_SHIFT,
    STAMP,
    LaunchBits,
    byte_offset,
    cta_header_offset,
)
from profscope.instrument_passes.selection import ADDRESS_BITS
from profscope.instrument_passes.targets import Target, register

__all__ = ["Nvidia"]

# Bits of an element, and the constraint of the register that holds it, or holds several packed.
_REGISTER: Final = {
    "f64": (64, "d"), "i64": (64, "l"), "f32": (32, "f"), "i32": (32, "r"),
    "f16": (16, "r"), "bf16": (16, "r"), "i16": (16, "r"), "i8": (8, "r"),
    "f8E5M2": (8, "r"), "f8E4M3FN": (8, "r"),
}  # fmt: skip

_LANES_OF_A_STORE: Final = 8  # four sectors
_UNLIKELY: Final = 0x53500000
# Of a header; the other warps branch to its end.
_FIRST_WARP: Final = "mov.u32 tid, %tid.x; setp.gt.u32 away, tid, 31; @away bra.uni done;"


@register
@dataclass(frozen=True, slots=True)
class Nvidia(Target):
    """Target "cuda:<capability>"; clustered: the kernel's CTAs come in clusters of several."""

    spellings: ClassVar[tuple[str, ...]] = ("cuda:<capability>",)
    capability: int
    clustered: bool = False

    @classmethod
    def of(cls, name: str, *, clustered: bool) -> Nvidia | None:
        backend, _, arch = name.partition(":")
        return cls(int(arch), clustered) if backend == "cuda" and arch.isdecimal() else None

    @property
    def name(self) -> str:
        return f"cuda:{self.capability}"

    @property
    def lanes(self) -> int:
        return 32

    def clock(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %clock;", "=r")

    def entry_clocks(self, out: str) -> str:
        return f"{self.clock(f'{out}_clock')}\n{_asm(f'{out}_timer', 'mov.u32 $0, %globaltimer_lo;', '=r')}"

    def apart(self, out: str) -> str:
        """LLVM puts the constants that a loop starts with before the last instruction ahead of it. Were that
        a clock read, ptxas would not see behind it that they are constants, and would copy zeros from
        register to register (64 instructions more in a matmul). This instruction vanishes."""
        return _asm(out, "mov.u32 $0, 0;", "=r")

    def waitable(self, kind: str) -> bool:
        """Values that do not fill a register together are none, but for those of 16 bits, alone."""
        bits, _ = _REGISTER.get(element_type(kind), (0, ""))
        packed = bits * _packed(kind)
        return packed == 16 if packed < 32 else packed % 32 == 0

    def wait_for(self, out: str, value: str, kind: str) -> str:
        """A warp issues in order, so an instruction that reads the data is enough, one for each 16 bytes.

        It is a predicated `pmevent`: nothing but a performance monitor, if one is armed, notices it; ptxas
        leaves it where it is, before the clock. The event is due only where the data mix to _UNLIKELY.
        """
        bits, constraint = _REGISTER[element_type(kind)]
        pack = _packed(kind)
        registers = max(1, pack * min(bits, 32) // 32)
        outputs = -(-pack // 4)  # a byte for each of several elements, since there must be a result
        inputs = [f"${outputs + i}" for i in range(registers)]
        if bits == 64:
            mixed = " ".join(
                f"mov.b64 {{lo, hi}}, {i}; xor.b32 all, all, lo; xor.b32 all, all, hi;" for i in inputs
            )
        elif bits * pack == 16:
            mixed = f"cvt.u32.u16 all, {inputs[0]};"
        else:
            mixed = " ".join(f"xor.b32 all, all, {i};" for i in inputs)
        text = (
            f"{{ .reg .pred due; .reg .b32 all, lo, hi; mov.u32 all, 0; {mixed} "
            f"setp.eq.u32 due, all, {_UNLIKELY}; @due pmevent 0; }} "
            + " ".join(f"mov.u32 ${i}, 0;" for i in range(outputs))
        )
        constraints = ",".join(["=r"] * outputs + ["h" if bits * pack == 16 else constraint] * registers)
        result = with_element(kind, "i8" if pack > 1 else "i32")
        return (
            f'{out} = tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", '
            f"packed_element = {pack} : i32, pure = false}} {value} : {kind} -> {result}"
        )

    def thread_id(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %tid.x;", "=r", pure=True)

    def sm_id(self, out: str) -> str:
        return _asm(out, "mov.u32 $0, %smid;", "=r", pure=True)

    def linear_cta_id(self, out: str) -> str:
        if self.clustered:  # Triton's program ids are then those of clusters
            text = (
                "{ .reg .b32 x, y, z, nx, ny; mov.u32 x, %ctaid.x; mov.u32 y, %ctaid.y; mov.u32 z, %ctaid.z; "
                "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mad.lo.u32 y, z, ny, y; "
                "mad.lo.u32 $0, y, nx, x; }"
            )
            return _asm(out, text, "=r", pure=True)
        return Target.linear_cta_id(self, out)

    def cta_count(self, out: str) -> str:
        if self.clustered:
            text = (
                "{ .reg .b32 x, y, z; mov.u32 x, %nctaid.x; mov.u32 y, %nctaid.y; mov.u32 z, %nctaid.z; "
                "mul.lo.u32 x, x, y; mul.lo.u32 $0, x, z; }"
            )
            return _asm(out, text, "=r", pure=True)
        return Target.cta_count(self, out)

    def multiply_add(self, out: str, index: str, size: str, base: str) -> str:
        """As assembly, since LLVM would make a multiplication by a power of two a shift and an addition."""
        operands = ", ".join((index, size, base))
        return (
            f'{out} = tt.elementwise_inline_asm "mad.wide.u32 $0, $1, $2, $3;" {{constraints = "=l,r,r,l", '
            f"packed_element = 1 : i32, pure = true}} {operands} : i32, i32, i64 -> i64"
        )

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        count = len(values)
        names = ", ".join(f"${i + 2}" for i in range(count))
        width, operand = ("", names) if count == 1 else (f".v{count}", f"{{{names}}}")
        text = f"@${count + 2} st.global.cs{width}.b32 [$1+{offset}], {operand}; mov.u32 $0, 0;"
        types = ["i64", *["i32"] * count, "i1"]
        constraints = ",".join(["=r", "l", *["r"] * count, "b"])
        return _asm(out, text, constraints, [address, *values, lane], types)

    def store_row(
        self, out: str, address: str, offsets: Sequence[str], values: Sequence[str], lane: str, warp: str
    ) -> str:
        """A lane for every four words, so that a store writes whole sectors; one lane would write halves."""
        stores = []
        for first in range(0, len(offsets), _LANES_OF_A_STORE):
            lanes = offsets[first : first + _LANES_OF_A_STORE]
            words = values[4 * first : 4 * (first + len(lanes))]
            if len(lanes) == 1:
                stores.append(self.store(f"{out}_{first}", address, lanes[0], words, lane))
                continue
            names = [f"${at + 2}" for at in range(len(words))]
            text = " ".join(
                [
                    "{ .reg .pred here, mine; .reg .b32 of, w0, w1, w2, w3; .reg .b64 to;",
                    "mov.u32 of, %tid.x; and.b32 of, of, 31;",
                    f"setp.lt.and.u32 here, of, {len(lanes)}, ${len(words) + 2};",
                    *(f"mov.b32 w{at}, {names[at]};" for at in range(4)),
                    *(_mine(number, names[4 * number : 4 * number + 4]) for number in range(1, len(lanes))),
                    "mad.wide.u32 to, of, 16, $1;",
                    f"@here st.global.cs.v4.b32 [to+{lanes[0]}], {{w0, w1, w2, w3}}; }} mov.u32 $0, 0;",
                ]
            )
            types = ["i64", *["i32"] * len(words), "i1"]
            constraints = ",".join(["=r", "l", *["r"] * len(words), "b"])
            stores.append(_asm(f"{out}_{first}", text, constraints, [address, *words, warp], types))
        return "\n".join(stores)

    def header_start(
        self, out: str, area: str, leads: str, cta: str, slot: str, flags: str, digest: str
    ) -> str:
        """The other warps branch around it: a short CTA pays for instructions."""
        start = cta_header_offset("start_clock_low")
        text = " ".join(
            [
                "{ .reg .pred away, lead; .reg .b64 ns; .reg .b32 tid, clk, low, high, place, rank, nx, ny;",
                _FIRST_WARP,
                "setp.eq.and.u32 lead, tid, 0, $2; mov.u32 clk, %clock; mov.u64 ns, %globaltimer;",
                "mov.b64 {low, high}, ns; mov.u32 place, %smid;",
                self._rank(),
                "prmt.b32 place, place, high, 0x5410;",
                f"@lead st.global.cs.v4.b32 [$1+{start}], {{clk, $3, low, place}};",
                _launch_words(digest),
            ]
        )
        types = ["i64", "i1", "i32", "i32", "i32"]
        return _asm(out, text, "=r,l,b,r,r,r", [area, leads, cta, slot, flags], types)

    def _rank(self) -> str:
        """PTX that puts the rank in the cluster into `place`."""
        if not self.clustered:
            return ""
        return (
            f"mov.u32 rank, %cluster_ctarank; shl.b32 rank, rank, {PLACE_RANK_SHIFT}; "
            "or.b32 place, place, rank;"
        )

    def header_end(self, out: str, area: str, leads: str) -> str:
        end = cta_header_offset("end_clock")
        text = (
            f"{{ .reg .pred away, lead; .reg .b64 clk, ns; .reg .b32 tid; {_FIRST_WARP} "
            "setp.eq.and.u32 lead, tid, 0, $2; mov.u64 clk, %clock64; mov.u64 ns, %globaltimer; "
            f"@lead st.global.cs.v2.b64 [$1+{end}], {{clk, ns}}; done: }} mov.u32 $0, 0;"
        )
        return _asm(out, text, "=r,l,b", [area, leads], ["i64", "i1"])

    def stamp(self, out: str, buffer: str, begun: str, leads: str = "") -> str:
        """Only the first warp reads special registers, and finds its CTA's id from them: no register is held
        until here. Behind the first half of the stamps come those of the last CTAs of the grid."""
        half = MAX_STAMPED // 2
        text = " ".join(
            [
                "{ .reg .pred away, lead, late; .reg .b32 bits, nx, ny, n, tid, clk, ns, sm, x, y;",
                ".reg .b64 to; .reg .f32 len;",
                f"cvt.u32.u64 bits, $1; and.b32 bits, bits, {LaunchBits.ENABLE}; setp.eq.u32 away, bits, 0;",
                "@away bra.uni done;",
                _FIRST_WARP,
                "@$4 bra done;" if leads else "",
                "mov.u32 clk, %clock; mov.u32 ns, %globaltimer_lo; sub.u32 clk, clk, $2;",
                "mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; mov.u32 x, %ctaid.z; mov.u32 y, %ctaid.y;",
                "mad.lo.u32 y, x, ny, y; mov.u32 x, %ctaid.x; mad.lo.u32 x, y, nx, x;",
                "mov.u32 n, %nctaid.z; mul.lo.u32 n, n, nx; mul.lo.u32 n, n, ny;",
                f"max.u32 n, n, {MAX_STAMPED}; sub.u32 n, n, {MAX_STAMPED};",
                f"setp.ge.u32 late, x, {half}; @late sub.u32 x, x, n; setp.lt.and.s32 away, x, {half}, late;",
                "@away bra.uni done;",
                "sub.u32 ns, ns, $3; max.u32 ns, ns, 1; cvt.rz.f32.u32 len, ns; mov.b32 ns, len;",
                f"sub.u32 ns, ns, {FLOAT32_ONE}; shl.b32 ns, ns, {PLACE_RANK_SHIFT - DURATION_SHIFT};",
                f"and.b32 ns, ns, {-1 << PLACE_RANK_SHIFT}; mov.u32 sm, %smid; or.b32 sm, sm, ns;",
                "setp.eq.u32 lead, tid, 0;",
                f"and.b64 to, $1, {(1 << ADDRESS_BITS) - BASE_ALIGNMENT};",
                f"mad.wide.u32 to, x, {STAMP.itemsize}, to;",
                "@lead st.global.cs.v4.b32 [to], {$2, $3, clk, sm}; done: } mov.u32 $0, 0;",
            ]
        )
        given, types = [buffer, f"{begun}_clock", f"{begun}_timer"], ["i64", "i32", "i32"]
        if leads:
            return _asm(out, text, "=r,l,r,r,b", [*given, leads], [*types, "i1"])
        return _asm(out, text, "=r,l,r,r", given, types)

    @property
    def has_marks(self) -> bool:
        return True

    def slot(self, out: str, word: str) -> str:
        text = (
            "{ .reg .b32 at, warp; .reg .b64 slots; mov.u32 at, %smid; mov.u32 warp, %warpid; "
            f"mad.lo.u32 at, at, {WARPS_OF_SM}, warp; and.b64 slots, $1, {(1 << LAUNCH_SHIFT) - 1}; "
            f"mad.wide.u32 $0, at, {SLOT.itemsize}, slots; }}"
        )
        return _asm(out, text, "=l,l", [word], ["i64"], result="i64")

    def store_now(self, out: str, address: str, offset: int, values: Sequence[str], lane: str) -> str:
        """Volatile: ptxas leaves it before what it stands before."""
        names = ", ".join(f"${at + 2}" for at in range(len(values)))
        text = (
            f"@${len(values) + 2} st.volatile.global.v{len(values)}.b32 [$1+{offset}], {{{names}}}; "
            "mov.u32 $0, 0;"
        )
        constraints = ",".join(["=r", "l", *["r"] * len(values), "b"])
        return _asm(out, text, constraints, [address, *values, lane], ["i64", *["i32"] * len(values), "i1"])

    def count(self, out: str, address: str, offset: int, lane: str) -> str:
        text = f"@$2 red.relaxed.gpu.global.add.u32 [$1+{offset}], 1; mov.u32 $0, 0;"
        return _asm(out, text, "=r,l,b", [address, lane], ["i64", "i1"])


def _packed(kind: str) -> int:
    """How many elements of a type one instruction reads: 16 bytes of a tensor, or all of a smaller one."""
    bits, _ = _REGISTER.get(element_type(kind), (128, ""))
    return min(128 // bits, elements(kind))


def _launch_words(digest: str) -> str:
    """PTX that ends a header: the first CTA, whose slot $4 is 0, stores the launch's as well."""
    at = byte_offset(LAUNCH_HEADER, "launch_bits")
    return (
        "setp.ne.u32 away, $4, 0; @away bra.uni done; mov.u32 nx, %nctaid.x; mov.u32 ny, %nctaid.y; "
        f"@lead st.global.cs.v4.b32 [$1+{at}], {{$5, {digest}, nx, ny}}; done: }} mov.u32 $0, 0;"
    )


def _mine(number: int, words: Sequence[str]) -> str:
    """PTX by which the lane of this number takes these words."""
    taken = " ".join(f"selp.b32 w{at}, {word}, w{at}, mine;" for at, word in enumerate(words))
    return f"setp.eq.u32 mine, of, {number}; {taken}"


def _asm(
    out: str,
    text: str,
    constraints: str,
    operands: Sequence[str] = (),
    types: Sequence[str] = (),
    *,
    pure: bool = False,
    result: str = "i32",
) -> str:
    """One scalar inline-assembly op with a result (a store's is unused and costs nothing)."""
    signature = f" {', '.join(operands)} : {', '.join(types)}" if operands else ""
    return (
        f'{out} = tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", '
        f"packed_element = 1 : i32, pure = {str(pure).lower()}}}{signature} -> {result}"
    )
