"""What it takes to compile a kernel with no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CUDA80 = "cuda:80"
CUDA90 = "cuda:90"
CUDA100 = "cuda:100"
GFX942 = "hip:gfx942"
GFX950 = "hip:gfx950"
TARGETS = (CUDA80, CUDA90, CUDA100, GFX942)


@dataclass(frozen=True)
class Spec:
    """One ahead-of-time compilation of a kernel.

    `signature` gives the type of every argument but the constexprs, as Triton writes it ("*fp16", "i32").
    `aligned` names the arguments that are multiples of 16, as pointers and sizes mostly are in real launches.
    `unsupported` says for each target that cannot compile this kernel why not.
    """

    name: str
    fn: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    aligned: tuple[str, ...] = ()
    unsupported: Mapping[str, str] = field(default_factory=dict)
