"""What only some events have: values that spans carry, and the ends of arrows."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.traces.chrome.lines import Words, text_table
from profscope.traces.jsontext import string_text
from profscope.traces.payloads import payload_name

__all__ = ["FLOW_ENDS", "PayloadTexts", "flow_ends", "payload_texts"]

Ints = NDArray[np.int64]
BEGIN, STEP, END = range(3)
FLOW_ENDS = text_table(['","flow_out":true', '","flow_in":true,"flow_out":true', '","flow_in":true'])


@dataclass(frozen=True)
class PayloadTexts:
    """A payload column as parts of args: `table` looked up by `index`, shape (rows,); 0 is no value."""

    table: Words
    index: NDArray[np.int32]


def payload_texts(column: "pd.Series[Any]") -> PayloadTexts:
    """The column's values, each distinct one spelled once."""
    if column.dtype == "category":
        texts = [f",{string_text(str(column.name))}:{string_text(str(v))}" for v in column.cat.categories]
        return PayloadTexts(text_table(["", *texts]), column.cat.codes.to_numpy().astype(np.int32) + 1)
    carried = np.flatnonzero(column.notna().to_numpy())
    distinct, position = np.unique(column.to_numpy()[carried].astype(_plain(column)), return_inverse=True)
    index = np.zeros(len(column), np.int32)
    index[carried] = position + 1
    texts = [f",{string_text(payload_name(column))}:{_number(value)}" for value in distinct.tolist()]
    return PayloadTexts(text_table(["", *texts]), index)


def flow_ends(df: pd.DataFrame) -> tuple[Ints, NDArray[np.int8]]:
    """Each row's flow, -1 if none, and which of FLOW_ENDS it is; both empty where nothing is in flight.

    A flow runs through all the intervals that one wait ended, as they began, to the wait. Numbers are used
    once: an event that ends a flow does not close it. Arrows run forward in time: what did not begin before
    its wait has none, as with a consumer that waits before its producer has started the copy.
    """
    wait = df["wait"].to_numpy()
    rows = np.flatnonzero((wait >= 0) & (wait < len(df)))
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int8)
    start, by = df["start_ns"].to_numpy(), wait[rows]
    ahead = start[rows] < start[by]
    rows, by = rows[ahead], by[ahead]
    order = np.lexsort((start[rows], by))
    rows, by = rows[order], by[order]
    flow, end = np.full(len(df), -1, np.int64), np.zeros(len(df), np.int8)
    first = np.diff(by, prepend=-1) != 0
    flow[rows] = flow[by] = np.cumsum(first) - 1
    end[rows], end[by] = STEP, END
    end[rows[first]] = BEGIN
    return flow, end


def _plain(column: "pd.Series[Any]") -> type[np.float64] | type[np.int64]:
    return np.float64 if column.dtype == "float64" else np.int64


def _number(value: float) -> str:
    text = json.dumps(value)
    return text if np.isfinite(value) else f'"{text}"'
