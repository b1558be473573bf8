"""What needs Triton itself, which is imported here only, and only when asked for."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from instrument_passes.errors import InstrumentError, IRError
from instrument_passes.ir import parse
from instrument_passes.passes.lower_records import unquote

__all__ = ["ToolchainError", "verify"]

_DIAGNOSTIC: Final = re.compile(r'module\.ttgir"?:(\d+):\d+\)?: error: (.*)')


class ToolchainError(InstrumentError):
    """Triton, or a tool it ships, is missing or too old for what was asked."""


def verify(text: str, file: str) -> None:
    """Have Triton parse and verify a module.

    Raises IRError with Triton's own diagnostic, the line and the op; ToolchainError without Triton.
    """
    module = parse(text, file)
    context = _context(unquote(module.attr("ttg.target") or '""'))
    if _rejection(text, context) is None:
        return
    # Without its location an op that is wrong is reported at its line in the text, not in the source.
    for op in module.walk():
        if op.loc_text:
            last = len(op.parts) - 1
            op.set_part(last, str(op.parts[last]).removesuffix(op.loc_text))
    stripped = str(module)
    said = _rejection(stripped, context) or "no diagnostic"
    match = _DIAGNOSTIC.search(said)
    if match is None:
        raise IRError(f"Triton rejects the module: {said}", file)
    line = int(match[1])
    op_text = stripped.splitlines()[line - 1].strip()
    raise IRError(f"Triton rejects the module: {match[2]}: {op_text[:200]}", file, line)


def _rejection(text: str, context: Any) -> str | None:
    """What Triton says against a module, None if it accepts it."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="profscope-") as folder:
        path = Path(folder) / "module.ttgir"
        path.write_text(text)
        try:
            with _descriptor_2(said):
                _libtriton().ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            return said.getvalue().strip() or str(error)
    return None


@contextlib.contextmanager
def _descriptor_2(into: io.StringIO) -> Iterator[None]:
    """Collect what native code writes to file descriptor 2, the only place where MLIR says what is wrong."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            log.seek(0)
            into.write(log.read().decode(errors="replace"))


def _libtriton() -> Any:
    try:
        from triton._C import libtriton
    except ImportError as error:
        raise ToolchainError("this needs Triton, which is not installed: pip install triton") from error
    return libtriton


def _context(target: str) -> Any:
    """A context with the dialects of a target, named as in `ttg.target`."""
    libtriton = _libtriton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    backend, _, arch = target.partition(":")
    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    if backend == "cuda" and arch.isdecimal():
        make_backend(GPUTarget("cuda", int(arch), 32)).load_dialects(context)
    elif backend == "hip":
        make_backend(GPUTarget("hip", arch, 64)).load_dialects(context)
    else:
        raise ToolchainError(f"the module's ttg.target {target!r} is neither cuda nor hip")
    if hasattr(libtriton, "proton"):  # up to 3.6 the scratch allocation is an op of its dialect
        libtriton.proton.load_dialects(context)
    return context
