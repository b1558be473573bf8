"""Rows of `prof.counts` that nobody counted."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profscope.schema import measured_frame

__all__ = ["counted"]


def counted(*rows: tuple[str, int, int], file: str = "k.py", **amounts: int) -> pd.DataFrame:
    """rows: opcode, line and how often it ran, of instructions one after the other. amounts: other columns,
    of each of them."""
    opcodes, lines, executed = zip(*rows, strict=True)
    columns: dict[str, Any] = dict.fromkeys(measured_frame("counts").columns, [0] * len(rows))
    alike = {"kernel": "k", "file": file, "call_path": "", "launches": 1} | amounts
    columns |= {name: [value] * len(rows) for name, value in alike.items()}
    columns |= {"pc": [16 * at for at in range(len(rows))], "opcode": opcodes, "line": lines}
    return measured_frame("counts", columns | {"executed": executed})
