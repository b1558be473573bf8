"""Launches that did not end, found by a session with `hang_s=`, as a table and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profscope.schema import Tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HANG_COLUMNS", "hang_texts", "hangs_of"]

HANG_COLUMNS: Final = {
    "kernel": "str",
    "variant": "int32",
    "launch": "int64",
    "cta": "int64",
    "sm": "int32",
    "warp": "int32",
    "partition": "str",
    "file": "str",
    "line": "int32",
    "op": "str",
    "iteration": "int64",
    "waits_for": "str",
    "arrives": "str",
    "since_s": "float64",
}
"""Columns of `prof.hangs`, and their dtypes.

partition: of a warp-specialised kernel, "" of others. file, line, op: where the warp stands. iteration: of
the innermost loop there, from 0. waits_for: in words; arrives: which code ends that, if it is an mbarrier.
since_s: for how long the warp had not moved when the launch was reported, seconds; NaN if the emulator has
found by itself that it hangs.
"""


def hangs_of(tables: Tables) -> pd.DataFrame:
    """One row for each warp that had not ended, of each launch that was reported to hang."""
    import pandas as pd

    rows = tables.metadata.get("hangs") or []
    columns = {name: [row.get(name) for row in rows] for name in HANG_COLUMNS}
    return pd.DataFrame(columns).astype(HANG_COLUMNS)


def hang_texts(tables: Tables) -> list[str]:
    """The reports, one or several lines each: launches that hang, are slow or have not begun."""
    return [str(text) for text in tables.metadata.get("hang_reports") or []]
