"""Buffers that a GPU wrote (tests/data, by tests/gpu/capture.py) decode to what they did then."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from profscope.compat.programs import manifest_in
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.decoding.decode import decode
from profscope.instrument_passes.manifest import Manifest
from profscope.profiles import Profile
from tests.gpu.capture import capture
from tests.kernels.cases import cases
from tests.support.programs import gaps
from tests.support.validation import validate

FILES = sorted((Path(__file__).parents[1] / "data").glob("*.npz"))
assert FILES, "tests/data has no captured buffers"


def check(path: Path) -> dict[str, Any]:
    """Everything that must hold of a captured launch; returns what the file says about itself."""
    with np.load(path) as arrays:
        buffer = arrays["buffer"]
        manifest_text, ttgir, about = (
            arrays[name].tobytes().decode() for name in ("manifest", "ttgir", "info")
        )
    manifest, info = Manifest.from_json(manifest_text), json.loads(about)
    assert manifest_in(ttgir) == manifest
    decoded = decode(buffer, manifest)
    assert decoded.dropped == info["dropped"]
    missing = gaps(decoded, manifest)
    assert bool(missing) == (info["dropped"] > 0)
    assert (len(decoded.span) - len(missing), decoded.records) == (info["spans"], info["records"])
    assert decoded.unmatched == 0
    assert decoded.anomalies == ()
    raw = RawLaunch(info["launch"], manifest, 0, 0, len(decoded.headers), buffer)
    profile = Profile.of(assemble([raw], {"backend": "gpu"}))
    assert validate(profile.tables) == []
    recorded = profile.df[~profile.df["kind"].isin(["async", "gap"])]  # those are worked out
    assert len(recorded) == info["spans"] > 0
    return dict(info)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_captured_buffer(path: Path) -> None:
    info = check(path)
    assert path.stat().st_size < 100_000, "captures are kept small"
    assert "emulator" not in info["device"]


def test_spans_of_all_captures() -> None:
    """They are those that a second decoder found, which went from record to record in plain Python."""
    digest = 0
    for path in FILES:
        with np.load(path) as arrays:
            manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
            decoded = decode(arrays["buffer"], manifest)
        for name in ("span", "cta", "warp", "start_cycle", "end_cycle", "iteration", "depth"):
            digest = zlib.crc32(np.ascontiguousarray(getattr(decoded, name), "<i8").tobytes(), digest)
    assert (len(FILES), digest) == (47, 4193187535)


def test_what_capture_writes_can_be_checked(tmp_path: Path) -> None:
    case = next(case for case in cases("small") if case.name == "while")
    (path,) = capture(case, "heavy", 16, tmp_path, "emulator")
    info = check(path)
    assert info["dropped"] > 0
    assert torch.cuda.is_available() or info["device"] == "profscope emulator"
