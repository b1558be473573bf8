"""AMD GPUs with waves of 64 lanes and XCDs (CDNA 3 and 4): calls of LLVM's intrinsics, no inline assembly.

So the compiler itself places the waits for reads and stores, in the counters it shares with the kernel's own
memory ops. Compile-verified: no test has run on such a GPU. Sources: AMD's CDNA3 and CDNA4 instruction set
references (s_memtime, s_memrealtime, HW_ID, XCC_ID, buffer resources) and LLVM's "User Guide for AMDGPU
Backend" (the intrinsics).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.ir.signature import element_type, elements, with_element
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

__all__ = ["ARCHITECTURES", "Amd"]

ARCHITECTURES: Final = ("gfx942", "gfx950")

_BITS: Final = {"f64": 64, "i64": 64, "f32": 32, "i32": 32, "f16": 16, "bf16": 16, "i16": 16}
_NS_PER_TICK: Final = 10  # of s_memrealtime: the reference clock of both architectures has 100 MHz
# s_getreg_b32 takes register | first bit << 6 | (bits - 1) << 11.
_CU_SH_SE: Final = 4 | 8 << 6 | 7 << 11  # HW_ID[15:8]: CU in its array, array, shader engine
_XCC: Final = 20 | 0 << 6 | 3 << 11  # XCC_ID[3:0]: the die
# A buffer resource: no stride, nearly 2 GiB long, raw 32-bit data; as Triton's own buffer ops use it.
_RECORDS: Final = (1 << 31) - 2
_FORMAT: Final = 7 << 12 | 4 << 15
_OUTSIDE: Final = -(1 << 31)  # as an offset: beyond the resource, so that the store is dropped
_NONTEMPORAL: Final = 2


@register
@dataclass(frozen=True, slots=True)
class Amd(Target):
    """Target "hip:<architecture>", of ARCHITECTURES. It has no clusters."""

    spellings: ClassVar[tuple[str, ...]] = tuple(f"hip:{architecture}" for architecture in ARCHITECTURES)
    architecture: str

    @classmethod
    def of(cls, name: str, *, clustered: bool) -> Amd | None:
        return cls(name.removeprefix("hip:")) if name in cls.spellings else None

    @property
    def name(self) -> str:
        return f"hip:{self.architecture}"

    @property
    def lanes(self) -> int:
        return 64

    def clock(self, out: str) -> str:
        """The low half of s_memtime, the shader clock. Nothing is scheduled across; the value stays scalar,
        and nothing waits for it but what stores it."""
        return _lines(
            _fence(f"{out}_before"),
            _call(f"{out}_wide", "s.memtime", "i64"),
            _fence(f"{out}_behind"),
            f"{out} = arith.trunci {out}_wide : i64 to i32",
        )

    def entry_clocks(self, out: str) -> str:
        """The timer in ticks: who multiplies here would wait for it."""
        return _lines(
            _clocks(f"{out}_time"),
            f"{out}_clock = arith.trunci {out}_time_clock : i64 to i32",
            f"{out}_timer = arith.trunci {out}_time_ticks : i64 to i32",
        )

    def apart(self, out: str) -> str:
        return f"{out} = arith.constant 0 : i32"

    def waitable(self, kind: str) -> bool:
        return element_type(kind) in _BITS

    def wait_for(self, out: str, value: str, kind: str) -> str:
        """Assembly of no instruction that reads the data: the compiler waits for operands that are loaded."""
        pack = min(max(1, 32 // _BITS[element_type(kind)]), elements(kind))
        result = with_element(kind, "i32")  # never written; there must be one
        constraints = ",".join(["=v"] * pack + ["v"])
        return (
            f'{out} = tt.elementwise_inline_asm "; wait for ${pack}" {{constraints = "{constraints}", '
            f"packed_element = {pack} : i32, pure = false}} {value} : {kind} -> {result}"
        )

    def thread_id(self, out: str) -> str:
        return f"{out} = rocdl.workitem.id.x : i32"

    def sm_id(self, out: str) -> str:
        """Id of the CU: unique on a GPU, not dense."""
        return _lines(
            f"{out}_cu_field = arith.constant {_CU_SH_SE} : i32",
            _call(f"{out}_cu", "s.getreg", "i32", f"{out}_cu_field"),
            f"{out}_xcc_field = arith.constant {_XCC} : i32",
            _call(f"{out}_xcc", "s.getreg", "i32", f"{out}_xcc_field"),
            f"{out}_8 = arith.constant 8 : i32",
            f"{out}_die = arith.shli {out}_xcc, {out}_8 : i32",
            f"{out} = arith.ori {out}_die, {out}_cu : i32",
        )

    def store(self, out: str, address: str, offset: str, values: Sequence[str], lane: str) -> str:
        if len(values) == 1:
            return _buffer_store(out, address, offset, values[0], "i32", lane)
        vector = _vector(f"{out}_data", values, "i32")
        return _lines(
            *vector,
            _buffer_store(out, address, offset, f"{out}_data", f"vector<{len(values)}xi32>", lane),
        )

    def multiply_add(self, out: str, index: str, size: str, base: str) -> str:
        return _lines(
            f"{out}_index = arith.extui {index} : i32 to i64",
            f"{out}_size = arith.extui {size} : i32 to i64",
            f"{out}_offset = arith.muli {out}_index, {out}_size : i64",
            f"{out} = arith.addi {base}, {out}_offset : i64",
        )

    def header_start(
        self, out: str, area: str, leads: str, cta: str, slot: str, flags: str, digest: str
    ) -> str:
        start = cta_header_offset("start_clock_low")
        launch = byte_offset(LAUNCH_HEADER, "launch_bits")
        said = [f"{out}_clock", cta, f"{out}_ns_low", f"{out}_place"]
        said_of_launch = [flags, f"{out}_digest", f"{out}_nx", f"{out}_ny"]
        return _lines(
            _clocks(f"{out}_time"),
            f"{out}_clock = arith.trunci {out}_time_clock : i64 to i32",
            self._first_thread(f"{out}_lead", leads),
            *_halves(f"{out}_time_ns", f"{out}_ns_low", f"{out}_ns_high"),
            self.sm_id(f"{out}_sm"),
            f"{out}_16 = arith.constant 16 : i32",
            f"{out}_ns_above = arith.shli {out}_ns_high, {out}_16 : i32",
            f"{out}_place = arith.ori {out}_ns_above, {out}_sm : i32",
            self.store(out, area, str(start), said, f"{out}_lead"),
            f"{out}_nought = arith.constant 0 : i32",
            f"{out}_is_zero = arith.cmpi eq, {slot}, {out}_nought : i32",
            f"{out}_zero = arith.andi {out}_is_zero, {out}_lead : i1",
            *(f"{out}_n{axis} = tt.get_num_programs {axis} : i32" for axis in "xy"),
            f"{out}_digest = arith.constant {digest} : i32",
            self.store(f"{out}_of", area, str(launch), said_of_launch, f"{out}_zero"),
        )

    def header_end(self, out: str, area: str, leads: str) -> str:
        end = cta_header_offset("end_clock")
        both = [f"{out}_clock_low", f"{out}_clock_high", f"{out}_ns_low", f"{out}_ns_high"]
        return _lines(
            self._first_thread(f"{out}_lead", leads),
            _clocks(f"{out}_time"),
            *_halves(f"{out}_time_clock", *both[:2]),
            *_halves(f"{out}_time_ns", *both[2:]),
            self.store(out, area, str(end), both, f"{out}_lead"),
        )

    def stamp(self, out: str, buffer: str, begun: str, leads: str = "") -> str:
        high = (1 << ADDRESS_BITS) - BASE_ALIGNMENT
        return _lines(
            _clocks(f"{out}_time"),
            f"{out}_clock = arith.trunci {out}_time_clock : i64 to i32",
            f"{out}_ns = arith.trunci {out}_time_ns : i64 to i32",
            f"{out}_duration = arith.subi {out}_clock, {begun}_clock : i32",
            f"{out}_unit_ns = arith.constant {_NS_PER_TICK} : i32",
            f"{out}_start_ns = arith.muli {begun}_timer, {out}_unit_ns : i32",
            self.sm_id(f"{out}_sm"),
            *_stamp_place(f"{out}_place_word", f"{out}_ns", f"{out}_start_ns", f"{out}_sm"),
            self.linear_cta_id(f"{out}_cta"),
            f"{out}_size = arith.constant {STAMP.itemsize} : i32",
            f"{out}_address_bits = arith.constant {high} : i64",
            f"{out}_base = arith.andi {buffer}, {out}_address_bits : i64",
            self.cta_count(f"{out}_grid"),
            f"{out}_most = arith.constant {MAX_STAMPED} : i32",
            f"{out}_half = arith.constant {MAX_STAMPED // 2} : i32",
            f"{out}_no_less = arith.maxui {out}_grid, {out}_most : i32",
            f"{out}_between = arith.subi {out}_no_less, {out}_most : i32",
            f"{out}_late = arith.cmpi uge, {out}_cta, {out}_half : i32",
            f"{out}_earlier = arith.subi {out}_cta, {out}_between : i32",
            f"{out}_place = arith.select {out}_late, {out}_earlier, {out}_cta : i32",
            f"{out}_at_end = arith.cmpi sge, {out}_earlier, {out}_half : i32",
            f"{out}_at_begin = arith.cmpi ult, {out}_cta, {out}_half : i32",
            f"{out}_fits = arith.ori {out}_at_begin, {out}_at_end : i1",
            self.multiply_add(f"{out}_address", f"{out}_place", f"{out}_size", f"{out}_base"),
            f"{out}_bits = arith.trunci {buffer} : i64 to i32",
            f"{out}_enable = arith.constant {LaunchBits.ENABLE} : i32",
            f"{out}_enabled = arith.andi {out}_bits, {out}_enable : i32",
            f"{out}_off = arith.constant 0 : i32",
            f"{out}_on = arith.cmpi ne, {out}_enabled, {out}_off : i32",
            f"{out}_stamped = arith.andi {out}_fits, {out}_on : i1",
            *(
                [f"{out}_true = arith.constant true", f"{out}_rest = arith.xori {leads}, {out}_true : i1",
                 f"{out}_quiet = arith.andi {out}_stamped, {out}_rest : i1"]
                if leads else []
            ),
            self._first_thread(f"{out}_lead", f"{out}_quiet" if leads else f"{out}_stamped"),
            self.store(
                out, f"{out}_address", "0",
                [f"{begun}_clock", f"{out}_start_ns", f"{out}_duration", f"{out}_place_word"], f"{out}_lead",
            ),
        )  # fmt: skip

    def _first_thread(self, out: str, leads: str) -> str:
        return _lines(
            self.thread_id(f"{out}_thread"),
            f"{out}_number = arith.constant 0 : i32",
            f"{out}_first = arith.cmpi eq, {out}_thread, {out}_number : i32",
            f"{out} = arith.andi {out}_first, {leads} : i1",
        )


def _clocks(out: str) -> str:
    """`_clock`, `_ticks`, `_ns`: the shader clock, the global timer and that in ns, i64."""
    return _lines(
        _fence(f"{out}_before"),
        _call(f"{out}_clock", "s.memtime", "i64"),
        _call(f"{out}_ticks", "s.memrealtime", "i64"),
        _fence(f"{out}_behind"),
        f"{out}_unit = arith.constant {_NS_PER_TICK} : i64",
        f"{out}_ns = arith.muli {out}_ticks, {out}_unit : i64",
    )


def _stamp_place(out: str, end_ns: str, start_ns: str, sm: str) -> list[str]:
    """`out`: i32, the `place` of a stamp."""
    constants = {
        "least": 1,
        "most": (1 << 31) - 1,  # rounded up it is 2^31, and still fits
        "of_one": FLOAT32_ONE,
        "up": PLACE_RANK_SHIFT - DURATION_SHIFT,
        "above": -1 << PLACE_RANK_SHIFT,
    }
    return [
        *(f"{out}_{name} = arith.constant {value} : i32" for name, value in constants.items()),
        f"{out}_ns = arith.subi {end_ns}, {start_ns} : i32",
        f"{out}_some = arith.maxui {out}_ns, {out}_least : i32",
        f"{out}_fits = arith.minui {out}_some, {out}_most : i32",
        f"{out}_float = arith.uitofp {out}_fits : i32 to f32",
        f"{out}_bits = arith.bitcast {out}_float : f32 to i32",
        f"{out}_kept = arith.subi {out}_bits, {out}_of_one : i32",
        f"{out}_shifted = arith.shli {out}_kept, {out}_up : i32",
        f"{out}_length = arith.andi {out}_shifted, {out}_above : i32",
        f"{out} = arith.ori {out}_length, {sm} : i32",
    ]


def _halves(value: str, low: str, high: str) -> list[str]:
    """The two i32 of an i64."""
    return [
        f"{low} = arith.trunci {value} : i64 to i32",
        f"{high}_by = arith.constant 32 : i64",
        f"{high}_shifted = arith.shrui {value}, {high}_by : i64",
        f"{high} = arith.trunci {high}_shifted : i64 to i32",
    ]


def _buffer_store(out: str, address: str, offset: str, data: str, kind: str, lane: str) -> str:
    """Lanes that are not to store have an offset outside the buffer, as in Triton's own masked buffer
    stores: no branch is needed and no change of the execution mask."""
    suffix = "i32" if kind == "i32" else f"v{kind[len('vector<')]}i32"
    return _lines(
        f"{out}_low = arith.trunci {address} : i64 to i32",
        f"{out}_32 = arith.constant 32 : i64",
        f"{out}_above = arith.shrui {address}, {out}_32 : i64",
        f"{out}_high = arith.trunci {out}_above : i64 to i32",
        _first_lane(f"{out}_base0", f"{out}_low"),
        _first_lane(f"{out}_base1", f"{out}_high"),
        f"{out}_records = arith.constant {_RECORDS} : i32",
        f"{out}_format = arith.constant {_FORMAT} : i32",
        *_vector(f"{out}_rsrc", [f"{out}_{part}" for part in ("base0", "base1", "records", "format")], "i32"),
        f"{out}_here = arith.constant {offset} : i32",
        f"{out}_none = arith.constant 0 : i32",
        f"{out}_outside = arith.constant {_OUTSIDE} : i32",
        f"{out}_offset = arith.select {lane}, {out}_none, {out}_outside : i32",
        f"{out}_cache = arith.constant {_NONTEMPORAL} : i32",
        f'llvm.call_intrinsic "llvm.amdgcn.raw.buffer.store.{suffix}"'
        f"({data}, {out}_rsrc, {out}_offset, {out}_here, {out}_cache) "
        f": ({kind}, vector<4xi32>, i32, i32, i32) -> ()",
    )


def _lines(*parts: str) -> str:
    return "\n".join(parts)


def _call(out: str, intrinsic: str, kind: str, operand: str = "") -> str:
    """A call of an LLVM intrinsic that takes nothing or an i32."""
    signature = f"({operand}) : ({'i32' if operand else ''}) -> {kind}"
    return f'{out} = llvm.call_intrinsic "llvm.amdgcn.{intrinsic}"{signature}'


def _fence(name: str) -> str:
    """No instruction is scheduled across; emits none. `rocdl.sched.barrier` has two spellings."""
    return _lines(
        f"{name} = arith.constant 0 : i32",
        f'llvm.call_intrinsic "llvm.amdgcn.sched.barrier"({name}) : (i32) -> ()',
    )


def _first_lane(out: str, value: str) -> str:
    return _call(out, "readfirstlane.i32", "i32", value)


def _vector(out: str, values: Sequence[str], element: str) -> list[str]:
    kind = f"vector<{len(values)}x{element}>"
    lines = [f"{out}_e0 = llvm.mlir.undef : {kind}"]
    for index, value in enumerate(values):
        after = out if index == len(values) - 1 else f"{out}_e{index + 1}"
        lines += [
            f"{out}_i{index} = arith.constant {index} : i32",
            f"{after} = llvm.insertelement {value}, {out}_e{index}[{out}_i{index} : i32] : {kind}",
        ]
    return lines
