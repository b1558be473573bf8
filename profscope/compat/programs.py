"""The manifest of a recorded binary, kept in Triton's metadata of it."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from profscope.compat.triton_parts import CompiledKernel
from profscope.decoding.build import Build
from profscope.errors import CompileError
from profscope.instrument_passes.errors import ManifestError
from profscope.instrument_passes.ir.tokens import unquote
from profscope.instrument_passes.manifest import ATTRIBUTE, Manifest

__all__ = ["Program", "describe", "manifest_in", "manifest_of_binary"]

_ATTRIBUTE: Final = re.compile(rf'{re.escape(ATTRIBUTE)} = ("(?:[^"\\]|\\.)*")')
_ENTRY: Final = "profscope"  # in Triton's metadata of a binary


class Program(NamedTuple):
    """A loaded binary with records. build: None if its configuration is not known."""

    manifest: Manifest
    build: Build | None = None


def manifest_in(ttgir: str) -> Manifest | None:
    """The manifest in a module's text, None for a bare one. Raises ManifestError if it cannot be read."""
    match = _ATTRIBUTE.search(ttgir)
    return Manifest.from_json(unquote(match[1])) if match else None


def describe(metadata: dict[str, Any], manifest: Manifest) -> None:
    """Write into Triton's metadata of a binary that is being compiled what it records.

    The metadata are the one file of Triton's cache that is always written.
    """
    metadata[_ENTRY] = {"manifest": manifest.to_json()}


def manifest_of_binary(kernel: CompiledKernel) -> Manifest:
    """The manifest of a binary compiled with records. Raises CompileError if it is unknown."""
    entry = getattr(kernel.metadata, _ENTRY, None)
    if entry is None:
        raise CompileError("Triton compiled it without records")
    try:
        manifest = Manifest.from_json(entry["manifest"])
    except (ManifestError, KeyError, TypeError) as error:
        raise CompileError(f"its manifest in Triton's cache cannot be read: {error}") from error
    if not _belongs(kernel, manifest):
        raise CompileError(
            "files of its binary in Triton's cache do not belong together; delete its folder in the cache"
        )
    return manifest


def _belongs(kernel: CompiledKernel, manifest: Manifest) -> bool:
    """Whether a manifest is that of the binary, which stores its digest: an immediate in machine code, a
    number in PTX. A binary without sections stores nothing."""
    if not manifest.sections:
        return True
    code: bytes = kernel.kernel
    digest = manifest.digest
    spelled = digest.to_bytes(4, "little"), str(digest).encode(), str(digest - (1 << 32)).encode()
    return kernel.metadata.profile_scratch_align == manifest.tag and any(each in code for each in spelled)
