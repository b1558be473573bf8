"""HTML in which no text can become markup: whatever is not `Markup` is escaped where it goes in.

Here stands, too, what all views make of characters that would not be seen: names may be anybody's.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["Child", "Markup", "joined", "plain", "printable", "tag"]


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


def printable(text: str, keep: str = "") -> str:
    r"""Text with each character that would not be seen written as Python does, ESC as `\x1b`.

    Such are control characters, which could steer a terminal or which HTML cannot hold, and those that change
    the direction in which text is read, as U+202E does. keep: those that stay, as line breaks of a source.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def plain(text: str) -> str:
    """`printable` text that may have lines."""
    return printable(text, "\n\t")


def _escaped(text: str) -> str:
    return html.escape(plain(text), quote=True)
