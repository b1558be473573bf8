"""Clock reads of the PTX that ptxas has not left where they stand.

Where a clock has gone into a uniform register and is wanted in another one, ptxas may read the clock again in
its place, much later: then a span begins after its end, and lasts 2^32 cycles. A read done again has the PTX
line of what wants it, so the line of the read itself is missing in the binary.
"""

from __future__ import annotations

from instrument_passes.sass.listing import read_line_tables, read_listing
from instrument_passes.toolchain import disassembled

__all__ = ["moved_clock_reads"]


def moved_clock_reads(ptx: str, cubin: bytes) -> list[int]:
    """The PTX lines, from 1, of the clock reads that the binary has not; none where it has no line table.

    Raises ToolchainError as `disassembled` does.
    """
    written = {at for at, line in enumerate(ptx.splitlines(), 1) if "%clock" in line}
    text = disassembled(cubin)
    lines = read_line_tables(text)[1]
    if not lines:
        return []
    read = {
        lines.get(each.pc)
        for each in read_listing(text).instructions
        if any("CLOCKLO" in operand for operand in each.operands)
    }
    return sorted(written - read)
