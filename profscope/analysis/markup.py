"""HTML in which no text can become markup: whatever is not `Markup` is escaped where it goes in."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

from profscope.analysis.quantities import printable

__all__ = ["Child", "Markup", "joined", "plain", "tag"]


class Markup(str):
    """HTML that was made here."""

    __slots__ = ()


Child: TypeAlias = "Markup | str | int | None"

_VOID = frozenset(("br", "hr", "input", "meta"))


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. An attribute that is None or False is left out; `class_` is "class", `data_x` "data-x"."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = key.rstrip("_").replace("_", "-")
        parts.append(spelled if value is True else f'{spelled}="{_escaped(str(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in _VOID else f"{opening}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Children one behind the other; None is nothing."""
    return Markup(
        "".join(
            child if isinstance(child, Markup) else _escaped(str(child))
            for child in children
            if child is not None
        )
    )


def plain(text: str) -> str:
    """`printable` text that may have lines."""
    return printable(text, "\n\t")


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)
