"""Keeps what profscope imports apart from what the program imports that it runs.

A file `secrets.py` in the script's folder is the program's. `import secrets` in the program finds that file,
although profscope has loaded the standard library's; and what profscope still imports, such as pandas, finds
the standard library's, although the program has loaded its own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

__all__ = ["OwnImports"]

_SHARED: Final = frozenset(("__main__", "profscope", "torch", "triton"))
"""Packages that the program and profscope must have in common."""

_OPTIONAL: Final = frozenset(("bottleneck", "numexpr"))
"""What pandas uses if there is such a module."""


class OwnImports(MetaPathFinder):
    """Modules of profscope are loaded in a block of `apart()`, from `begin()` on, and so in every thread.

    In such a block the thread finds modules on the path as it was before the program. Names that the program
    has modules of its own for are profscope's in `sys.modules` as long as any thread is in one.
    """

    def __init__(self) -> None:
        self._path: list[str] = []  # without the program's folder; empty: it is not apart
        self._folder = ""
        self._own: dict[str, ModuleType] = {}  # that the program has others for
        self._theirs: dict[str, ModuleType] = {}  # that are replaced just now
        self._before: set[str] = set()
        self._blocks = 0
        self._lock = threading.RLock()  # a signal's handler may import
        self._thread = threading.local()

    def begin(self, folder: str, path: list[str]) -> None:
        """The program is about to begin, with `folder` before this path."""
        sys.path[:] = [folder, *path]
        self._folder = os.path.abspath(folder)
        if any(self._has(name) for name in ("torch", "triton")):
            return  # an environment, of which we need all
        self._path = [os.path.abspath(each) for each in path]
        names = {name for name, module in _packages() if self._is_replaced(name, module)}
        if names:
            self._own = _take(names - _loaded_at_start())
        sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """In the body of a with statement imports are profscope's own."""
        with self._lock:
            if not self._blocks:
                self._enter()
            self._blocks += 1
        inside = self._is_inside
        self._thread.is_inside = True
        try:
            yield
        finally:
            self._thread.is_inside = inside
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._leave()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of an import that has come by `sys.modules`."""
        if not self._is_inside:
            return self._loaded_apart(name, path) if name.startswith("profscope.") else None
        if path is not None:
            return None
        spec = PathFinder.find_spec(name, self._path)
        if spec is None and self._has(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return spec

    @property
    def _is_inside(self) -> bool:
        return getattr(self._thread, "is_inside", False)

    def _loaded_apart(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            execute: Callable[[ModuleType], Any] = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with self.apart():
                    execute(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _enter(self) -> None:
        self._theirs = _take({name for name, module in _packages() if self._is_theirs(name, module)})
        sys.modules.update(self._own)
        self._before = {name for name, _ in _packages()} - {*self._own}

    def _leave(self) -> None:
        own = {
            name
            for name, module in _packages()
            if name not in self._before and self._is_replaced(name, module)
        }
        self._own = _take(own)
        sys.modules.update(self._theirs)

    def _has(self, name: str) -> bool:
        """Whether the program's folder has such a module."""
        spec = PathFinder.find_spec(name, [self._folder])
        return spec is not None and spec.loader is not None

    def _is_replaced(self, name: str, module: ModuleType) -> bool:
        """Whether the program, importing this name, finds another module than this one, of profscope's."""
        return _place(module) not in (None, self._folder) and self._has(name)

    def _is_theirs(self, name: str, module: ModuleType) -> bool:
        """Whether profscope, importing this name, finds another module than this one, of the program's."""
        place = _place(module)
        if place is None or place in self._path or not self._path:
            return False
        return name in _OPTIONAL or PathFinder.find_spec(name, self._path) is not None


def _packages() -> list[tuple[str, ModuleType]]:
    """The loaded modules that are in no package, but for shared ones."""
    return [
        (name, module)
        for name, module in list(sys.modules.items())
        if "." not in name and name not in _SHARED
    ]


def _take(packages: set[str]) -> dict[str, ModuleType]:
    """Remove modules, and those in them, from the loaded ones."""
    names = [name for name in list(sys.modules) if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _place(module: ModuleType) -> str | None:
    """The folder on the path that a module was found in; None if it was found otherwise."""
    spec = getattr(module, "__spec__", None)
    if not isinstance(spec, ModuleSpec) or spec.origin is None or not spec.has_location:
        return None
    folder = os.path.dirname(spec.origin)
    return folder if spec.submodule_search_locations is None else os.path.dirname(folder)


def _loaded_at_start() -> set[str]:
    """The modules that Python has loaded when a program begins."""
    flags = vars(subprocess)["_args_from_interpreter_flags"]()
    python = [sys.executable, *flags, "-c", "import runpy, sys; print(*sys.modules)"]
    return set(subprocess.run(python, capture_output=True, text=True, check=True).stdout.split())
