"""The columns of the table of spans, with their pandas dtypes, in order.

They are declared below profscope, which makes the table, because no payload may have the name of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "CORRECTED_COLUMNS",
    "MODEL_COLUMNS",
    "PATH_SEPARATOR",
    "RESERVED",
    "SPAN_COLUMNS",
    "STAGE_COLUMNS",
    "VALUES_OF",
]

SPAN_COLUMNS: Final[Mapping[str, str]] = {
    "kernel": "category",
    "launch": "int32",
    "cta": "int32",
    "sm": "int32",
    "warp": "int32",
    "scope": "category",
    "kind": "category",
    "file": "category",
    "line": "int32",
    "call_path": "category",
    "iteration": "int32",
    "depth": "int32",
    "parent": "int64",
    "wait": "int64",
    "start_cycle": "int64",
    "duration_cycles": "int64",
    "start_ns": "int64",
    "duration_ns": "int64",
}
VALUES_OF: Final = "values of "
"""So the scopes of value probes begin, whose payloads are counts: a user's may have the same name."""
PATH_SEPARATOR: Final = " > "
"""What stands between the steps of a `call_path`."""

# Of tables with ops of pipelined loops, among the columns of payloads: see `analyses/loop_stages.py`.
STAGE_COLUMNS: Final[Mapping[str, str]] = {"stage": "category", "for_iteration": "Int32"}

CORRECTED_COLUMNS: Final[Mapping[str, str]] = {"corrected_cycles": "Int64", "corrected_ns": "Int64"}
"""Behind all others: see `profscope/analysis/corrections.py`."""

MODEL_COLUMNS: Final[Mapping[str, str]] = {
    "module": "category",
    "model_file": "category",
    "model_line": "int32",
}
"""Of kernels that torch.compile made: see `profscope/analysis/model_places.py`."""

# What no payload may be called.
RESERVED: Final = frozenset((*SPAN_COLUMNS, *STAGE_COLUMNS, *CORRECTED_COLUMNS, *MODEL_COLUMNS))
