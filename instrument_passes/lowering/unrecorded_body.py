"""A copy of a kernel's code without records, for the CTAs that do not record.

    ctas=64 of a grid of 4,096: 64 CTAs run the code with records, the others the code without

The assembler moves nothing across a clock read. So loads that the bare kernel has in flight together wait for
one another, in a CTA that records and in one that only skips the stores. Here the kernel begins with the
question whether its CTA records, and has its body twice. A kernel that cannot have two runs its own for all
CTAs; either way a CTA that does not record writes its stamp when it leaves.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from profscope.instrument_passes.dialect import BUFFER
from profscope.instrument_passes.ir import Block, Module, Op, Region
from profscope.instrument_passes.ir.tokens import tokenize, unquote
from profscope.instrument_passes.lowering.prologue import Area, Program, allocate, find_area
from profscope.instrument_passes.records import LaunchBits

__all__ = ["can_have_one", "join", "without_records"]

# Partitions share registers and barriers by number; a call's callee would be there twice; tensor memory is
# given out once.
_ONLY_ONCE: Final = ("ttg.warp_specialize", "tt.call", "ttng.tmem_")
_ASSEMBLY: Final = ("tt.elementwise_inline_asm", "ttg.inline_asm")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BRACES: Final = re.compile(r"\{[^{}]*\}")
# A directive, as `.reg .pred p;`, or a label, but no `::` of an instruction.
_DECLARATION: Final = re.compile(r"(?:^|[;\n])\s*(?:\.|[\w$%.]+\s*:(?!:))")


def can_have_one(module: Module, kernel: Op) -> bool:
    """Whether the kernel's body may stand there twice. In clusters CTAs reach into each other's shared
    memory, where both bodies do not have the same things at the same place."""
    if module.integer("ttg.num-ctas", 1) > 1:
        return False
    return not any(op.name.startswith(_ONLY_ONCE) or _declares(op) for op in kernel.walk())


def _declares(op: Op) -> bool:
    """Whether it is assembly with names of the whole function, which must not be there twice: labels and
    registers outside of braces."""
    if op.name not in _ASSEMBLY:
        return False
    text = next((unquote(piece.text) for piece in op.header.pieces if piece.kind == "string"), "")
    text, found = _COMMENT.sub("", text), 1
    while found:
        text, found = _BRACES.subn("", text)
    return _DECLARATION.search(text) is not None


def without_records(module: Module, kernel: Op) -> list[Block]:
    """Copies of the blocks of a kernel whose records are not lowered yet, with names of their own."""
    arguments = {value.name for value in kernel.regions[0].entry.args}
    prefix = module.fresh("ps_bare").removeprefix("%")
    text = _renamed(str(kernel), arguments, prefix)
    (copy,) = module.parse_ops(text, module.filename, kernel.line)
    copy.module_ref = module
    for op in tuple(copy.walk()):
        if op.name.startswith("profscope."):
            op.erase()
    return copy.regions[0].blocks


def join(program: Program, bare: list[Block]) -> None:
    """Put a prologue in front of the kernel, whose records are lowered, by which its CTAs choose."""
    module, kernel = program.module, program.kernel
    region, area = kernel.regions[0], Area.fresh(module)
    (allocated,) = (op for op in kernel.walk() if op.name == BUFFER)
    buffer = allocated.results[0].name
    allocated.erase()
    p = module.fresh("ps_choice")
    records, leaves_out = (f"^{p.removeprefix('%')}_{name}" for name in ("records", "bare"))
    indent = region.entry.indent
    region.entry.set_header(f"\n{indent}{records}:")
    _add(region, bare, f"\n{indent}{leaves_out}:")
    prologue = Block("", [])
    prologue.parent = region
    region.blocks.insert(0, prologue)
    found = find_area(program, area, buffer, stamps=False)
    prologue.prepend(
        f"{allocate(buffer)}\n{found}\n"
        f"{p}_enable = arith.constant {LaunchBits.ENABLE} : i32\n"
        f"{p}_none = arith.constant 0 : i32\n"
        f"{p}_bits = arith.andi {area.settled}, {p}_enable : i32\n"
        f"{p} = arith.cmpi ne, {p}_bits, {p}_none : i32\n"
        f"cf.cond_br {p}, {records}, {leaves_out}"
    )
    if program.stamps:
        _stamp(program, bare, area.raw)


def _stamp(program: Program, bare: list[Block], buffer: str) -> None:
    """Store when the CTA began and ended, and where, as it leaves: one store, so that until then only two
    registers are held. buffer: its address with all bits."""
    module, target = program.module, program.target
    begun = module.fresh("ps_begun")
    bare[0].prepend(target.entry_clocks(begun))
    for end in [block.terminator for block in bare]:
        if end is not None and end.name == "tt.return":
            end.insert_before(target.stamp(module.fresh("ps_none"), buffer, begun))


def _add(region: Region, blocks: list[Block], header: str) -> None:
    for block in blocks:
        block.parent = region
        region.blocks.append(block)
    blocks[0].set_header(header)


def _renamed(text: str, arguments: Collection[str], prefix: str) -> str:
    """The text with other names for all values but the arguments, and for all labels."""
    pieces, at = [], 0
    for token in tokenize(text):
        if token.kind == "value" and token.text.partition("#")[0] in arguments:
            continue
        if token.kind in ("value", "label"):
            pieces += [text[at : token.start + 1], prefix, "_"]
            at = token.start + 1
    return "".join([*pieces, text[at:]])
