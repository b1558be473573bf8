"""Tables of samples for tests, by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from profscope.schema import samples_frame


def sample_rows(
    of_line: Mapping[int, Mapping[str, int]],
    *,
    binary: str = "bare",
    kernel: str = "matmul_kernel",
    file: str = "/src/kernels/matmul.py",
    blamed: Mapping[int, tuple[int, str]] | None = None,
    classes: Mapping[int, str] | None = None,
    call_path: str = "",
    **columns: Any,
) -> pd.DataFrame:
    """Samples by line and stall. blamed: by line, the line and the class that its stalls are charged to.
    classes: by line, those of the instructions there."""
    rows = [
        {
            "line": line,
            "pc": 16 * line,
            "stall": stall,
            "samples": count,
            "class": (classes or {}).get(line, ""),
            "blamed_line": (blamed or {}).get(line, (line, ""))[0],
            "blamed_class": (blamed or {}).get(line, (line, ""))[1],
        }
        for line, stalls in of_line.items()
        for stall, count in stalls.items()
    ]
    table = pd.DataFrame(rows).assign(
        kernel=kernel, variant=0, launch=-1, binary=binary, file=file, call_path=call_path, blamed_file=file
    )
    table = table.assign(blamed_pc=16 * table["blamed_line"], **columns)
    return samples_frame({name: table[name] for name in table})
