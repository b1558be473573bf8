"""What an H200's sampler gave of three kernels, with the binaries that ran."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from profscope.evidence.subject import SampledLaunch, Subject

CAPTURES = ("attention", "chase", "layer_norm")
_FOLDER = Path(__file__).parents[1] / "data" / "sampler"


def captured(name: str, **changed: Any) -> SampledLaunch:
    """A launch of a kernel. changed: fields of its `Subject`."""
    capture = _capture(name)
    function = str(capture["functions"][0])
    fields = {"kernel": function, "key": "key", "shape": (), "function": function}
    fields |= {"cubin": capture["cubin"].tobytes(), "ptx": str(capture["ptx"])}
    return SampledLaunch(
        subject=Subject(**fields | changed),
        period_log2=int(capture["period_log2"]),
        taken=int(capture["taken"]),
        dropped=int(capture["dropped"]),
        rows=capture["rows"],
        reasons=tuple(map(str, capture["reasons"])),
    )


@cache
def _capture(name: str) -> dict[str, Any]:
    with np.load(_FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)
