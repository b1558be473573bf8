"""The columns of what spans carry: numbers of the kernel's, and the iterations that ops worked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.decoding.decode import DecodedLaunch
from profscope.decoding.layouts import Part

__all__ = ["PayloadColumns"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]


class PayloadColumns:
    """One column a name: Int32, missing where a span carries none; float64, NaN there, if a value is f32."""

    def __init__(self, launches: Sequence[DecodedLaunch], rows: int) -> None:
        kinds: dict[str, bool] = {}
        for decoded in launches:
            for payload in decoded.payloads:
                kinds[payload.name] = kinds.get(payload.name, False) or payload.values.dtype == np.float32
        self._values: dict[str, npt.NDArray[Any]] = {
            name: np.empty(rows, np.float64 if floating else np.int32)
            for name, floating in sorted(kinds.items())
        }
        self._missing = {name: np.empty(rows, np.bool_) for name, floating in kinds.items() if not floating}

    def fill(self, decoded: DecodedLaunch, target: Ints | slice, rank: Ints) -> None:
        """Put a launch's values into its rows, `target`: those that its spans got, and nothing elsewhere."""
        self._clear(target)
        for payload in decoded.payloads:
            rows = rank.take(payload.rows)
            self._values[payload.name][rows] = payload.values
            if payload.name in self._missing:
                self._missing[payload.name][rows] = False

    def fill_laid_out(self, decoded: DecodedLaunch, part: Part, target: slice, words: Words) -> None:
        """The same of a part of a launch that is laid out. words: of its CTAs, shape (CTAs, words)."""
        self._clear(target)
        for payload in decoded.payloads:
            mine = slice(*np.searchsorted(payload.rows, [part.rows.start, part.rows.stop]).tolist())
            rows = payload.rows[mine] - part.rows.start
            of_all: Any = payload.values[mine]
            if payload.places is not None:
                of_all = words.take(payload.places[mine], axis=1).view(payload.values.dtype)
            self._values[payload.name][target].reshape(part.shape)[:, rows] = of_all
            if payload.name in self._missing:
                self._missing[payload.name][target].reshape(part.shape)[:, rows] = False

    def _clear(self, target: Ints | slice) -> None:
        for name, values in self._values.items():
            values[target] = 0 if name in self._missing else np.nan
            if name in self._missing:
                self._missing[name][target] = True

    def series(self) -> dict[str, Any]:
        """By name what goes into the table."""
        return {
            name: pd.arrays.IntegerArray(values, self._missing[name]) if name in self._missing else values
            for name, values in self._values.items()
        }
