"""The table of a binary's instructions: class, place, and the instructions each waits for."""

from __future__ import annotations

import ast
import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from profscope.binaries.listing import (
    Listing,
    blocks_of,
    class_of,
    flow_of,
    read_line_tables,
    read_listing,
)  # fmt: skip
from profscope.binaries.ptx import Frame, Ptx, embedded, is_of, read_ptx
from profscope.binaries.waits import waits_of
from profscope.errors import OptionError
from profscope.instrument_passes.analyses.places import Place, Places, call_paths
from profscope.instrument_passes.errors import IRError, ToolchainError
from profscope.instrument_passes.functions import Function, checked, functions_in
from profscope.instrument_passes.ir import Module, Op, parse
from profscope.instrument_passes.ops import info_of
from profscope.instrument_passes.toolchain import disassembled

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "INSTRUCTION_DTYPES",
    "Instructions",
    "Ops",
    "Row",
    "SourcePlace",
    "instructions",
    "instructions_in",
    "instructions_of",
    "ptx_places",
    "reached_blocks",
]

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
    """kernel: its name in the PTX. notes: unknowns, for the user."""

    kernel: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


class SourcePlace(NamedTuple):
    """The source place of an instruction, as in `Row`."""

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
    names of functions; without the source they are read from the files, if present. The result is kept: the
    same binary is read once.

    Raises ToolchainError without Triton, for bytes that are no cubin, and for PTX of another cubin.
    """
    code = _read(cubin)
    listing, waits, notes = code.listing, code.waits, list(code.notes)
    lines, innermost = read_ptx(ptx), code.lines
    ptx_lines = code.ptx_lines if _holds(cubin, ptx, notes) else {}
    if not innermost:
        notes.append("the cubin has no line table: Triton was told to leave line information out")
    ops = Ops(_module(ttgir, notes))
    pcs = [instruction.pc for instruction in listing.instructions]
    called = _calls_of(listing)  # in the place of what the line table has, which is the line in front of them
    innermost = dict(innermost) | {pc: innermost[at] for pc, at in called.items() if at in innermost}
    ptx_lines = dict(ptx_lines) | {pc: ptx_lines[at] for pc, at in called.items() if at in ptx_lines}
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


def reached_blocks(cubin: bytes) -> list[range]:
    """The basic blocks of a cubin's kernel that can be reached, in order, as numbers of its instructions.

    Raises ToolchainError as `instructions_of`.
    """
    flow, _ = flow_of(_read(cubin).listing)
    seen, left = {0}, [0]
    while left:
        new = {at for at in flow[left.pop()] if at not in seen}
        seen |= new
        left += new
    return [block for block in blocks_of(flow) if block.start in seen]


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


def _calls_of(listing: Listing) -> dict[int, int]:
    """By pc of an instruction in a function that ptxas has added, the pc of a call of that function; of calls
    at several places, one of the last."""
    found: dict[int, int] = {}
    calls = {
        target: each.pc for each in listing.instructions if each.name == "CALL" for target in each.targets
    }
    for function in listing.added:
        if function.start in calls:
            found |= dict.fromkeys(function, calls[function.start])
    return found


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


# Class of an instruction -> classes of ops that are made of such instructions and no others at the same
# place.
_MADE_OF: Final[Mapping[str, frozenset[str]]] = {
    "global load": frozenset({"load"}),
    "global store": frozenset({"store"}),
    "atomic": frozenset({"atomic"}),
    "async copy": frozenset({"async_copy"}),
    "tma": frozenset({"async_copy"}),
    "mma": frozenset({"mma"}),
    "tensor memory": frozenset({"local"}),
    "shared load": frozenset({"local", "layout", "reduce"}),
    "shared store": frozenset({"local", "layout", "reduce"}),
    "special function": frozenset({"math", "elementwise"}),
    "conversion": frozenset({"convert"}),
}
# Opcodes that one op alone is made of.
_MADE_BY: Final = {"LDGSTS": "ttg.async_copy_global_to_local", "LDGDEPBAR": "ttg.async_commit_group"}
_COMBINING: Final = ("tt.reduce", "tt.scan", "tt.map_elementwise")  # what is in their regions belongs to them
_NO_CODE: Final = frozenset({"view", "hint", "alloc", "control"})
_WAIT: Final = frozenset({"wait", "barrier"})

Key = tuple[tuple[str, int, int], ...]


class Ops:
    """The ops of a module, by where they come from."""

    def __init__(self, module: Module | None) -> None:
        self._at: dict[Key, list[tuple[str, str]]] = {}
        self._files: dict[Key, tuple[Frame, ...]] = {}
        for op in [] if module is None else module.walk():
            info = info_of(op)
            location = op.loc
            if info is None or info.cls in _NO_CODE or not location.line:
                continue
            frames = [Frame(location.file, location.line, location.column)]
            frames += [Frame(caller.file, caller.line, caller.column) for caller in location.callers]
            key = _key(frames)
            owner = _owner(op)
            owner_info = info_of(owner) or info
            self._at.setdefault(key, []).append((owner.name, owner_info.cls))
            self._files[key] = tuple(frames)

    def chain(self, frames: Sequence[Frame]) -> tuple[Frame, ...]:
        """The same frames with their folders, where an op has the same."""
        return self._files.get(_key(frames), tuple(frames))

    def of(self, frames: Sequence[Frame], opcode: str, cls: str) -> str:
        """The name of the op that an instruction at these frames belongs to, "" if unknown.

        opcode: without modifiers; cls: its class.

        Known is a name that all ops at the place share, or that of the only op there that makes such
        instructions.
        """
        ops = self._at.get(_key(frames), [])
        names = {name for name, _ in ops}
        if len(names) == 1:
            return names.pop()
        if _MADE_BY.get(opcode) in names:
            return _MADE_BY[opcode]
        wanted = _WAIT if cls == "barrier" else _MADE_OF.get(cls, frozenset())
        fitting = {name for name, op_class in ops if op_class in wanted}
        return fitting.pop() if len(fitting) == 1 else ""


def _owner(op: Op) -> Op:
    return next((around for around in (op, *op.ancestors()) if around.name in _COMBINING), op)


def _key(frames: Iterable[Frame]) -> Key:
    return tuple(
        (frame.file.replace("\\", "/").rpartition("/")[2], frame.line, frame.column) for frame in frames
    )


# `profscope.instructions`: the table that users get.

INSTRUCTION_DTYPES: Final[Mapping[str, str]] = {
    "pc": "int64",
    "opcode": "category",
    "sass": "str",
    "class": "category",
    "ptx_line": "int32",
    "ttgir_op": "category",
    "file": "category",
    "line": "int32",
    "column": "int32",
    "call_path": "category",
    "waits_for": "object",
}
"""The columns of `instructions`, with their pandas dtypes, in order."""


def instructions(kernel: Any, ptx: str | Path | None = None) -> pd.DataFrame:
    """One row per SASS instruction of a kernel, in the order of the binary. Needs no GPU.

        k = add_kernel.warmup(x, y, out, n, BLOCK=1024, grid=(1,))
        profscope.instructions(k)
        profscope.instructions("add_kernel.cubin", "add_kernel.ptx")

    kernel: a `CompiledKernel`, returned by Triton's `compile` or a launch; or the path of a `.cubin`, with
    `ptx` the path of the `.ptx` that it was made of (default: in the same folder, of the same name).

    | column | dtype | |
    |---|---|---|
    | `pc` | int64 | bytes from the function's start |
    | `opcode` | category | with its modifiers, without predicate: `MUFU.EX2` |
    | `sass` | str | the whole instruction |
    | `class` | category | `global load`, `mma`, `barrier`, ...: docs/source-view.md; `other` if unknown |
    | `ptx_line` | int32 | the line of the PTX, from 1; 0 if unknown |
    | `ttgir_op` | category | the op of TTGIR, "" if unknown |
    | `file`, `line`, `call_path` | category, int32, category | as in `prof.df` |
    | `column` | int32 | of the line, from 0 |
    | `waits_for` | object | a list of the `pc`s of the instructions whose results it needs |

    `attrs["kernel"]` is the kernel's name, `attrs["notes"]` a list of texts about unknowns. The result is a
    copy: the binary itself is read once.

    Raises OptionError for a kernel without a cubin (AMD's, the emulator's) and for a file that cannot be
    read, ToolchainError without Triton, for a file that is no cubin, and for PTX of another binary.
    """
    mapped = _of_paths(Path(kernel), ptx) if isinstance(kernel, str | Path) else _of_kernel(kernel, ptx)
    return _frame(mapped)


def _of_paths(cubin: Path, ptx: Any) -> Instructions:
    if cubin.suffix != ".cubin":
        raise OptionError(f"{str(cubin)!r}: the path of a .cubin is expected, or a compiled kernel")
    if not isinstance(ptx, str | Path | None):
        raise OptionError(f"ptx must be the path of a .ptx, not {type(ptx).__name__}")
    assembly = cubin.with_suffix(".ptx") if ptx is None else Path(ptx)
    try:
        return instructions_in(cubin, assembly)
    except OSError as error:
        raise OptionError(f"cannot read {error.filename}: {error.strerror}") from error


def _of_kernel(kernel: Any, ptx: str | Path | None) -> Instructions:
    stages = getattr(kernel, "asm", None)
    if ptx is not None:
        raise OptionError("ptx= goes with the path of a .cubin; a compiled kernel has its own")
    if not isinstance(stages, Mapping):
        raise OptionError(
            f"a compiled kernel or the path of a .cubin is expected, not {type(kernel).__name__}; "
            "kernel[grid](...) and kernel.warmup(...) return a compiled kernel"
        )
    if not isinstance(stages.get("cubin"), bytes) or "ptx" not in stages:
        raise OptionError(
            "the kernel has no cubin: instructions are told for NVIDIA GPUs, not for AMD or the emulator"
        )
    texts = (str(stages.get(stage) or "") for stage in ("ptx", "ttgir", "source"))
    return instructions_of(stages["cubin"], *texts)


def _frame(mapped: Instructions) -> pd.DataFrame:
    import pandas as pd

    fields = [("cls" if name == "class" else name, name) for name in INSTRUCTION_DTYPES]
    columns: dict[str, pd.Series[Any]] = {}
    for field, name in fields:
        values: list[Any] = [getattr(row, field) for row in mapped.rows]
        if name == "waits_for":
            values = [list(pcs) for pcs in values]
        dtype = INSTRUCTION_DTYPES[name]
        if dtype == "category":
            columns[name] = pd.Series(values, dtype="str").astype("category")
        else:
            columns[name] = pd.Series(values, dtype=dtype)
    df = pd.DataFrame(columns)
    df.attrs |= {"kernel": mapped.kernel, "notes": list(mapped.notes)}
    return df
