"""The instructions of a kernel at which the hardware's sampler found warps, by source line."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, cast

import pandas as pd

from instrument_passes.errors import IRError
from profscope.analysis.sampled_code import sampled_code
from profscope.schema import Tables

__all__ = ["Sampled", "sampled_by_line"]

Sampled = dict[tuple[str, int], list[dict[str, Any]]]
"""By file and line: pc, text, class, samples, stalls [[reason, samples]] and blamed (file, class, line), the
most sampled first; text is "" where the profile has none."""


def sampled_by_line(tables: Tables, kernel: str, variant: int) -> Sampled:
    """Those of the bare binary; where that was not sampled, of one that records."""
    samples = tables.samples
    own = samples[(samples["kernel"] == kernel) & (samples["variant"] == variant)]
    bare = own[own["binary"] == "bare"]
    own = bare if len(bare) else own
    texts = _texts(tables.metadata, kernel, variant, own)
    lines: Sampled = defaultdict(list)
    for key, rows in own.groupby(["file", "line", "pc"], sort=False):
        file, line, pc = cast(tuple[str, int, int], key)
        stalls = rows.groupby("stall")["samples"].sum().sort_values(ascending=False, kind="stable")
        others = rows[rows["blamed_pc"] != rows["pc"]]
        cause = others.iloc[int(others["samples"].to_numpy().argmax())] if len(others) else None
        lines[str(file), int(line)].append(
            {
                "pc": int(pc),
                "text": texts.get(int(pc), ""),
                "class": str(rows["class"].iloc[0]),
                "samples": int(rows["samples"].sum()),
                "stalls": [[str(stall), int(count)] for stall, count in stalls.items()],
                "blamed": None
                if cause is None
                else (str(cause["blamed_file"]), str(cause["blamed_class"]), int(cause["blamed_line"])),
            }
        )
    return {place: sorted(rows, key=lambda row: -row["samples"]) for place, rows in lines.items()}


def _texts(metadata: dict[str, Any], kernel: str, variant: int, own: pd.DataFrame) -> dict[int, str]:
    """By pc; none where the profile keeps none, and where that is damaged, what is wrong with it."""
    if not len(own):
        return {}
    try:
        kept = sampled_code(metadata, kernel, variant, str(own["binary"].iloc[0]))
    except (IRError, ValueError) as error:
        return dict.fromkeys(own["pc"].tolist(), f"cannot be read: {error}")
    return {each.pc: " ".join(each.text.split()) for each in kept[1]} if kept else {}
