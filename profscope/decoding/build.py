"""The description of a recorded binary: its function, configuration and build."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.areas import split
from profscope.errors import RecordError
from profscope.instrument_passes.manifest import Manifest, wrong_field
from profscope.instrument_passes.records import STAMP

__all__ = ["ORDINARY", "Build", "Mark", "RawLaunch", "SourceText"]


@dataclass(frozen=True)
class SourceText:
    """A function's text, as it was when the kernel was compiled. file, line: where it begins."""

    name: str
    file: str
    line: int
    text: str

    def described(self) -> dict[str, Any]:
        """JSON-able; sha256: of the text."""
        return {**asdict(self), "sha256": hashlib.sha256(self.text.encode(errors="replace")).hexdigest()}


@dataclass(frozen=True, eq=False)
class Build:
    """One binary of a kernel.

    configuration: JSON-able; `function`, its name with its module's; `source_hash`, of its text and of all
    that it calls and captures, as Triton keys it; `captured`, by name the functions and constexprs from
    outside that its text names; and what the launch chose: `constexprs`, `signature` and `specialisation` of
    the arguments, `num_warps`, `num_stages`, `num_ctas`, `maxnreg`.
    registers: a thread's; spills: in units of the compiler's; shared_bytes: a CTA's; ctas_per_sm: how many
    fit; instructions: of machine code; each None if unknown.
    sources: the texts of the kernel and of the functions it calls. model: where torch.compile made it of, as
    `recording.origins` says; {} for other kernels. ptx: what it was assembled from, ttgir: what that was made
    from; "" if there is none.
    """

    kernel: str
    configuration: dict[str, Any] = field(default_factory=dict)
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    ctas_per_sm: int | None = None
    instructions: int | None = None
    sources: tuple[SourceText, ...] = ()
    model: dict[str, Any] = field(default_factory=dict)
    ptx: str = field(default="", repr=False)
    ttgir: str = field(default="", repr=False)

    @cached_property
    def key(self) -> str:
        """Names kernel, module, source and configuration: the same in every session."""
        # What is captured is in the source's hash, and not known of a function from another process.
        told = {name: value for name, value in self.configuration.items() if name != "captured"}
        text = json.dumps([self.kernel, told], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def resources(self) -> dict[str, int | None]:
        """Resources of the binary."""
        return {
            "registers": self.registers,
            "spills": self.spills,
            "shared_bytes": self.shared_bytes,
            "ctas_per_sm": self.ctas_per_sm,
            "instructions": self.instructions,
        }

    def to_json(self) -> dict[str, Any]:
        """All of it, for `from_json`, but PTX and TTGIR."""
        return asdict(replace(self, ptx="", ttgir=""))

    @staticmethod
    def from_json(document: dict[str, Any]) -> Build:
        """From the result of `to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        sources = tuple(SourceText(**source) for source in document["sources"])
        build = Build(**{**document, "sources": sources})
        wrong = wrong_field(build)
        if wrong is not None:
            raise ValueError(f"a binary with {wrong}")
        return build


class Mark(NamedTuple):
    """The circumstances of a launch. graph, replay: indices in the session; cold: zeroing its memory
    displaced much of the L2 cache right before it; host: the number of the host scope around it."""

    graph: int = -1
    replay: int = -1
    cold: bool = False
    host: int = -1


ORDINARY: Final = Mark()


@dataclass(frozen=True)
class RawLaunch:
    """One launch as it came back. ctas: CTAs of the grid; buffer: uint8, stamps and the areas of those
    recorded. build: of the binary, None if unknown."""

    index: int
    manifest: Manifest
    device: int
    stream: int
    ctas: int
    buffer: npt.NDArray[np.uint8]
    mark: Mark = ORDINARY
    build: Build | None = None

    @property
    def records(self) -> npt.NDArray[np.uint8]:
        """Launch header and areas."""
        return split(self.buffer, self.manifest, self.ctas)[1]

    @property
    def stamps(self) -> npt.NDArray[np.void]:
        """dtype STAMP, one for each CTA of the grid, or none. Raises RecordError if they are cut."""
        stamps = split(self.buffer, self.manifest, self.ctas)[0]
        if len(stamps) < self.manifest.stamps_bytes(self.ctas):
            raise RecordError(
                f"truncated profile buffer of kernel {self.manifest.kernel}: {len(stamps)} bytes do not hold "
                f"the stamps of {self.ctas} CTAs"
            )
        return np.ascontiguousarray(stamps).view(STAMP)[: self.manifest.stamps_of(self.ctas)]
