"""Kernels that are defined in files of their own, and lines of a kernel's text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

_KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale_kernel(x, o, n, BLOCK: tl.constexpr, LOW: tl.constexpr = float("-inf")):
    i = tl.arange(0, BLOCK)
    for step in range(n):
        tl.store(o + i, tl.maximum(tl.load(x + i) {op} step, LOW))
"""


def defined(path: Path, op: str) -> Any:
    """A kernel of one name, in a module that is called after the file and its folder."""
    path.parent.mkdir(parents=True)
    path.write_text(_KERNEL.format(op=op))
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scale_kernel


def line_of(function: Any, text: str) -> int:
    """The line of a Triton function's file that has this text."""
    at = next(at for at, line in enumerate(function.raw_src) if text in line)
    return int(function.starting_line_number + at)
