"""PTX with code that counts: how often each basic block runs, and what each access moves.

A block adds to its word when it is entered; an access adds to its two words before it runs. Nothing else
changes: the kernel computes what it did. One lane of a warp adds, without waiting for it, to one of `COPIES`
sets of words, so that warps do not queue for one address. Predicated-off lanes of an access take part in what
a warp does together, and count nothing.

Each word is a sum of 64 bits, of all warps of all counting CTAs:

    of a block      warps << 32 | lanes
    of an access    lanes << 32 | sectors or wavefronts; then the fewest that these lanes' bytes need

A number has room for 2^27 executions by the warps that share a set: seconds of one launch. Sectors and
wavefronts are those of `emulator.machine.transactions`. Needs compute capability 8.0 (`redux`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from profscope.emulator.arrays import LANES
from profscope.emulator.machine.transactions import LINE, SECTOR, WORD

__all__ = ["COPIES", "HIGH", "WORDS", "Access", "CountingPtx", "counting_ptx"]

COPIES: Final = 64
HIGH: Final = 32
"""Of a word, the bit at which its upper number begins."""
WORDS: Final = "profscope_counts"
"""The variable with the sums."""

_FUNCTION: Final = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)?\.(?:entry|func)\b")
_LABEL: Final = re.compile(r"^(\$L__BB\w+):")
_BRANCH: Final = re.compile(r"^\s*(@!?%\w+\s+)?bra(?:\.uni)?\s+(\$L__BB\w+)")  # others stay in an assembly
_CODE: Final = re.compile(r"^\s*[^\s./}]")  # no directive, no comment, and a scope from its brace on
_ACCESS: Final = re.compile(
    r"(?P<guard>@!?%?[\w$]+\s+)?"
    r"(?P<opcode>(?:ld|st|atom|red|ldmatrix|stmatrix|cp\.async\.c[ag])\.[\w.:]*)\s+(?P<operands>[^;]*);"
)
_ADDRESS: Final = re.compile(r"\[\s*(%?[\w$.]+)\s*(?:\+\s*(-?\d+)\s*)?\]")
_SPACE: Final = re.compile(r"\.(global|shared)(?=[.:\s]|$)")
_TYPE: Final = re.compile(r"(?:\.v(\d))?\.(?:bf|[bfsu])(\d+)(x2)?$")
_MATRICES: Final = re.compile(r"\.m(\d+)n(\d+)\.x(\d)\b")
_ROW_BYTES = 16
_READ: Final = re.compile(r"%r\d+|\d\w*")  # of a copy: how many bytes; a policy has 64 bits


@dataclass(frozen=True)
class Access:
    """ptx_line: from 1. kind: the opcode's first word. space: "global" or "shared". bytes: of a lane. word:
    the first of two."""

    ptx_line: int
    kind: str
    space: str
    bytes: int
    word: int


@dataclass(frozen=True)
class CountingPtx:
    """text: PTX that counts. blocks: by line of the PTX that was given, at [line - 1], the word of its block;
    -1 outside of functions. loops: of words, from the first block of a loop to the one that goes back to it.
    accesses: an asynchronous copy is two. words: of one copy."""

    text: str
    blocks: tuple[int, ...]
    loops: tuple[range, ...]
    accesses: tuple[Access, ...]
    words: int


def counting_ptx(ptx: str, every: int = 1) -> CountingPtx:
    """PTX as LLVM prints it, with code that counts. every: of so many CTAs one does."""
    return _Rewriter(every).rewritten(ptx)


class _Rewriter:
    def __init__(self, every: int) -> None:
        self._every = every
        self._lines: list[str] = []
        self._blocks: list[int] = []
        self._loops: list[range] = []
        self._accesses: list[Access] = []
        self._words = 0
        self._block = -1  # -1 outside of functions
        self._labels = 0

    def rewritten(self, ptx: str) -> CountingPtx:
        in_header = begins = False
        labelled: dict[str, int] = {}
        for number, line in enumerate(ptx.splitlines(), 1):
            if _FUNCTION.match(line):
                in_header, self._block = True, -1
            if in_header and line.strip() == "{":
                in_header, begins = False, True
                self._lines += [line, _PROLOGUE.format(every=self._every)]
            elif label := _LABEL.match(line):
                begins = False
                self._lines.append(line)
                self._begin_block()
                labelled[label[1]] = self._block
            else:
                if begins and _CODE.match(line):
                    begins = False
                    self._begin_block()
                self._lines.append(line if self._block < 0 else self._counted(line, number))
            self._blocks.append(self._block)
            if self._block >= 0 and (branch := _BRANCH.match(line)):
                begins = branch[1] is not None
                if branch[2] in labelled:
                    self._loops.append(range(labelled[branch[2]], self._block + 1))
        text = "\n".join(self._lines) + "\n"
        words = max(1, self._words)
        declared = f".visible .global .align 8 .b64 {WORDS}[{COPIES * words}];\n"
        text = text.replace(_STRIDE, str(8 * words))
        head, size, rest = text.partition(".address_size 64\n")
        return CountingPtx(
            text=head + size + declared + rest,
            blocks=tuple(self._blocks),
            loops=tuple(self._loops),
            accesses=tuple(self._accesses),
            words=self._words,
        )

    def _begin_block(self) -> None:
        self._block = self._words
        self._words += 1
        self._lines.append(
            "{ .reg .b32 %psa, %psb; .reg .b64 %psq; .reg .pred %psp; activemask.b32 %psa; "
            "and.b32 %psb, %psa, %ps_lt; setp.eq.and.b32 %psp, %psb, 0, %ps_on; popc.b32 %psb, %psa; "
            f"cvt.u64.u32 %psq, %psb; add.s64 %psq, %psq, {1 << HIGH}; "
            f"@%psp red.relaxed.gpu.global.add.u64 [%ps_base+{8 * self._block}], %psq; }}"
        )

    def _counted(self, line: str, number: int) -> str:
        """A line, with code before each of its accesses."""
        parts, done = [], 0
        code, _, _ = line.partition("//")
        for found in _ACCESS.finditer(code):
            before = "".join(self._before(found, number))
            parts += [line[done : found.start()], before]
            done = found.start()
        return "".join(parts) + line[done:]

    def _before(self, found: re.Match[str], number: int) -> Iterator[str]:
        opcode, operands, guard = found["opcode"], found["operands"], (found["guard"] or "").strip()
        addresses = _ADDRESS.findall(operands)
        kind = opcode.partition(".")[0]
        if kind == "cp":
            size, *read = (each.strip() for each in operands.rpartition("]")[2].strip(", ").split(","))
            if (len(addresses) == 2 and size[:2].lower() == "0x") or size.isdecimal():
                bytes_ = int(size, 0)
                yield self._wavefronts(number, kind, addresses[0], bytes_, guard)
                sizes = [each for each in read[:1] if _READ.fullmatch(each)]
                yield self._sectors(number, kind, addresses[1], bytes_, guard, *sizes)
            return
        space, width, matrices = _SPACE.search(opcode), _TYPE.search(opcode), _MATRICES.search(opcode)
        if space is None or not addresses:
            return
        if matrices:
            rows = min(int(matrices[1]), int(matrices[2])) * int(matrices[3])
            yield self._wavefronts(number, kind, addresses[0], _ROW_BYTES, guard, lanes=rows)
            return
        if width is None:
            return
        bytes_ = int(width[1] or 1) * int(width[2]) * (2 if width[3] else 1) // 8
        if space[1] == "shared":
            yield self._wavefronts(number, kind, addresses[0], bytes_, guard)
        else:
            yield self._sectors(number, kind, addresses[0], bytes_, guard)

    def _access(self, number: int, kind: str, space: str, bytes_: int) -> int:
        word = self._words
        self._words += 2
        self._accesses.append(Access(number, kind, space, bytes_, word))
        return word

    def _sectors(
        self, number: int, kind: str, address: tuple[str, str], bytes_: int, guard: str, read: str = "1"
    ) -> str:
        """read: the operand that says how many bytes a copy reads."""
        word = self._access(number, kind, "global", bytes_)
        base, offset = address
        body = (
            f"mov.b64 %psq, {base}; add.s64 %psq, %psq, {offset or 0}; shr.u64 %psq, %psq, 5; "
            f"setp.ne.and.b32 %psr, {read}, 0, %psw; @!%psr mov.b64 %psq, -1; "
            "match.any.sync.b64 %psb, %psq, %psa; and.b32 %psb, %psb, %ps_lt; "
            "setp.eq.and.b32 %psp, %psb, 0, %psr; "
            "vote.sync.ballot.b32 %psb, %psp, %psa; popc.b32 %psb, %psb; "
        )
        return self._scope(body, guard, word, bytes_, SECTOR)

    def _wavefronts(
        self, number: int, kind: str, address: tuple[str, str], bytes_: int, guard: str, lanes: int = LANES
    ) -> str:
        """Of each part of a warp that is done at a time, the busiest bank's different words. lanes: of the
        warp, those that access."""
        word = self._access(number, kind, "shared", bytes_)
        base, offset = address
        size = max(WORD, bytes_)
        at_a_time = min(LANES, LINE // size)
        shift, part = size.bit_length() - 1, at_a_time.bit_length() - 1
        moved = f"cvt.u32.u64 %psc, {base}" if base.startswith("%rd") else f"mov.b32 %psc, {base}"
        few = f"setp.lt.and.u32 %psr, %ps_lane, {lanes}, %psw; " if lanes < LANES else ""
        tail = "".join(
            f"setp.eq.u32 %psv, %psg, {at}; selp.b32 %psd, %psc, 0, %psv; "
            "redux.sync.max.u32 %psd, %psd, %psa; add.s32 %psb, %psb, %psd; "
            for at in range(LANES // at_a_time)
        )
        body = (
            f"{moved}; add.s32 %psc, %psc, {offset or 0}; {few}shr.u32 %psc, %psc, {shift}; "
            f"shr.u32 %psg, %ps_lane, {part}; "
            "shl.b32 %psd, %psg, 24; or.b32 %psd, %psd, %psc; @!%psr mov.b32 %psd, -1; "
            "match.any.sync.b32 %psb, %psd, %psa; and.b32 %psb, %psb, %ps_lt; "
            "setp.eq.and.b32 %psp, %psb, 0, %psr; "
            f"and.b32 %psc, %psc, {at_a_time - 1}; shl.b32 %psd, %psg, 8; or.b32 %psd, %psd, %psc; "
            "@!%psp or.b32 %psd, %ps_lane, 0x80000000; match.any.sync.b32 %psb, %psd, %psa; "
            "popc.b32 %psc, %psb; @!%psp mov.b32 %psc, 0; mov.b32 %psb, 0; " + tail
        )
        return self._scope(body, guard, word, bytes_, LINE)

    def _scope(self, body: str, guard: str, word: int, bytes_: int, unit: int) -> str:
        """Code that counts one access. body: leaves in %psb what a warp takes. %psa: which lanes are here;
        %psw: whether a lane executes the access; %psr: whether it moves something."""
        self._labels += 1
        label = f"$profscope_{self._labels}"
        name, negated = guard.lstrip("@!"), guard.startswith("@!")
        wants = f"setp.ne.b32 %psw, 0, 0; @{'!' * negated}{name} setp.eq.b32 %psw, 0, 0; " if guard else (
            "setp.eq.b32 %psw, 0, 0; "
        )  # fmt: skip
        return (
            "{ .reg .b32 %psa, %psb, %psc, %psd, %psg; .reg .b64 %psq, %pst; "
            ".reg .pred %psp, %psr, %psv, %psw; "
            f"@!%ps_on bra {label}; activemask.b32 %psa; {wants}mov.pred %psr, %psw; {body}"
            "vote.sync.ballot.b32 %psd, %psw, %psa; popc.b32 %psd, %psd; "
            f"cvt.u64.u32 %psq, %psd; shl.b64 %psq, %psq, {HIGH}; "
            "vote.sync.ballot.b32 %psd, %psr, %psa; popc.b32 %psd, %psd; "
            "cvt.u64.u32 %pst, %psb; add.s64 %psq, %psq, %pst; "
            f"mul.lo.u32 %psd, %psd, {bytes_}; add.u32 %psd, %psd, {unit - 1}; "
            f"shr.u32 %psd, %psd, {unit.bit_length() - 1}; min.u32 %psd, %psd, %psb; cvt.u64.u32 %pst, %psd; "
            "and.b32 %psb, %psa, %ps_lt; setp.eq.u32 %psp, %psb, 0; "
            f"@%psp red.relaxed.gpu.global.add.u64 [%ps_base+{8 * word}], %psq; "
            f"@%psp red.relaxed.gpu.global.add.u64 [%ps_base+{8 * word + 8}], %pst; }}\n{label}:\n"
        )


_STRIDE: Final = "PROFSCOPE_STRIDE"  # until all words are known
_PROLOGUE: Final = (
    ".reg .pred %ps_on; .reg .b32 %ps_lane, %ps_lt, %ps_n, %ps_c, %ps_y; .reg .b64 %ps_base, %ps_at; "
    "mov.u32 %ps_lane, %laneid; mov.u32 %ps_lt, %lanemask_lt; mov.u32 %ps_c, %ctaid.z; "
    "mov.u32 %ps_n, %nctaid.y; mov.u32 %ps_y, %ctaid.y; mad.lo.u32 %ps_c, %ps_c, %ps_n, %ps_y; "
    "mov.u32 %ps_n, %nctaid.x; mov.u32 %ps_y, %ctaid.x; mad.lo.u32 %ps_c, %ps_c, %ps_n, %ps_y; "
    "div.u32 %ps_n, %ps_c, {every}; mul.lo.u32 %ps_y, %ps_n, {every}; setp.eq.u32 %ps_on, %ps_y, %ps_c; "
    "mov.u32 %ps_y, %tid.x; shr.u32 %ps_y, %ps_y, 5; mad.lo.u32 %ps_y, %ps_n, 5, %ps_y; "
    f"and.b32 %ps_y, %ps_y, {COPIES - 1}; "
    f"mov.u64 %ps_base, {WORDS}; mul.wide.u32 %ps_at, %ps_y, {_STRIDE}; "
    "add.s64 %ps_base, %ps_base, %ps_at;"
)
"""In front of a function's registers: whether its CTA counts, and where its warp adds."""
