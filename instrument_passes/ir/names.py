"""Value names that are new in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["FreshNames", "value_names"]

_VALUE = re.compile(r"%[\w$.-]+")


def value_names(text: str) -> Iterator[str]:
    """Everything in `text` that looks like a value name, strings and comments included."""
    return (match.group() for match in _VALUE.finditer(text))


class FreshNames:
    """Hands out names that are nowhere in `text`, nor in what `add` brought in, each once."""

    def __init__(self, text: str) -> None:
        self._names = set(value_names(text))
        self._next_number: dict[str, int] = {}

    def add(self, text: str) -> None:
        self._names.update(value_names(text))

    def new(self, prefix: str) -> str:
        """Such as "%ps_3"."""
        number = self._next_number.get(prefix, 0)
        while f"%{prefix}_{number}" in self._names:
            number += 1
        self._next_number[prefix] = number + 1
        return f"%{prefix}_{number}"
