"""Replace a method of a class, or a function of a module, for the length of a with statement.

A gate stands before a method until whoever waits behind it has patched what it needs. A patch takes a gate's
place, and is of the method behind it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

__all__ = ["gated", "patched"]

Method = Callable[..., Any]
_BEHIND: Final = "_profscope_behind"  # of a gate: the method


@contextlib.contextmanager
def patched(owner: type | ModuleType, name: str, wrap: Callable[[Method], Any]) -> Iterator[None]:
    """`owner.name`, or a property, is `wrap` of what it was; it comes back, also when the body raises."""
    own = name in vars(owner)
    original = getattr(owner, name)
    original = getattr(original, _BEHIND, original)
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # it was inherited
            delattr(owner, name)


@contextlib.contextmanager
def gated(owner: type, name: str, make: Callable[[Method], Method]) -> Iterator[None]:
    """In the body of a with statement `owner.name`, the owner's own, is the gate `make` of what it was,
    or what a patch has put in its place."""
    original = getattr(owner, name)
    gate = make(original)
    setattr(gate, _BEHIND, original)
    setattr(owner, name, gate)
    try:
        yield
    finally:
        if getattr(owner, name) is gate:
            setattr(owner, name, original)
