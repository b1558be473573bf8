"""Replace a method of a class for the length of a with statement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["patched"]

Method = Callable[..., Any]


@contextlib.contextmanager
def patched(owner: type, name: str, wrap: Callable[[Method], Method]) -> Iterator[None]:
    """`owner.name` is `wrap` of what it was; it comes back, also when the body raises."""
    own = name in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # it was inherited
            delattr(owner, name)
