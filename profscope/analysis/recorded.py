"""How much of a kernel's launches was recorded, where its session chose CTAs or warps: figures and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from profscope.analysis.work import Launch

__all__ = ["about_recorded", "not_samples", "selection_notes"]

_SHOWN_IDS: Final = 8


def about_recorded(launches: Sequence[Launch]) -> dict[str, Any]:
    """Entry "recorded" of a kernel in the metadata, from its launches; JSON-able.

    ctas of grid_ctas CTAs, over all launches; warps: those of a CTA, or None for all. sample: whether the
    CTAs speak for the grid, so that totals times grid_ctas / ctas estimate the whole launch.
    """
    warps = launches[-1][0].selection.warps
    return {
        "ctas": sum(int(np.count_nonzero(decoded.headers["start_clock"])) for _, decoded, _, _ in launches),
        "grid_ctas": sum(ctas for _, _, ctas, _ in launches),
        "warps": list(warps) if warps else None,
        "sample": all(manifest.selection.is_sample for manifest, _, _, _ in launches),
    }


def not_samples(metadata: dict[str, Any]) -> frozenset[str]:
    """The kernels of a profile whose recorded CTAs do not speak for their grids."""
    kernels = metadata.get("kernels") or {}
    recorded = {name: about.get("recorded", {}) for name, about in kernels.items()}
    return frozenset(name for name, about in recorded.items() if not about.get("sample", True))


def selection_notes(launches: Sequence[Launch]) -> list[str]:
    """What the reader of one kernel's figures must know about who recorded, one line each."""
    recorded = sum(len(decoded.headers) for _, decoded, _, _ in launches)
    grid = sum(ctas for _, _, ctas, _ in launches)
    manifest = launches[-1][0]
    kernel, selection = manifest.kernel, manifest.selection
    notes = []
    if recorded < grid:
        ids = ", ".join(map(str, selection.ids[:_SHOWN_IDS]))
        ids += ", ..." if len(selection.ids) > _SHOWN_IDS else ""
        which = {
            "stride": "at regular distances in the grid",
            "first": "the first wave: those that started before any on their SM had ended",
            "list": f"those that ctas= lists: {ids}",
            "sms": f"those that ran on SM {ids}",
        }[selection.ctas]
        notes.append(f"{kernel}: {recorded} of {grid} CTAs were recorded, {which}")
    refused = sum(decoded.refused for _, decoded, _, _ in launches)
    if refused:
        notes.append(f"{kernel}: {refused} CTAs ran on these SMs and found no room; memory= gives more")
    if selection.warps:
        warps = ", ".join(map(str, selection.warps))
        notes.append(f"{kernel}: of the {manifest.warps} warps of a CTA only {warps} recorded")
    return notes
