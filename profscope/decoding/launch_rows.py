"""What is kept of each launch that kept sums: some tens of bytes, since most of it is that of others, too."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["ROW", "LaunchRows"]

ROW: Final = np.dtype(
    [
        ("launch", "<i8"),
        ("stream", "<i8"),
        ("profile_bytes", "<i8"),
        ("start_ns", "<i8"),  # of the first CTA, as its globaltimer read; 0 where no CTA came to its end
        ("end_ns", "<i8"),
        ("grid_ctas", "<i8"),  # of the launch
        ("chosen", "<i8"),  # CTAs that were to record
        ("ended", "<i8"),  # of these, those that came to their end
        ("wrapped", "<i8"),  # of these, those that may have run for more than 2^32 cycles
        ("refused", "<i8"),  # CTAs that found no area
        ("grid_x", "<i4"),  # CTAs, those of all clusters, as is grid_y
        ("grid_y", "<i4"),
        ("cluster", "<i4"),  # CTAs of a cluster
        ("graph", "<i4"),
        ("replay", "<i4"),
        ("cold", "?"),
        ("slope", "<f8"),  # ns per cycle, NaN where the clocks of this launch alone do not tell
    ]
)
_OWN: Final = ("launch", "start_ns", "end_ns", "slope", "replay")
_COMMON: Final = [name for name in ROW.names or () if name not in _OWN]
_PACKED: Final = np.dtype([*((name, ROW[name]) for name in _OWN), ("kind", "<i4")])
_KIND: Final = np.dtype([(name, ROW[name]) for name in _COMMON])

Rows = npt.NDArray[np.void]


class LaunchRows:
    """Rows of dtype ROW: what is in `_COMMON` is kept once for all launches in which it is the same."""

    def __init__(self) -> None:
        self._packed: list[Rows] = []
        self._kinds: dict[bytes, int] = {}

    def add(self, rows: Rows) -> None:
        packed, common = np.zeros(len(rows), _PACKED), np.zeros(len(rows), _KIND)
        for name in _OWN:
            packed[name] = rows[name]
        for name in _COMMON:
            common[name] = rows[name]
        # As bytes: numpy compares records of several columns field by field.
        kinds, inverse = np.unique(common.view(f"V{_KIND.itemsize}"), return_inverse=True)
        numbers = [self._kinds.setdefault(kind.tobytes(), len(self._kinds)) for kind in kinds]
        packed["kind"] = np.array(numbers, np.int32)[inverse]
        self._packed.append(packed)

    def whole(self) -> Rows:
        """All of them, in order of their launches."""
        packed = np.concatenate([np.zeros(0, _PACKED), *self._packed])
        packed = packed[np.argsort(packed["launch"], kind="stable")]
        kinds = np.frombuffer(b"".join(self._kinds), _KIND)
        rows = np.zeros(len(packed), ROW)
        for name in _OWN:
            rows[name] = packed[name]
        for name in _COMMON:
            rows[name] = kinds[name][packed["kind"]]
        return rows
