"""What an H200's sampler gave of three kernels, with the binaries that ran."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from profscope.evidence.subject import SampledLaunch

CAPTURES = ("attention", "chase", "layer_norm")
_FOLDER = Path(__file__).parents[1] / "data" / "sampler"


def captured(name: str, launch: int = -1, binary: str = "bare", key: str = "key") -> SampledLaunch:
    """A launch of a kernel, bare, or said to be another."""
    capture = _capture(name)
    return SampledLaunch(
        kernel=str(capture["functions"][0]),
        variant_key=key,
        launch=launch,
        binary=binary,
        period_log2=int(capture["period_log2"]),
        taken=int(capture["taken"]),
        dropped=int(capture["dropped"]),
        rows=capture["rows"],
        reasons=tuple(map(str, capture["reasons"])),
        cubin=capture["cubin"].tobytes(),
        ptx=str(capture["ptx"]),
    )


@cache
def _capture(name: str) -> dict[str, Any]:
    with np.load(_FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)
