"""Finds the modules of a folder, so that a new file needs no registration."""

from __future__ import annotations

import importlib
import pkgutil

from profscope.instrument_passes.errors import PipelineError

__all__ = ["import_all"]


def import_all(package: str) -> None:
    """Import every module of a package; those that have been imported already cost next to nothing.

    Raises PipelineError naming a module that cannot be imported.
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        try:
            importlib.import_module(module.name)
        except (ImportError, SyntaxError) as error:
            raise PipelineError(f"cannot load {module.name}: {error}") from error
