"""Which instrumented binaries there are in this process, and how to read what they write.

Triton and its users keep a compiled kernel for as long as they like, beyond any session, and Triton tells
about its load only once. So this table lives as long, and only grows: facts about binaries, never settings.

What a binary records stands in Triton's metadata of it, the one file of its cache that is always written.
There it asks for no memory, so that whoever loads it in whatever process can launch it: it finds a null
pointer and records nothing. Only while a session is open, the binaries of this process ask for it.
"""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from triton.compiler import CompiledKernel

from instrument_passes.errors import ManifestError
from instrument_passes.ir.tokens import unquote
from instrument_passes.manifest import ATTRIBUTE, Manifest
from profscope.decoding.build import Build
from profscope.options import Options
from profscope.recording.builds import build_of
from profscope.recording.messages import one_line
from profscope.recording.patches import patched
from profscope.version import __version__

__all__ = [
    "PROGRAMS",
    "Program",
    "ProgramTable",
    "describe",
    "is_described",
    "manifest_in",
    "mode_of",
]

_ATTRIBUTE: Final = re.compile(rf'{re.escape(ATTRIBUTE)} = ("(?:[^"\\]|\\.)*")')
_ENTRY: Final = "profscope"  # in Triton's metadata of a binary


def manifest_in(ttgir: str) -> Manifest | None:
    """The manifest in a module's text, None for a bare one. Raises ManifestError if it cannot be read."""
    match = _ATTRIBUTE.search(ttgir)
    return Manifest.from_json(unquote(match[1])) if match else None


def mode_of(options: Options) -> str:
    """What tells the binaries of a session with these options from all others."""
    return f"profscope-{options.digest(__version__)}"


def describe(metadata: dict[str, Any], manifest: Manifest | None, mode: str) -> None:
    """Write into Triton's metadata of a binary that is being compiled what it records, and for whom; None:
    nothing, as was asked for."""
    metadata[_ENTRY] = {"mode": mode, "manifest": "" if manifest is None else manifest.to_json()}
    if manifest is not None and not manifest.failure:
        metadata["profile_scratch_size"] = 0


def is_described(kernel: CompiledKernel) -> bool:
    """Whether a session's passes have seen a binary, which may be bare for all that."""
    return hasattr(kernel.metadata, _ENTRY)


class Program(NamedTuple):
    """An instrumented binary. mode: see `mode_of`; manifest: says in `failure` why it records nothing. build:
    what else is known of it once it is loaded, None before. unreadable: whether it should record, but nobody
    can tell what."""

    manifest: Manifest
    mode: str
    build: Build | None = None
    unreadable: bool = False


def _program(kernel: CompiledKernel) -> Program | None:
    """What a binary records, by its metadata; None for a bare one."""
    entry = getattr(kernel.metadata, _ENTRY, None)
    if entry is None or not entry["manifest"]:
        return None
    try:
        manifest = Manifest.from_json(entry["manifest"])
    except ManifestError as error:
        return _unreadable(kernel, entry["mode"], str(error))
    if not manifest.failure and not _belongs(kernel, manifest):
        why = "files of its binary in Triton's cache did not belong together; the next process compiles anew"
        return _unreadable(kernel, entry["mode"], why)
    return Program(manifest, entry["mode"])


def _unreadable(kernel: CompiledKernel, mode: str, why: str) -> Program:
    """A binary that records what nobody can tell, or nothing: it is given no memory. Triton's cache
    forgets it, so that whoever looks for it next compiles it anew; its files stay, for those who have found
    them already."""
    for name, path in kernel.metadata_group.items():
        if name.endswith(".json"):
            with contextlib.suppress(OSError):  # a cache that cannot be written, or the file is gone
                Path(path).with_name(f"__grp__{name}").unlink()
    return Program(Manifest(kernel.name, "", 0, 0, 0, (), failure=why), mode, unreadable=True)


def _belongs(kernel: CompiledKernel, manifest: Manifest) -> bool:
    """Whether a manifest is that of the binary, which stores its digest: an immediate in machine code, a
    number in PTX."""
    code: bytes = kernel.kernel
    digest = manifest.digest
    spelled = digest.to_bytes(4, "little"), str(digest).encode(), str(digest - (1 << 32)).encode()
    return kernel.metadata.profile_scratch_align == manifest.tag and any(each in code for each in spelled)


class ProgramTable:
    """Manifests by function handle, as the launch hooks name it, and by tag, as the allocator learns it."""

    def __init__(self) -> None:
        self._programs: weakref.WeakKeyDictionary[CompiledKernel, Program] = weakref.WeakKeyDictionary()
        # By the id of what Triton tells of a kernel that it loads, which the kernel holds.
        self._by_group: weakref.WeakValueDictionary[int, CompiledKernel] = weakref.WeakValueDictionary()
        # Each session asks for those of all programs again.
        self._builds: weakref.WeakKeyDictionary[CompiledKernel, Build] = weakref.WeakKeyDictionary()
        self.bare: dict[str, Build] = {}  # by key
        self.undescribed: dict[str, str] = {}  # by kernel, why its configuration is not known
        self._by_function: dict[int, Program] = {}
        self._failed: dict[int, Program] = {}
        self._by_tag: dict[int, tuple[Manifest, ...]] = {}
        self._modes: set[tuple[int, str]] = set()  # of the programs that have a tag
        self._open = False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """In the body of the with statement instrumented binaries ask for memory when they are launched."""
        with patched(CompiledKernel, "__init__", self._compiled):
            try:
                self._ask(True)
                yield
            finally:
                self._ask(False)

    def loaded(self, function: int, metadata_group: dict[str, str]) -> Manifest | None:
        """Remember what a binary records. metadata_group: file name -> path, the very object of the kernel.

        Returns the manifest, None for a bare binary.
        """
        with self._lock:
            kernel = self._by_group.get(id(metadata_group))
            program = None if kernel is None else self._programs.get(kernel)
            self._know(function, kernel, program)
        return None if program is None else program.manifest

    def tagged(self, tag: int) -> tuple[Manifest, ...]:
        """The programs that ask the profile allocator for this alignment; see `Manifest.tag`."""
        return self._by_tag.get(tag, ())

    def has(self, tag: int, mode: str) -> bool:
        """Whether one of the programs with this tag is of this mode."""
        return (tag, mode) in self._modes

    def functions(self) -> tuple[int, ...]:
        """Handles of the loaded functions that record."""
        return tuple(self._by_function)

    def of(self, function: int) -> Program | None:
        """The program of a loaded function, None if it is bare or unknown."""
        return self._by_function.get(function)

    def with_manifest(self, manifest: Manifest) -> Program:
        """The loaded program with this manifest; without its build if several configurations share it."""
        with self._lock:
            alike = [program for program in self._by_function.values() if program.manifest == manifest]
        keys = {None if program.build is None else program.build.key for program in alike}
        return alike[0] if len(keys) == 1 else Program(manifest, "")

    def about_bare(self) -> dict[str, Any]:
        """What the bare binaries take that were loaded, by key; of those that were instrumented too, also
        their `arithmetic`, which takes time to find."""
        with self._lock:
            bare = dict(self.bare)
            builds = [program.build for program in self._by_function.values()]
        texts: dict[str, set[tuple[str, ...]]] = {}  # of what was instrumented, by key
        for build in builds:
            if build is not None:
                texts.setdefault(build.key, set()).add(_texts(build))
        # Functions of one name may be alike in all that the key is made of.
        return {
            key: build.resources() | ({"arithmetic": build.arithmetic} if key in texts else {})
            for key, build in bare.items()
            if texts.get(key, {_texts(build)}) == {_texts(build)}
        }

    def failed(self, function: int) -> Program | None:
        """The program of a loaded function that should record and does not; None for others."""
        return self._failed.get(function)

    def program(self, kernel: CompiledKernel) -> Program | None:
        """What a binary that was made in a session records; None if it is bare."""
        return self._programs.get(kernel)

    def disown(self, kernel: CompiledKernel, mode: str) -> None:
        """A binary that Triton has under the key of a session, and that no session has compiled."""
        why = "another session ended while it was compiled, bare; the next process compiles anew"
        with self._lock:
            self._programs[kernel] = _unreadable(kernel, mode, why)

    def _compiled(self, init: Callable[..., None]) -> Callable[..., None]:
        """CompiledKernel.__init__: Triton makes one of what it compiles, and of what its cache has."""

        def made(kernel: CompiledKernel, *args: Any, **kwargs: Any) -> None:
            init(kernel, *args, **kwargs)
            program = _program(kernel)
            with self._lock:
                self._by_group[id(kernel.metadata_group)] = kernel
                if program is not None:
                    self._programs[kernel] = program
                    _ask(kernel, program.manifest, self._open)

        return made

    def _ask(self, asks: bool) -> None:
        with self._lock:
            self._open = asks
            for kernel, program in list(self._programs.items()):
                _ask(kernel, program.manifest, asks)
                if asks and kernel.function is not None:  # it may have been loaded while no session looked
                    self._know(kernel.function, kernel, program)

    def _know(self, function: int, kernel: CompiledKernel | None, program: Program | None) -> None:
        # Handles of unloaded functions are reused, so a bare binary must displace what was known. What
        # records is known all the time: another thread may be launching it.
        if kernel is None or program is None or program.manifest.failure:
            self._by_function.pop(function, None)
        self._failed.pop(function, None)
        if kernel is None:
            return
        if program is None:
            build = self._build_of(kernel)
            if build is not None:
                self.bare[build.key] = build
            return
        manifest = program.manifest
        if manifest.failure:
            self._failed[function] = program
            return
        self._by_function[function] = program._replace(build=self._build_of(kernel, manifest.warps))
        tagged = self._by_tag.get(manifest.tag, ())
        if manifest not in tagged:
            self._by_tag[manifest.tag] = (*tagged, manifest)
        self._modes.add((manifest.tag, program.mode))

    def _build_of(self, kernel: CompiledKernel, warps: int | None = None) -> Build | None:
        """As `build_of`; None where that fails, since this runs inside of a user's launch."""
        known = self._builds.get(kernel)
        if known is not None:
            return known
        try:
            build = build_of(kernel, warps)
        except Exception as error:  # noqa: BLE001  constexprs are users' objects, whose methods may raise anything
            self.undescribed[kernel.name] = one_line(error)
            return None
        self.undescribed.pop(kernel.name, None)
        self._builds[kernel] = build
        return build


def _texts(build: Build) -> tuple[str, ...]:
    return tuple(source.text for source in build.sources)


def _ask(kernel: CompiledKernel, manifest: Manifest, asks: bool) -> None:
    """Let a binary ask for its memory, or for none: its launcher does, or the one that it is yet to get."""
    if manifest.failure:
        return
    size = manifest.tag if asks else 0
    kernel.metadata = kernel.metadata._replace(profile_scratch_size=size)
    if hasattr(kernel._run, "profile_scratch_size"):
        kernel._run.profile_scratch_size = size


PROGRAMS: Final = ProgramTable()
