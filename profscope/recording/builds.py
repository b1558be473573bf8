"""The description of Triton's compiled kernels: configuration, resources and source."""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from profscope.binaries.ptx import elf_sections
from profscope.compat.origins import ORIGINS
from profscope.compat.triton_parts import JITCallable, constexpr
from profscope.decoding.build import Build, SourceText
from profscope.instrument_passes.analyses.occupancy import limits_of

__all__ = ["build_of", "instruction_count", "ptx_of", "resident_ctas"]

_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# An object that says no more of itself than where it stands in memory.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


_HASH_DIGITS: Final = 16
_INSTRUCTION_BYTES: Final = 16
_OPCODE: Final = 0xFFF
_NOP: Final = 0x918


def build_of(kernel: Any, warps: int | None = None) -> Build:
    """A loaded `CompiledKernel` as a Build. warps: of a CTA, where more run than were asked for."""
    metadata, source = kernel.metadata, kernel.src
    registers = getattr(kernel, "n_regs", 0) or None  # the emulator has none
    shared_bytes = int(metadata.shared)
    fits = resident_ctas(kernel, registers, warps)
    function = getattr(source, "fn", None)
    functions = _with_callees(function) if isinstance(function, JITCallable) else []
    return Build(
        kernel=kernel.name,
        configuration=_configuration(source, function, metadata) | {"captured": _captured(functions)},
        registers=registers,
        spills=None if registers is None else int(kernel.n_spills),
        shared_bytes=shared_bytes,
        ctas_per_sm=fits,
        instructions=_instructions(kernel),
        ptx=ptx_of(kernel),
        ttgir=str(kernel.asm.get("ttgir") or ""),
        model=_model(function),
        sources=tuple(map(_text, functions)),
    )


def resident_ctas(kernel: Any, registers: int | None, warps: int | None = None) -> int | None:
    """CTAs that an SM has room for if a thread of a compiled kernel takes so many registers; None if that is
    not known. warps: as of `build_of`."""
    metadata, target = kernel.metadata, kernel.metadata.target
    limits = limits_of(f"{target.backend}:{target.arch}")
    if not registers or limits is None:
        return None
    return limits.fit(warps or metadata.num_warps, registers, int(metadata.shared))


def _model(function: Any) -> dict[str, Any]:
    """What torch.compile made a kernel of; {} for kernels of others."""
    code = getattr(getattr(function, "fn", None), "__code__", None)
    return {} if code is None else ORIGINS.of(code.co_filename)


def _instructions(kernel: Any) -> int | None:
    """None for other machine code than NVIDIA's."""
    cubin = kernel.asm.get("cubin")
    return instruction_count(cubin) if isinstance(cubin, bytes) else None


def ptx_of(kernel: Any) -> str:
    """The PTX of a `CompiledKernel`; "" for other assembly than NVIDIA's."""
    return str(kernel.asm.get("ptx", ""))


def _configuration(source: Any, function: Any, metadata: Any) -> dict[str, Any]:
    """See `Build.configuration`. A module that was compiled from a file has neither names nor constexprs."""
    names = list(getattr(function, "arg_names", ()))
    constants = getattr(source, "constants", {})
    attributes = getattr(source, "attrs", {})
    is_known = isinstance(function, JITCallable)
    return {
        "function": _qualified(function) if is_known else "",
        "source_hash": _source_hash(function, constants.values()) if is_known else "",
        "constexprs": {_argument(path, names): _plain(value) for path, value in constants.items()},
        "signature": {str(name): _plain(kind) for name, kind in source.signature.items()},
        "specialisation": {
            _argument(path, names): _plain(attribute) for path, attribute in attributes.items() if attribute
        },
        **{name: _plain(getattr(metadata, name, None)) for name in _OPTIONS},
    }


def _argument(path: Any, names: list[str]) -> str:
    """An argument's name; `name.1` for what is inside of a tuple."""
    if not isinstance(path, tuple) or not path:
        return str(path)
    first = names[path[0]] if path[0] < len(names) else str(path[0])
    return ".".join([first, *(str(index) for index in path[1:])])


def _plain(value: Any) -> Any:
    """A value as JSON has it, the same in every session."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # which JSON has no number for
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, constexpr):
        return _plain(value.value)
    if isinstance(value, JITCallable):
        return _qualified(value)
    return _ADDRESS.sub("", str(value))


def _qualified(function: JITCallable) -> str:
    """Module and name: functions of several libraries may share a name. What a script defines is named as if
    it were imported."""
    module = _module(function)
    code = getattr(_unbound(function).fn, "__code__", None)
    if module == "__main__" and code is not None and Path(code.co_filename).is_file():
        module = Path(code.co_filename).stem
    return f"{module}.{_unbound(function).__name__}"


def _module(function: JITCallable) -> str:
    """The module that a function is from; a constexpr_function does not say it itself."""
    own = _unbound(function)
    return str(getattr(own, "module", None) or own.fn.__module__)


def _unbound(function: Any) -> Any:
    """The function of a method that is bound to its object."""
    return getattr(function, "__func__", function)


def _source_hash(function: JITCallable, constants: Iterable[Any]) -> str:
    """What Triton keys a kernel's source by: its text and line, all that it calls and captures, and the
    functions among its constexprs."""
    keys = [each.cache_key for each in (function, *constants) if isinstance(each, JITCallable)]
    return hashlib.sha256("".join(keys).encode()).hexdigest()[:_HASH_DIGITS]


def _captured(functions: Sequence[JITCallable]) -> dict[str, Any]:
    """By name, what functions have from outside; the first of them go before."""
    captured: dict[str, Any] = {}
    for each in functions:
        captured = {name: _plain(value) for name, value in _from_outside(each)} | captured
    return captured


def _text(function: JITCallable) -> SourceText:
    file = function.fn.__code__.co_filename
    return SourceText(function.__name__, file, function.starting_line_number, "".join(function.raw_src))


def _with_callees(function: JITCallable) -> list[JITCallable]:
    """A function and those it calls, but for Triton's own; none if another process has made it, as
    torch.compile's may."""
    found = [] if function.fn is None else [function]
    for each in found:  # grows meanwhile
        called = [value for _, value in _from_outside(each) if isinstance(value, JITCallable)]
        new = {id(value): value for value in called if not any(value is known for known in found)}
        found += new.values()
    return found


def _from_outside(function: JITCallable) -> Iterator[tuple[str, Any]]:
    """By name, the functions of Triton's, but for its own, and the constexprs that a function names and does
    not define."""
    known, tree = function.get_capture_scope(), function.parse()
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    found = [(node.id, known.get(node.id)) for node in names if node.id not in own]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.append((node.attr, _unbound(getattr(known.get(node.value.id), node.attr, None))))
    for name, value in found:
        is_function = isinstance(value, JITCallable) and not _module(value).startswith("triton.")
        if is_function or isinstance(value, constexpr):
            yield name, value


def instruction_count(cubin: bytes) -> int | None:
    """SASS instructions of all functions, padding left out; None for bytes that are no cubin."""
    codes = (code for name, code in elf_sections(cubin) if name.startswith(b".text."))
    return sum(map(_unpadded, codes)) or None


def _unpadded(code: bytes) -> int:
    count = len(code) // _INSTRUCTION_BYTES
    while count and int.from_bytes(code[(count - 1) * _INSTRUCTION_BYTES :][:8], "little") & _OPCODE == _NOP:
        count -= 1
    return count
