"""Passes that others wrote: installed packages with an entry point, and single files.

    [project.entry-points."profscope.passes"]
    dot-steps = "own_pass"

A package names the module (or the class) that registers its passes; a pipeline names a file directly:
`./own_pass.py:dot-steps{option=1}`. Either is imported when a pipeline first asks for it, once a process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from instrument_passes.errors import PipelineError
from instrument_passes.passes.base import passes

__all__ = ["GROUP", "load_file", "load_installed"]

GROUP: Final = "profscope.passes"


def load_installed() -> None:
    """Import every installed package that offers passes. Raises PipelineError naming one that cannot be."""
    for entry in entry_points(group=GROUP):
        if entry.name in passes():
            continue
        try:
            entry.load()
        except (ImportError, AttributeError, SyntaxError) as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            raise PipelineError(f"cannot load pass {entry.name!r} of package {package}: {error}") from error
        if entry.name not in passes():
            raise PipelineError(f"the entry point {entry.name!r} registers no pass of that name")


def load_file(path: str) -> None:
    """Import a file that registers passes. Raises PipelineError if it cannot be."""
    file = Path(path).resolve()
    name = f"profscope_pass_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as error:
        del sys.modules[name]
        raise PipelineError(f"cannot load passes from {path}: {error}") from error
