"""One file per target: how a clock is read, a record stored, a warp identified."""

from __future__ import annotations

from instrument_passes.errors import PassError
from instrument_passes.ir import Module
from instrument_passes.targets.amd import ARCHITECTURES, Amd
from instrument_passes.targets.base import Target
from instrument_passes.targets.nvidia import Nvidia

__all__ = ["Target", "target_of"]


def target_of(module: Module) -> Target:
    """The target named by the module's `ttg.target`. Raises PassError for one that has no file here."""
    name = (module.attr("ttg.target") or "").strip('"')
    backend, _, arch = name.partition(":")
    if backend == "cuda" and arch.isdigit():
        clusters = (module.attr("ttg.num-ctas") or "1").split(":")[0].strip()
        return Nvidia(int(arch), clustered=clusters != "1")
    if backend == "hip" and arch in ARCHITECTURES:
        return Amd(arch)
    known = ", ".join(["cuda:<capability>", *(f"hip:{known}" for known in ARCHITECTURES)])
    raise PassError(f"cannot instrument for target {name or '(none)'!r}: profscope knows {known}")
