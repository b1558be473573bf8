"""What a session can be told, validated once."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import instrument_passes
from instrument_passes.errors import InstrumentError
from instrument_passes.passes.base import Pass
from instrument_passes.passes.op_spans import OpSpans
from instrument_passes.pipeline import LEVELS, LOWERING, parse_pipeline
from instrument_passes.records import LaunchBits
from profscope.errors import OptionError

__all__ = ["LEVELS", "Options"]

_BACKENDS: Final = ("auto", "gpu", "emulator")
_MEASURES: Final = ("issue", "latency")
_MAX_BUFFER: Final = 1 << 20
_STATIC_RECORDS: Final = 1 << 13


@dataclass(frozen=True)
class Options:
    """Options of one session.

    kernels: regular expression that a kernel's name must match somewhere (`re.search`) to be instrumented.
    instrument: "light", "default", "heavy", or a sequence of passes, each as `profscope-opt -p` takes it.
    buffer: records (clock reads) that one warp's rings hold at most; loops with more keep their newest
    iterations. None: rings as long as the kernel's first launch shows to be needed.
    ctas: record every so-manieth CTA, rounded up to a power of two; memory may demand fewer.
    memory: MiB of device memory for profile buffers.
    backend: "gpu", "emulator", or "auto" (the GPU where there is one, else the emulator).
    measure: what spans on loads end with, their "issue" or, with "latency", the arrival of their data.

    Raises OptionError naming the option, the value and what it takes.
    """

    kernels: str = ""
    instrument: str | Sequence[str] = "default"
    buffer: int | None = None
    backend: str = "auto"
    ctas: int = 1
    memory: int = 256
    measure: str = "issue"
    pipeline: tuple[Pass, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            re.compile(self.kernels)
        except (re.error, TypeError) as error:
            raise OptionError(f"kernels={self.kernels!r} is not a regular expression: {error}") from error
        if self.buffer is not None:
            _check_int("buffer", self.buffer, 1, _MAX_BUFFER, "a number of records per warp")
        _check_int("ctas", self.ctas, 1, 1 << LaunchBits.MASK, "a stride in CTAs")
        _check_int("memory", self.memory, 1, 1 << 20, "a number of MiB")
        if self.backend not in _BACKENDS:
            raise OptionError(f"backend={self.backend!r} is not one of {', '.join(_BACKENDS)}")
        if self.measure not in _MEASURES:
            raise OptionError(f"measure={self.measure!r} is not one of {', '.join(_MEASURES)}")
        try:
            passes = parse_pipeline(f"{self._recording()},{LOWERING}")
        except InstrumentError as error:
            raise OptionError(f"instrument={self.instrument!r}: {error}") from error
        if self.measure == "latency":
            passes = self._to_their_data(passes)
        object.__setattr__(self, "pipeline", tuple(passes))

    def _to_their_data(self, passes: Sequence[Pass]) -> list[Pass]:
        if not any(isinstance(step, OpSpans) for step in passes):
            raise OptionError(
                f"measure='latency' finds no load to measure: instrument={self.instrument!r} records no ops; "
                "take 'default', 'heavy' or a list with op-spans"
            )
        return [replace(step, measure="latency") if isinstance(step, OpSpans) else step for step in passes]

    def _recording(self) -> str:
        if isinstance(self.instrument, str):
            if self.instrument not in LEVELS:
                raise OptionError(
                    f"instrument={self.instrument!r} is not one of {', '.join(LEVELS)}; for passes of your "
                    "own choice give a list"
                )
            return LEVELS[self.instrument]
        if not self.instrument or not all(isinstance(item, str) for item in self.instrument):
            raise OptionError(f"instrument={self.instrument!r} must be a level or a list of passes")
        return ",".join(self.instrument)

    @property
    def stride_log2(self) -> int:
        return (self.ctas - 1).bit_length()

    @property
    def static_records(self) -> int:
        """Up to how many records per warp a loop of static trip count gets room for without a ring."""
        return _STATIC_RECORDS if self.buffer is None else self.buffer

    def digest(self, version: str) -> str:
        """Identity of all that changes the binary, the passes' code included; for Triton's cache keys."""
        settings = repr((version, self.kernels, self.pipeline, self.static_records))
        modules = {type(step).__module__ for step in self.pipeline}
        return hashlib.sha256((settings + _code(frozenset(modules))).encode()).hexdigest()[:12]

    def matches(self, kernel: str) -> bool:
        """Whether a kernel of this name is to be instrumented."""
        return re.search(self.kernels, kernel) is not None


def _check_int(name: str, value: object, low: int, high: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name}={value!r} must be {what}, {low} to {high}")


@functools.cache
def _code(modules: frozenset[str]) -> str:
    """Hash of the sources of instrument_passes and of the modules that define passes."""
    files = set(Path(instrument_passes.__path__[0]).rglob("*.py"))
    files |= {Path(file) for name in modules if (file := sys.modules[name].__file__) is not None}
    hashes = (hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files))
    return "".join(hashes)
