"""How many CTAs of a configuration's binary fit on an SM at once, by what it takes of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["max_resident_ctas"]


def max_resident_ctas(metadata: Mapping[str, Any], kernel: str, variant: int) -> int:
    """Of the binary that recorded; of several of that with most room. 0 where nobody says.

    Of a GPU's binaries the profile says it. The emulator's follows from its model, which knows no registers.
    """
    entries = (metadata.get("variants") or {}).get(kernel) or ()
    configuration: Mapping[str, Any] = next((each for each in entries if each.get("variant") == variant), {})
    device = metadata.get("device")
    model = device if metadata.get("backend") == "emulator" and isinstance(device, dict) else {}
    warps = configuration.get("num_warps")
    return max(
        (
            _positive(build.get("ctas_per_sm")) or _by_model(model, warps, build.get("shared_bytes"))
            for build in configuration.get("builds") or ()
            if build.get("build") == "instrumented"
        ),
        default=0,
    )


def _by_model(model: Mapping[str, Any], warps: Any, shared_bytes: Any) -> int:
    most_warps, most_ctas, most_shared = (
        _positive(model.get(name)) for name in ("warps_per_sm", "ctas_per_sm", "shared_bytes_per_sm")
    )
    if not (most_warps and most_ctas and most_shared and _positive(warps)):
        return 0
    from profscope.emulator.device import Model  # for the emulator's profiles alone

    limits = Model(warps_per_sm=most_warps, ctas_per_sm=most_ctas, shared_bytes_per_sm=most_shared)
    return limits.slots_per_sm(warps, _positive(shared_bytes))


def _positive(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
