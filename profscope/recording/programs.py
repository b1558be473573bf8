"""Which instrumented binaries are loaded in this process, and how to read what they write.

Triton keeps a loaded kernel for the life of the process, beyond any session, and tells about the load only
once. So this table lives as long, and only grows: facts about binaries, never settings.
"""

from __future__ import annotations

import re
import threading
import weakref
from pathlib import Path
from typing import Any, Final, NamedTuple

from instrument_passes.ir.tokens import unquote
from instrument_passes.manifest import ATTRIBUTE, Manifest
from profscope.decoding.build import Build
from profscope.recording.builds import build_of

__all__ = ["PROGRAMS", "Program", "ProgramTable", "manifest_in"]

_ATTRIBUTE: Final = re.compile(rf'{re.escape(ATTRIBUTE)} = ("(?:[^"\\]|\\.)*")')


def manifest_in(ttgir: str) -> Manifest | None:
    """The manifest in a module's text, None for a bare one. Raises ManifestError if it cannot be read."""
    match = _ATTRIBUTE.search(ttgir)
    return Manifest.from_json(unquote(match[1])) if match else None


class Program(NamedTuple):
    """A loaded binary that records. build: None where its kernel is not known."""

    manifest: Manifest
    build: Build | None = None


class ProgramTable:
    """Programs by function handle, as the launch hooks name it, and manifests by tag, as the allocator learns
    it. bare: builds of bare binaries that were loaded in a session."""

    def __init__(self) -> None:
        self.bare: dict[str, Build] = {}  # by key
        self._by_function: dict[int, Program] = {}
        self._by_tag: dict[int, tuple[Manifest, ...]] = {}
        self._kernels: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()  # by hash
        self._lock = threading.Lock()

    def made(self, kernel: Any) -> None:
        """Remember a `CompiledKernel`, which says more of itself once it is loaded."""
        with self._lock:
            self._kernels[kernel.hash] = kernel

    def loaded(self, function: int, metadata_group: dict[str, str], hash: str = "") -> Manifest | None:
        """Remember what a binary records. metadata_group: file name -> path, as Triton's cache has it; hash:
        of its `CompiledKernel`.

        Returns the manifest, None for a bare binary.
        """
        path = next((p for file, p in metadata_group.items() if file.endswith(".ttgir")), None)
        manifest = None if path is None else manifest_in(Path(path).read_text())
        kernel = self._kernels.get(hash)
        build = None if kernel is None else build_of(kernel, manifest.warps if manifest else None)
        with self._lock:
            # Handles of unloaded functions are reused, so a bare binary must displace what was known.
            self._by_function.pop(function, None)
            if manifest is not None and not manifest.failure:
                self._by_function[function] = Program(manifest, build)
                tagged = self._by_tag.get(manifest.tag, ())
                if manifest not in tagged:
                    self._by_tag[manifest.tag] = (*tagged, manifest)
            elif manifest is None and build is not None:
                self.bare[build.key] = build
        return manifest

    def tagged(self, tag: int) -> tuple[Manifest, ...]:
        """The manifests of programs that ask the profile allocator for this alignment; see `Manifest.tag`."""
        return self._by_tag.get(tag, ())

    def functions(self) -> tuple[int, ...]:
        """Handles of the loaded functions that record."""
        return tuple(self._by_function)

    def of(self, function: int) -> Program | None:
        """The program of a loaded function, None if it is bare or unknown."""
        return self._by_function.get(function)

    def with_manifest(self, manifest: Manifest) -> Program:
        """The program with this manifest; without its build where several share it."""
        with self._lock:
            alike = [program for program in self._by_function.values() if program.manifest == manifest]
        return alike[0] if len(alike) == 1 else Program(manifest)


PROGRAMS: Final = ProgramTable()
