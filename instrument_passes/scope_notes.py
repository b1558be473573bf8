"""What scopes that users name leave in a module's text, on its way from the source to the optimised TTGIR.

`profscope.language` emits *markers*, empty inline assembly whose text says what it is::

    tt.elementwise_inline_asm "// profscope {\\22do\\22: \\22enter\\22, \\22name\\22: \\22load\\22}" ...

Before any optimisation `scope_tags.tag_scopes` takes those of enter and exit out, so that nothing is in the
optimiser's way, and gives every op between them a location that names its scope:
`fused<"profscope:3">["x"("k.py":7:8)]`. Locations go wherever their ops go. What number 3 is stands in the
module's attribute `profscope.scopes`.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from instrument_passes.ir import Module, Op
from instrument_passes.ir.tokens import quote, unquote

__all__ = [
    "MARKER",
    "Marker",
    "Site",
    "add_notes",
    "marker_of",
    "marker_text",
    "notes_of",
    "set_sites",
    "sites_of",
    "without_markers",
]

MARKER: Final = "// profscope "
_ASM: Final = "tt.elementwise_inline_asm"
_KEPT: Final = re.compile(rf'= {re.escape(_ASM)} "{MARKER}[^\n]*? -> i1')
_SITES: Final = "profscope.scopes"
_NOTES: Final = "profscope.notes"


@dataclass(frozen=True)
class Marker:
    """One call in the source. do: "enter", "exit", "mark" or "payload" (then `name` is the column)."""

    do: str
    name: str


@dataclass(frozen=True)
class Site:
    """A scope, mark or payload of one function, or a call of a function that has some.

    kind: "scope", "mark", "payload" or "call". parent: the index of the scope around it in the same function,
    -1 for none. file, line: where it is entered or called.
    """

    kind: str
    name: str
    parent: int
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def marker_text(do: str, name: str) -> str:
    """The assembly that says so: a comment in every assembler."""
    return MARKER + json.dumps({"do": do, "name": name})


def marker_of(op: Op) -> Marker | None:
    """The marker that an op is, if it is one."""
    if op.name != _ASM or MARKER not in op.first_line:
        return None
    text = next(unquote(piece.text) for piece in op.header.pieces if piece.text.startswith(f'"{MARKER}'))
    return Marker(**json.loads(text.removeprefix(MARKER)))


def without_markers(text: str) -> str:
    """A module's text with markers of marks and payloads made constants; by no more than a pattern."""
    return _KEPT.sub("= arith.constant true", text)


def sites_of(module: Module) -> tuple[Site, ...]:
    """What the numbers in locations stand for; empty for a module without scopes."""
    return tuple(Site(**site) for site in _read(module, _SITES))


def set_sites(module: Module, sites: list[Site]) -> None:
    """Write the table into the module."""
    module.set_attr(_SITES, quote(json.dumps([asdict(site) for site in sites])))


def notes_of(module: Module) -> tuple[str, ...]:
    """What passes have to say of a module besides its records; goes into the manifest."""
    return tuple(_read(module, _NOTES))


def add_notes(module: Module, notes: list[str]) -> None:
    """Add notes for `lower-records` to put into the manifest."""
    if notes:
        module.set_attr(_NOTES, quote(json.dumps([*notes_of(module), *notes])))


def _read(module: Module, name: str) -> list[Any]:
    text = module.attr(name)
    notes: list[Any] = [] if text is None else json.loads(unquote(text))
    return notes
