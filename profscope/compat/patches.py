"""Patches of methods and attributes that others may patch, too.

    with patched(CompiledKernel, "launch_metadata", wrap):
        ...

A patch ends by taking itself out, if it is still on top. If another tool has patched over it meanwhile, that
tool's patch stays in force and ours becomes a pass-through, which goes with a later patch of ours if that is
the one on top. If another tool has taken ours out, it stays out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

__all__ = ["PatchedProperty", "patched", "patched_property", "replaced"]

Method = Callable[..., Any]
_INHERITED: Final = object()
_ENDED: Final = WeakKeyDictionary[Any, Any]()  # patches that ended under another -> what was there before


@contextlib.contextmanager
def patched(owner: type | ModuleType, name: str, wrap: Callable[[Method], Method]) -> Iterator[None]:
    """`owner.name`, a method or function, is `wrap` of the original in the body of a with statement."""
    own = vars(owner).get(name, _INHERITED)
    original = getattr(owner, name)
    current = wrap(original)

    @functools.wraps(original)
    def gate(*args: Any, **kwargs: Any) -> Any:
        return current(*args, **kwargs)

    setattr(owner, name, gate)
    try:
        yield
    finally:
        current = original
        if vars(owner).get(name) is gate:
            _put_back(owner, name, _standing(own))
        else:
            _ENDED[gate] = own


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """`owner.name`, which is no method, is `value` in the body of a with statement."""
    own = vars(owner).get(name, _INHERITED)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if vars(owner).get(name) is value:
            _put_back(owner, name, own)


class PatchedProperty:
    """In place of a property. get: called with the object while the patch is in force.

    It is no data descriptor: an object's own attribute of that name goes before it.
    """

    def __init__(self, original: Any, get: Callable[[Any], Any]) -> None:
        self.original = original
        self.get: Callable[[Any], Any] | None = get

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        if instance is None:
            return self
        get = self.get
        return self.original.__get__(instance, kind) if get is None else get(instance)


@contextlib.contextmanager
def patched_property(owner: type, name: str, get: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name`, a property, is what `get` returns of the object in the body of a with statement."""
    original = vars(owner)[name]
    gate = PatchedProperty(original, get)
    setattr(owner, name, gate)
    try:
        yield
    finally:
        gate.get = None
        if vars(owner).get(name) is gate:
            setattr(owner, name, _standing(original))
        else:
            _ENDED[gate] = original


def _standing(before: Any) -> Any:
    """What was there before a patch, less patches of ours that have ended meanwhile."""
    while before in _ENDED:
        before = _ENDED[before]
    return before


def _put_back(owner: Any, name: str, own: Any) -> None:
    if own is _INHERITED:
        delattr(owner, name)
    else:
        setattr(owner, name, own)
