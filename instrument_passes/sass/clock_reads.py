"""Clock reads that ptxas has not left where the PTX has them.

Where a clock has gone into a uniform register and is wanted in another one, ptxas may read the clock again in
its place, much later: then a span begins after its end, and lasts 2^32 cycles. A read done again has the PTX
line of what wants it. The read itself is then missing in the binary, or still there for others that want it.
"""

from __future__ import annotations

from instrument_passes.sass.listing import read_line_tables, read_listing
from instrument_passes.toolchain import disassembled

__all__ = ["moved_clock_reads"]


def moved_clock_reads(ptx: str, cubin: bytes) -> list[int]:
    """The PTX lines, from 1, whose clock reads the binary has not, and those that read the clock only there;
    none where it has no line table.

    Raises ToolchainError as `disassembled` does.
    """
    written = {at for at, line in enumerate(ptx.splitlines(), 1) if "%clock" in line}
    text = disassembled(cubin)
    lines = read_line_tables(text)[1]
    if not lines:
        return []
    read = {
        lines.get(each.pc, 0)
        for each in read_listing(text).instructions
        if any("CLOCKLO" in operand for operand in each.operands)
    }
    return sorted(written ^ read)
