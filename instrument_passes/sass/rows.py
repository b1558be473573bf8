"""The table of a binary's instructions: what each is, where it comes from, and what it waits for."""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from instrument_passes.analyses.places import Place, Places, call_paths
from instrument_passes.errors import IRError, ToolchainError
from instrument_passes.functions import Function, checked, functions_in
from instrument_passes.ir import Module, parse
from instrument_passes.sass.classes import class_of
from instrument_passes.sass.listing import Listing, read_line_tables, read_listing
from instrument_passes.sass.ops import Ops
from instrument_passes.sass.ptx import Frame, Ptx, embedded, is_of, read_ptx
from instrument_passes.sass.waits import waits_of
from instrument_passes.toolchain import disassembled

__all__ = ["Instructions", "Row", "SourcePlace", "instructions_in", "instructions_of", "ptx_places"]

_KEPT: Final = 32  # binaries that are not read again


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction; see `profscope.instructions`, whose columns these are."""

    pc: int
    opcode: str
    sass: str
    cls: str
    ptx_line: int
    ttgir_op: str
    file: str
    line: int
    column: int
    call_path: str
    waits_for: tuple[int, ...]


@dataclass(frozen=True)
class Instructions:
    """kernel: its name in the PTX. notes: what could not be told, for the user."""

    kernel: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


class SourcePlace(NamedTuple):
    """Where an instruction comes from, as in `Row`."""

    file: str
    line: int
    column: int
    call_path: str


@lru_cache(maxsize=_KEPT)
def ptx_places(ptx: str) -> tuple[SourcePlace, ...]:
    """By line of the PTX from 1, at [line - 1], where it comes from. Functions are read from their files."""
    lines = read_ptx(ptx)
    chains = tuple(dict.fromkeys(lines.chains))
    places = dict(zip(chains, _places(chains, _functions(chains), lines.kernel), strict=True))
    paths = call_paths(dict.fromkeys(("", place) for place in places.values()))
    known = {
        chain: SourcePlace(place.file, place.line, _column(place), paths["", place])
        for chain, place in places.items()
    }
    return tuple(known[chain] for chain in lines.chains)


@lru_cache(maxsize=_KEPT)
def instructions_of(cubin: bytes, ptx: str, ttgir: str = "", source: str = "") -> Instructions:
    """The instructions of a cubin that Triton has made of `ptx`.

    ttgir and source: the module after and before Triton's passes, as it prints them, for the ops and for the
    names of functions; without the source these are read from the files, where they are there. The result is
    kept: the same binary is read once.

    Raises ToolchainError without Triton, for what is no cubin, and for PTX that the cubin was not made of.
    """
    code = _read(cubin)
    listing, waits, notes = code.listing, code.waits, list(code.notes)
    lines, innermost = read_ptx(ptx), code.lines
    ptx_lines = code.ptx_lines if _holds(cubin, ptx, notes) else {}
    if not innermost:
        notes.append("the cubin has no line table: Triton was told to leave line information out")
    ops = Ops(_module(ttgir, notes))
    pcs = [instruction.pc for instruction in listing.instructions]
    chains = [ops.chain(_chain(ptx_lines.get(pc, 0), lines, innermost.get(pc))) for pc in pcs]
    functions = checked(functions_in(source)) if source else _functions(chains)
    opcodes = [instruction.name for instruction in listing.instructions]
    classes = [class_of(opcode) for opcode in opcodes]
    names = [ops.of(*each) for each in zip(chains, opcodes, classes, strict=True)]
    places = _places(chains, functions, lines.kernel)
    paths = call_paths(dict.fromkeys(zip(names, places, strict=True)))
    rows = tuple(
        Row(
            pc=instruction.pc,
            opcode=instruction.opcode,
            sass=instruction.sass,
            cls=classes[at],
            ptx_line=ptx_lines.get(instruction.pc, 0),
            ttgir_op=names[at],
            file=places[at].file,
            line=places[at].line,
            column=_column(places[at]),
            call_path=paths[names[at], places[at]],
            waits_for=tuple(pcs[each] for each in waits[at]),
        )
        for at, instruction in enumerate(listing.instructions)
    )
    return Instructions(lines.kernel, rows, tuple(notes))


def instructions_in(cubin: Path, ptx: Path) -> Instructions:
    """The instructions of a cubin file that was made of a file of PTX.

    Raises OSError for a file that cannot be read, and ToolchainError as `instructions_of`, naming the file.
    """
    files = [_bytes_of(file) for file in (cubin, ptx)]
    try:
        text = files[1].decode()
    except UnicodeDecodeError as error:
        raise ToolchainError(f"{ptx}: not text, so not PTX") from error
    try:
        return instructions_of(files[0], text)
    except ToolchainError as error:
        raise ToolchainError(f"{cubin}: {error}") from error


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except ValueError as error:  # a name that no file can have
        raise OSError(errno.EINVAL, str(error), repr(str(file))) from error


@dataclass(frozen=True)
class _Code:
    """What a cubin says of itself. lines, ptx_lines: by pc, the innermost line and that of the PTX."""

    listing: Listing
    waits: Sequence[tuple[int, ...]]
    notes: Sequence[str]
    lines: Mapping[int, tuple[str, int]]
    ptx_lines: Mapping[int, int]


@lru_cache(maxsize=_KEPT)
def _read(cubin: bytes) -> _Code:
    if cubin[:4] != b"\x7fELF":
        raise ToolchainError("not a cubin: an ELF file is expected")
    text = disassembled(cubin)
    listing = read_listing(text)
    return _Code(listing, *waits_of(listing), *read_line_tables(text))


def _holds(cubin: bytes, ptx: str, notes: list[str]) -> bool:
    """Whether a cubin has the PTX that it was made of; a note where it has none.

    ptxas keeps that text, with a line table from SASS to it. So the chain of calls is that of the PTX line,
    in the very binary: nothing has to be assembled again.
    """
    kept = embedded(cubin)
    if kept is None:
        notes.append("the cubin does not hold its PTX: places are innermost lines, without call paths")
        return False
    if not is_of(ptx, kept):
        raise ToolchainError("the PTX is not the one that the cubin was made of")
    return True


def _chain(ptx_line: int, ptx: Ptx, innermost: tuple[str, int] | None) -> tuple[Frame, ...]:
    """The frames of an instruction, innermost first. What ptxas adds itself has no chain, but may have a
    line."""
    if 0 < ptx_line <= len(ptx.chains) and ptx.chains[ptx_line - 1]:
        return ptx.chains[ptx_line - 1]
    return () if innermost is None else (Frame(*innermost, 0),)


def _module(ttgir: str, notes: list[str]) -> Module | None:
    if not ttgir:
        return None
    try:
        return parse(ttgir, "ttgir")
    except IRError as error:
        notes.append(f"ops of TTGIR are not told: {error}")
        return None


def _places(chains: Sequence[tuple[Frame, ...]], functions: tuple[Function, ...], kernel: str) -> list[Place]:
    places = Places(functions)
    of_chain = {chain: places.at(tuple(reversed(chain)), kernel) for chain in dict.fromkeys(chains)}
    return [of_chain[chain] for chain in chains]


def _column(place: Place) -> int:
    """The column of the step that file and line are of."""
    shown = (step for step in reversed(place.path) if (step.file, step.line) == (place.file, place.line))
    return next((step.column for step in shown), 0)


def _functions(chains: Iterable[tuple[Frame, ...]]) -> tuple[Function, ...]:
    """The functions that Triton may compile in the files of the frames, those that cannot be read left
    out."""
    files = sorted({frame.file for chain in chains for frame in chain if frame.file})
    return tuple(function for file in files for function in _functions_of(file))


def _functions_of(file: str) -> list[Function]:
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    return [
        Function(file, node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(re.search("jit|builtin", ast.unparse(decorator)) for decorator in node.decorator_list)
    ]
