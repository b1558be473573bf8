"""How many CTAs would be on an SM if a pipelined loop had another number of stages."""

from __future__ import annotations

from typing import NamedTuple

from instrument_passes.analyses.occupancy import SmLimits, limits_of
from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = ["StageOccupancy", "room_for_stages"]


class StageOccupancy(NamedTuple):
    """What a configuration's bare binary takes of an SM, or else the instrumented one.

    stages: num_stages. shared_bytes: of a CTA; not all of it need be of stages. ctas: on an SM at once.
    """

    limits: SmLimits
    warps: int
    registers: int
    stages: int
    shared_bytes: int
    ctas: int

    def shared_with(self, stages: int) -> int:
        """Bytes of a CTA with so many stages, as if each had its part of all."""
        return self.shared_bytes * stages // self.stages

    def ctas_with(self, stages: int) -> int:
        """CTAs that fit on an SM with so many stages; 0 if none does."""
        return self.limits.fit(self.warps, self.registers, self.shared_with(stages))


def room_for_stages(judged: KernelAnalysis) -> StageOccupancy | None:
    """None where the profile does not say what the binary takes, or the GPU is not in the table."""
    build = judged.build("bare") or judged.build("instrumented")
    device = judged.tables.metadata.get("device")
    arch = str(device.get("arch", "")) if isinstance(device, dict) else ""
    limits = limits_of(arch.replace("sm_", "cuda:").rstrip("a"))
    names = ("num_warps", "num_stages")
    warps, stages = (int(judged.configuration.get(name) or 0) for name in names)
    ctas, shared = int(build.get("ctas_per_sm") or 0), int(build.get("shared_bytes") or 0)
    if not (warps and stages and ctas and isinstance(limits, SmLimits)):
        return None
    return StageOccupancy(limits, warps, int(build.get("registers") or 0), stages, shared, ctas)
