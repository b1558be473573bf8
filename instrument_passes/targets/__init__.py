"""One file per target: how a clock is read, a record stored, a warp identified."""

from __future__ import annotations

from instrument_passes.discovery import import_all
from instrument_passes.errors import PassError
from instrument_passes.ir import Module
from instrument_passes.ir.tokens import unquote
from instrument_passes.targets.base import Target, registered

__all__ = ["Target", "target_of"]


def target_of(module: Module) -> Target:
    """The target named by the module's `ttg.target`. Raises PassError for one that has no file here."""
    import_all(__package__)
    name = unquote(module.attr("ttg.target") or '""')
    clusters = (module.attr("ttg.num-ctas") or "1").split(":")[0].strip()
    for cls in registered():
        target = cls.of(name, clustered=clusters != "1")
        if target is not None:
            return target
    known = ", ".join(sorted(spelling for cls in registered() for spelling in cls.spellings))
    raise PassError(f"cannot instrument for target {name or '(none)'!r}: profscope knows {known}")
