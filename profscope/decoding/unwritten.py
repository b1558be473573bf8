"""Launches into whose memory nothing was written."""

from __future__ import annotations

from instrument_passes.manifest import Manifest

__all__ = ["wrote_nothing"]


def wrote_nothing(index: int, manifest: Manifest) -> str:
    """A note on such a launch."""
    return f"launch {index} ({manifest.kernel}) wrote nothing: it did not run"
