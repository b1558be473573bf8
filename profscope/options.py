"""What a session can be told, validated once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from instrument_passes.errors import InstrumentError
from instrument_passes.passes.base import Pass
from instrument_passes.pipeline import parse_pipeline
from profscope.errors import OptionError

__all__ = ["LEVELS", "Options"]

# What each level records. "default" answers "where does the time go": the ops that a warp spends its time
# in or waits at, without a record per iteration.
LEVELS: Final[dict[str, str]] = {
    "light": "kernel-span,loop-spans",
    "default": "kernel-span,loop-spans,op-spans{classes=load;store;atomic;wait;mma;reduce;call}",
    "heavy": "kernel-span,loop-spans,iteration-spans,op-spans",
}
_LOWERING: Final = "lower-records,allocate-buffer"
_BACKENDS: Final = ("auto", "gpu", "emulator")
_MAX_BUFFER: Final = 1 << 20


@dataclass(frozen=True)
class Options:
    """Options of one session.

    kernels: regular expression that a kernel's name must match somewhere (`re.search`) to be instrumented.
    instrument: "light", "default", "heavy", or a sequence of passes, each as `profscope-opt -p` takes it.
    buffer: records (clock reads) that one warp's rings hold; loops with more keep their newest iterations.
    backend: "gpu", "emulator", or "auto" (the GPU where there is one, else the emulator).

    Raises OptionError naming the option, the value and what it takes.
    """

    kernels: str = ""
    instrument: str | Sequence[str] = "default"
    buffer: int = 1024
    backend: str = "auto"
    pipeline: tuple[Pass, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            re.compile(self.kernels)
        except (re.error, TypeError) as error:
            raise OptionError(f"kernels={self.kernels!r} is not a regular expression: {error}") from error
        if isinstance(self.buffer, bool) or not isinstance(self.buffer, int) or not 1 <= self.buffer <= _MAX_BUFFER:
            raise OptionError(f"buffer={self.buffer!r} must be a number of records per warp, 1 to {_MAX_BUFFER}")
        if self.backend not in _BACKENDS:
            raise OptionError(f"backend={self.backend!r} is not one of {', '.join(_BACKENDS)}")
        try:
            passes = parse_pipeline(f"{self._recording()},{_LOWERING}")
        except InstrumentError as error:
            raise OptionError(f"instrument={self.instrument!r}: {error}") from error
        object.__setattr__(self, "pipeline", tuple(passes))

    def _recording(self) -> str:
        if isinstance(self.instrument, str):
            if self.instrument not in LEVELS:
                raise OptionError(
                    f"instrument={self.instrument!r} is not one of {', '.join(LEVELS)}; for passes of your own "
                    "choice give a list"
                )
            return LEVELS[self.instrument]
        if not self.instrument or not all(isinstance(item, str) for item in self.instrument):
            raise OptionError(f"instrument={self.instrument!r} must be a level or a list of passes")
        return ",".join(self.instrument)

    def digest(self, version: str) -> str:
        """Identity of everything that changes the binary; goes into Triton's cache keys."""
        text = repr((version, self.kernels, self.pipeline, self.buffer))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def matches(self, kernel: str) -> bool:
        """Whether a kernel of this name is to be instrumented."""
        return re.search(self.kernels, kernel) is not None
