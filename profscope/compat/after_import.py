"""Do something with a module right after it was imported, whenever that is."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

__all__ = ["after_import"]


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
