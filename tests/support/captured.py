"""Buffers that an H200 wrote (tests/data), as profiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from profscope.decoding.areas import read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.manifest import Manifest
from profscope.profiles import Profile

_DATA = Path(__file__).parents[1] / "data"


def captured(*names: str) -> Profile:
    """What an H200 wrote, as one profile."""
    launches = []
    for index, name in enumerate(names):
        with np.load(_DATA / f"{name}.npz") as arrays:
            manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
            buffer = arrays["buffer"]
        launches.append(RawLaunch(index, manifest, 0, 0, len(read_buffer(buffer, manifest).ctas), buffer))
    return Profile.of(assemble(launches, {"backend": "gpu"}))
