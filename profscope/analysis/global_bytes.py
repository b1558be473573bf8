"""Which ops move bytes between global memory and a CTA: others move the same bytes once more inside."""

import pandas as pd

from instrument_passes.analyses.opclasses import OPS

__all__ = ["with_global_bytes"]

_CLASSES = ("load", "store", "atomic", "async_copy")
_INSIDE = ("local atomic", "cluster store")
_LABELS = {info.label: info.cls for info in OPS.values() if info.moves}


def with_global_bytes(summary: pd.DataFrame) -> pd.DataFrame:
    """A summary whose `bytes` are missing where an op moves none to or from global memory."""
    moved = [_is_global(scope) for scope in summary["scope"].astype("str")]
    return summary.assign(bytes=summary["bytes"].where(pd.Series(moved, summary.index, dtype="bool")))


def _is_global(scope: str) -> bool:
    """By the label that the scope's name begins with."""
    own = max((label for label in _LABELS if f"{scope} ".startswith(f"{label} ")), key=len, default="")
    return _LABELS.get(own) in _CLASSES and own not in _INSIDE
