"""The instructions of a kernel at which the hardware's sampler found warps, by source line."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import pandas as pd

__all__ = ["Sampled", "sampled_by_line"]

Sampled = dict[tuple[str, int], list[dict[str, Any]]]
"""By file and line: pc, class, samples, stalls [[reason, samples]] and blamed (file, class, line), the most
sampled first."""


def sampled_by_line(samples: pd.DataFrame, kernel: str, variant: int) -> Sampled:
    """Those of the bare binary; where that was not sampled, of one that records."""
    own = samples[(samples["kernel"] == kernel) & (samples["variant"] == variant)]
    bare = own[own["binary"] == "bare"]
    own = bare if len(bare) else own
    lines: Sampled = defaultdict(list)
    for key, rows in own.groupby(["file", "line", "pc"], sort=False):
        file, line, pc = cast(tuple[str, int, int], key)
        stalls = rows.groupby("stall")["samples"].sum().sort_values(ascending=False, kind="stable")
        others = rows[rows["blamed_pc"] != rows["pc"]]
        cause = others.iloc[int(others["samples"].to_numpy().argmax())] if len(others) else None
        lines[str(file), int(line)].append(
            {
                "pc": int(pc),
                "class": str(rows["class"].iloc[0]),
                "samples": int(rows["samples"].sum()),
                "stalls": [[str(stall), int(count)] for stall, count in stalls.items()],
                "blamed": None
                if cause is None
                else (str(cause["blamed_file"]), str(cause["blamed_class"]), int(cause["blamed_line"])),
            }
        )
    return {place: sorted(rows, key=lambda row: -row["samples"]) for place, rows in lines.items()}
