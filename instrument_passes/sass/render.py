"""The table of a binary's instructions as text, for `profscope opt --map`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from instrument_passes.errors import ToolchainError
from instrument_passes.sass.rows import Instructions, Row, instructions_in, instructions_of
from instrument_passes.toolchain import built

__all__ = ["map_cubin", "map_module", "render"]

_HEADS: Final = ("pc", "sass", "class", "ttgir op", "place", "waits for")
_WIDEST_SASS: Final = 60


def map_cubin(cubin: Path, ptx: Path | None) -> Instructions:
    """The instructions of a cubin file; its PTX is beside it unless given. Raises OSError, ToolchainError."""
    return instructions_in(cubin, cubin.with_suffix(".ptx") if ptx is None else ptx)


def map_module(text: str, file: str) -> Instructions:
    """The instructions that a module of TTGIR becomes. Raises IRError, ToolchainError."""
    target, left, _ = built(text, file)
    if "cubin" not in left:
        raise ToolchainError(f"{file}: instructions are told for NVIDIA GPUs, not for {target}")
    return instructions_of(left["cubin"], left["ptx"], text)


def render(instructions: Instructions) -> str:
    """One line an instruction, then how many there are of each class, then the notes."""
    table = [_HEADS, *map(_cells, instructions.rows)]
    widths = [max(len(cells[at]) for cells in table) for at in range(len(_HEADS) - 1)]
    lines = []
    for cells in table:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        lines.append("  ".join([padded[0].strip().rjust(widths[0]), *padded[1:], cells[-1]]).rstrip())
    counts = Counter(row.cls for row in instructions.rows)
    classes = ", ".join(f"{count} {cls}" for cls, count in counts.most_common())
    lines += [f"{instructions.kernel}: {len(instructions.rows)} instructions: {classes}"]
    lines += [f"note: {note}" for note in instructions.notes]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    place = f"{Path(row.file).name}:{row.line}" if row.line else ""
    sass = row.sass if len(row.sass) <= _WIDEST_SASS else f"{row.sass[: _WIDEST_SASS - 3]}..."
    waits = " ".join(map(str, row.waits_for))
    return str(row.pc), sass, row.cls, row.ttgir_op, row.call_path or place, waits
