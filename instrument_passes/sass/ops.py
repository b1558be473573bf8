"""Which op of TTGIR an instruction belongs to, where it can be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from instrument_passes.analyses.opclasses import info_of
from instrument_passes.ir import Module, Op
from instrument_passes.sass.ptx import Frame

__all__ = ["Ops"]

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
        """The name of the op that an instruction at these frames belongs to, "" if not told.

        opcode: without modifiers; cls: its class.

        Told is what all ops at the place share, or what is the only one there that such instructions make.
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
