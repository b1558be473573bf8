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
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

__all__ = ["Door", "Gate", "Method", "after_import", "patched", "patched_property", "replaced"]

Method = Callable[..., Any]
_INHERITED: Final = object()
_ENDED: Final = WeakKeyDictionary[Any, Any]()  # patches that ended under another -> what was there before


@contextlib.contextmanager
def patched(owner: Any, name: str, wrap: Callable[[Method], Method]) -> Iterator[None]:
    """`owner.name`, a method or function of a class, a module or an object, is `wrap` of the original in the
    body of a with statement."""
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


class Gate:
    """Replaces a property or a method. get: called with the object while the patch is in force. original: the
    replaced one.

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
def patched_property(owner: type, name: str, get: Callable[[Any], Any]) -> Iterator[Gate]:
    """`owner.name`, a property or a method, is what `get` returns of the object in the body of a with
    statement."""
    original = vars(owner)[name]
    gate = Gate(original, get)
    setattr(owner, name, gate)
    try:
        yield gate
    finally:
        gate.get = None
        if vars(owner).get(name) is gate:
            setattr(owner, name, _standing(original))
        else:
            _ENDED[gate] = original


@dataclass(frozen=True)
class _Known:
    """An object that was launched. plain: what it has there by itself; None if it is never launched so."""

    launched: Any
    launcher: Method
    plain: Method | None


class Door:
    """In the place of `owner.name`, by which objects are launched, for the body of a with statement. opened:
    makes what an object is launched with, from the object and what it has there by itself.

    It is asked once for each object: its answer stays with the object until the door is taken out, so that
    later launches do not come by here. While the door is shut, objects have what they have by themselves,
    and new ones come by once.
    """

    def __init__(self, owner: type, name: str, opened: Callable[[Any, Method], Method]) -> None:
        self._owner = owner
        self._name = name
        self._opened = opened
        self._lock = threading.RLock()
        self._known: dict[int, _Known] = {}
        self._gate: Gate | None = None
        self._is_shut = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install it."""
        with patched_property(self._owner, self._name, self.launcher) as self._gate:
            try:
                yield
            finally:
                with self._lock:
                    self._gate, self._is_shut = None, False
                    for known in self._known.values():
                        own = vars(known.launched)
                        if self._name in own and own[self._name] in (known.launcher, known.plain):
                            del own[self._name]
                    self._known.clear()

    def set(self, launched: Any, launcher: Method) -> None:
        """Launch an object with `launcher` while the door is installed, shut or not."""
        self._keep(_Known(launched, launcher, None))

    def shut(self, *, is_shut: bool) -> None:
        """Shut it, or open it again."""
        with self._lock:
            self._is_shut = is_shut
            for known in self._known.values():
                own = vars(known.launched)
                if known.plain is not None and own.get(self._name) in (known.launcher, known.plain):
                    own[self._name] = known.plain if is_shut else known.launcher

    def launcher(self, launched: Any) -> Method:
        """The launcher of an object."""
        gate = self._gate
        if gate is None:
            return getattr(launched, self._name)  # type: ignore[no-any-return]
        known = self._known.get(id(launched))
        if known is not None:
            return known.launcher if known.plain is None or not self._is_shut else known.plain
        plain = gate.original.__get__(launched, type(launched))
        with self._lock:
            if id(launched) not in self._known:  # another thread may have been quicker
                self._keep(_Known(launched, self._opened(launched, plain), plain))
            known = self._known.get(id(launched))
        return plain if known is None else known.launcher

    def _keep(self, known: _Known) -> None:
        launched, launcher = known.launched, known.launcher
        with self._lock:
            if self._gate is None:
                return
            self._known[id(launched)] = known
            if not hasattr(launcher, "__self__"):  # by which Inductor finds a method's object
                launcher.__self__ = launched  # type: ignore[attr-defined]
            # A method of a class derived from it, or another tool's patch over ours, stays before it.
            if getattr(type(launched), self._name) is self._gate:
                shut = self._is_shut and known.plain is not None
                vars(launched)[self._name] = known.plain if shut else launcher


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
