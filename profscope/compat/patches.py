"""Patches of methods and attributes that others may patch, too, now or once their module is imported.

    with patched(CompiledKernel, "launch_metadata", wrap):
        ...

A patch ends by taking itself out, if it is still on top. If another tool has patched over it meanwhile, that
tool's patch stays in force and ours becomes a pass-through, which goes with a later patch of ours if that is
the one on top. If another tool has taken ours out, it stays out.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

__all__ = ["Door", "Method", "after_import", "patched", "patched_property", "replaced"]

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


class _Gate:
    """In the place of a property or a method. get: called with the object while the patch is in force.

    It is no data descriptor: an object's own attribute of that name goes before it.
    """

    def __init__(self, original: Any, get: Callable[[Any], Any]) -> None:
        functools.update_wrapper(self, original)
        self.original = original
        self.get: Callable[[Any], Any] | None = get

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        if instance is None:
            return self
        get = self.get
        return self.original.__get__(instance, kind) if get is None else get(instance)

    def __call__(self, instance: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As a method that was fetched from the class."""
        return self.__get__(instance, type(instance))(*args, **kwargs)


@contextlib.contextmanager
def patched_property(owner: type, name: str, get: Callable[[Any], Any]) -> Iterator[_Gate]:
    """`owner.name`, a property or a method, is what `get` returns of the object in the body of a with
    statement."""
    original = vars(owner)[name]
    gate = _Gate(original, get)
    setattr(owner, name, gate)
    try:
        yield gate
    finally:
        gate.get = None
        if vars(owner).get(name) is gate:
            setattr(owner, name, _standing(original))
        else:
            _ENDED[gate] = original


class Door:
    """In the place of `owner.name`, by which objects are launched, for the body of a with statement. opened:
    makes what an object is launched with, from the object and what it has there by itself.

    It is asked once for each object: its answer stays with the object until the door is taken out, so that
    later launches do not come by here.
    """

    def __init__(self, owner: type, name: str, opened: Callable[[Any, Method], Method]) -> None:
        self._owner = owner
        self._name = name
        self._opened = opened
        self._lock = threading.RLock()
        self._known: dict[int, tuple[Any, Method]] = {}
        self._gate: _Gate | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install it."""
        with patched_property(self._owner, self._name, self.launcher) as self._gate:
            try:
                yield
            finally:
                with self._lock:
                    self._gate = None
                    for launched, launcher in self._known.values():
                        if vars(launched).get(self._name) is launcher:
                            del vars(launched)[self._name]
                    self._known.clear()

    def set(self, launched: Any, launcher: Method) -> None:
        """Launch an object with `launcher` while the door is installed."""
        with self._lock:
            if self._gate is not None:
                self._known[id(launched)] = launched, launcher
                if not hasattr(launcher, "__self__"):  # by which Inductor finds a method's object
                    launcher.__self__ = launched  # type: ignore[attr-defined]
                # A method of a class derived from it, or another tool's patch over ours, stays before it.
                if getattr(type(launched), self._name) is self._gate:
                    vars(launched)[self._name] = launcher

    def launcher(self, launched: Any) -> Method:
        """What an object is launched with."""
        gate = self._gate
        if gate is None:
            return getattr(launched, self._name)  # type: ignore[no-any-return]
        known = self._known.get(id(launched))
        if known is None:
            plain = gate.original.__get__(launched, type(launched))
            with self._lock:
                if id(launched) not in self._known:  # another thread may have been quicker
                    self.set(launched, self._opened(launched, plain))
                known = self._known.get(id(launched), (launched, plain))
        return known[1]


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


@contextlib.contextmanager
def after_import(name: str, then: Callable[[ModuleType], None]) -> Iterator[None]:
    """In the body of a with statement: `then(module)` at once if it is loaded, else when it will be."""
    if name in sys.modules:
        then(sys.modules[name])
        yield
        return
    finder = _AfterImport(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        _remove(sys.meta_path, finder)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` with a module right after it was imported for the first time."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != self._name:
            return None
        _remove(sys.meta_path, self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute, then = spec.loader.exec_module, self._then

            def exec_module(module: ModuleType) -> None:
                execute(module)
                then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _remove(items: list[Any], item: Any) -> None:
    if item in items:
        items.remove(item)
