"""Which instrumented binaries are loaded in this process, and how to read what they write.

Triton keeps a loaded kernel for the life of the process, beyond any session, and tells about the load only
once. So this table lives as long, and only grows: facts about binaries, never settings.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Final

from instrument_passes.ir.tokens import unquote
from instrument_passes.manifest import ATTRIBUTE, Manifest

__all__ = ["PROGRAMS", "ProgramTable", "manifest_in"]

_ATTRIBUTE: Final = re.compile(rf'{re.escape(ATTRIBUTE)} = ("(?:[^"\\]|\\.)*")')


def manifest_in(ttgir: str) -> Manifest | None:
    """The manifest in a module's text, None for a bare one. Raises ManifestError if it cannot be read."""
    match = _ATTRIBUTE.search(ttgir)
    return Manifest.from_json(unquote(match[1])) if match else None


class ProgramTable:
    """Manifests by function handle, as the launch hooks name it, and by tag, as the allocator learns it."""

    def __init__(self) -> None:
        self._by_function: dict[int, Manifest] = {}
        self._by_tag: dict[int, tuple[Manifest, ...]] = {}
        self._lock = threading.Lock()

    def loaded(self, function: int, metadata_group: dict[str, str]) -> Manifest | None:
        """Remember what a binary records. metadata_group: file name -> path, as Triton's cache has it.

        Returns the manifest, None for a bare binary.
        """
        path = next((p for file, p in metadata_group.items() if file.endswith(".ttgir")), None)
        manifest = None if path is None else manifest_in(Path(path).read_text())
        with self._lock:
            # Handles of unloaded functions are reused, so a bare binary must displace what was known.
            self._by_function.pop(function, None)
            if manifest is not None and not manifest.failure:
                self._by_function[function] = manifest
                tagged = self._by_tag.get(manifest.tag, ())
                if manifest not in tagged:
                    self._by_tag[manifest.tag] = (*tagged, manifest)
        return manifest

    def tagged(self, tag: int) -> tuple[Manifest, ...]:
        """The programs that ask the profile allocator for this alignment; see `Manifest.tag`."""
        return self._by_tag.get(tag, ())

    def functions(self) -> tuple[int, ...]:
        """Handles of the loaded functions that record."""
        return tuple(self._by_function)

    def of(self, function: int) -> Manifest | None:
        """The manifest of a loaded function, None if it is bare or unknown."""
        return self._by_function.get(function)


PROGRAMS: Final = ProgramTable()
