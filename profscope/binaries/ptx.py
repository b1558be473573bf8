"""The lines of a kernel's PTX, and the lines of the source that led to each.

    .loc  2 263 15                  // standard.py:263:15 @[ standard.py:293:36 @[ work.py:47:21 ] ]

A `.loc` names the innermost line; LLVM puts the calls that were inlined around it into the comment, the
nearest first. They have no folders: these come from the `.file` directives. From Triton 3.8 on it names the
nearest call instead, whose own `.loc` came before:

    .loc  2 293 36, function_name $L__info_string0, inlined_at 1 47 21
    .loc  2 263 15, function_name $L__info_string0, inlined_at 2 293 36

A function that is not inlined does not name its callers. If only one place calls it, its lines get that place
as caller, like a function's records.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from profscope.emulator.ptx_parser import with_one_place

__all__ = ["Frame", "Ptx", "elf_sections", "embedded", "is_of", "read_ptx"]

_LOC: Final = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?[^/]*(?://\s*(.*))?")
_INLINED: Final = re.compile(r"\binlined_at\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE: Final = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)")
_FRAME: Final = re.compile(r"(?P<file>[^\s@\[\]]+?):(?P<line>\d+)(?::(?P<column>\d+))?(?=[\s\]]|$)")
_FUNCTION: Final = re.compile(r"\.func\s+(?:\([^)]*\)\s*)?([\w$]+)")
# Of a loop, and of what it reads.
_CALL: Final = re.compile(r"\s*(?:@!?%\w+\s+)?call(?:\.uni)?\s+(?:\([^)]*\)\s*,\s*)?([\w$]+)")
_DIRECTIVE: Final = re.compile(r"\s*\.(?:loc|file|section|b8|b16|b32|b64)\b")


class Frame(NamedTuple):
    """A line of the source; column: from 0, as Triton has it."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Ptx:
    """kernel: the name of the entry. chains: by line of the PTX from 1, at [line - 1], the frames, innermost
    first; () before the first `.loc`."""

    kernel: str
    chains: tuple[tuple[Frame, ...], ...]


def read_ptx(text: str) -> Ptx:
    """Read the line information of PTX as LLVM prints it."""
    lines = with_one_place(text).splitlines()
    files = {match[1]: match[2] for line in lines if (match := _FILE.match(line))}
    named: dict[str, set[str]] = {}
    for file in files.values():
        named.setdefault(re.split(r"[\\/]", file)[-1], set()).add(file)
    only = {base: next(iter(paths)) for base, paths in named.items() if len(paths) == 1}
    chains: list[tuple[Frame, ...]] = []
    chain: tuple[Frame, ...] = ()
    entry = ""
    placed: dict[tuple[str, ...], list[tuple[Frame, ...]]] = {}  # by file, line, column: the chains so far
    function, within, calls = "", [], dict[str, list[int]]()
    for at_line, line in enumerate(lines):
        if match := _LOC.match(line):
            number, at, column, comment = match.groups()
            innermost = Frame(files.get(number, ""), int(at), int(column or 0))
            callers = list(_FRAME.finditer(comment or ""))[1:]
            inlined = _INLINED.search(line)
            if inlined is not None:
                outer = _caller(placed.get(inlined.groups(), []), chain)
                call = Frame(files.get(inlined[1], ""), int(inlined[2]), int(inlined[3]))
                chain = (innermost, *(outer or (call,)))
            else:
                chain = (innermost, *(_frame(each, only) for each in callers))
            placed.setdefault((number, at, column or "0"), []).append(chain)
        elif ".entry" in line and (found := _ENTRY.search(line)):
            entry, chain, function = found[1], (), ""
        elif line.lstrip().startswith(".func"):
            named_here = _FUNCTION.search(line)
            chain, function = (), named_here[1] if named_here else ""
        elif "call" in line and (called := _CALL.match(" ".join(lines[at_line : at_line + 2]))):
            calls.setdefault(called[1], []).append(at_line)
        chains.append(chain)
        within.append(function)
    return Ptx(entry, _from_callers(chains, within, calls))


def elf_sections(cubin: bytes) -> list[tuple[bytes, bytes]]:
    """Names and contents of the sections of an ELF file of 64 bits; none of anything else."""
    if cubin[:5] != b"\x7fELF\x02":
        return []
    try:
        (table,) = struct.unpack_from("<Q", cubin, 0x28)
        size, count, names_at = struct.unpack_from("<3H", cubin, 0x3A)
        headers = [struct.unpack_from("<IIQQQQ", cubin, table + size * at) for at in range(count)]
        names = headers[names_at][4]
    except (struct.error, IndexError):
        return []
    return [
        (cubin[names + name : cubin.find(b"\0", names + name)], cubin[offset : offset + length])
        for name, _, _, _, offset, length in headers
    ]


def embedded(cubin: bytes) -> list[str] | None:
    """The lines of the PTX that a cubin was made of, as ptxas keeps them: without comments and line
    information.

    None if the cubin has none. It is the section `.nv_debug_ptx_txt` of the ELF file; a line ends with a
    zero.
    """
    for name, content in elf_sections(cubin):
        if name == b".nv_debug_ptx_txt":
            return content.decode(errors="replace").split("\0")
    return None


def is_of(text: str, lines: list[str]) -> bool:
    """Whether PTX is the one that a cubin has embedded, line by line but for comments and line
    information."""
    given = text.splitlines()
    if not 0 <= len(lines) - len(given) <= 1:
        return False
    return all(
        _DIRECTIVE.match(ours) or _plain(ours) == _plain(theirs)
        for ours, theirs in zip(given, lines, strict=False)
    )


def _from_callers(
    chains: Sequence[tuple[Frame, ...]], within: Sequence[str], calls: Mapping[str, Sequence[int]]
) -> tuple[tuple[Frame, ...], ...]:
    """The chains, those of a function that only one line calls with that line's behind them.

    within: by line the function that it is in; calls: by function the lines that call it.
    """

    def outer(function: str, inside: frozenset[str] = frozenset()) -> tuple[Frame, ...]:
        callers = calls.get(function, ())
        if len(callers) != 1 or function in inside:
            return ()
        return chains[callers[0]] + outer(within[callers[0]], inside | {function})

    added = {function: outer(function) for function in set(within)}
    return tuple(chain and chain + added[function] for chain, function in zip(chains, within, strict=True))


def _caller(chains: list[tuple[Frame, ...]], last: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Of the chains of a call's place, that of the outermost line of the code before; else the latest."""
    same = [chain for chain in chains if last and chain[-1] == last[-1]]
    return (same or chains or [()])[-1]


def _frame(match: re.Match[str], only: dict[str, str]) -> Frame:
    return Frame(only.get(match["file"], match["file"]), int(match["line"]), int(match["column"] or 0))


def _plain(line: str) -> str:
    return " ".join(line.partition("//")[0].split())
