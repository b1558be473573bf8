"""What each view says of one profile, brought into one form: figures by kernel, scope or line."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

from profscope.analysis.spans.corrections import are_corrected
from profscope.analysis.spans.rows import grid_ctas, not_samples
from profscope.profiles import Profile
from tests.support.command_line import run

Key = tuple[Any, ...]


def plain_sums(profile: Profile, unit: str) -> pd.DataFrame:
    """By kernel, variant and site: count, total and self time, of plain Python over `prof.df`.
    What the summary says of them, worked out another way."""
    launches = profile.launches.set_index("launch")
    variant_of = dict(zip(launches.index, launches["variant"], strict=True))
    whole = grid_ctas(profile.launches) / (profile.launches["ctas"] + profile.launches["unfinished"]).clip(1)
    scales = dict(zip(launches.index, whole.clip(1), strict=True))
    column = f"corrected_{unit}" if are_corrected(profile.tables) else f"duration_{unit}"
    df, alone = profile.df, not_samples(profile.metadata)
    figures: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    names = ("kernel", "scope", "kind", "file", "line", "call_path", "launch", "parent")
    rows = list(zip(*(df[name].tolist() for name in names), df[column].tolist(), strict=True))
    key_of: list[tuple[Key, float]] = []
    for kernel, scope, kind, file, line, path, launch, parent, took in rows:
        key = (kernel, int(variant_of[launch]), scope, kind, file, line, path)
        scale = 1.0 if kernel in alone else scales[launch]
        key_of.append((key, scale))
        for at, value in enumerate((1, took, took * (kind != "async"))):
            figures[key][at] += value * scale
        if parent >= 0 and kind != "async":
            figures[key_of[parent][0]][2] -= took * scale
    return pd.DataFrame.from_dict(figures, orient="index", columns=["count", "total", "self"])


class Views:
    """A profile's views, by the file that it is saved to."""

    def __init__(self, profile: Profile, folder: Path, *choice: str) -> None:
        """choice: options of `profscope view` that choose a part."""
        self.path, self.choice = folder / "trace.pftrace", choice
        profile.save(self.path)

    def ask(self, *options: str, form: str = "json") -> Any:
        """What the command line prints: JSON parsed, CSV as rows of texts."""
        done = run(str(self.path), *self.choice, *options, "--format", form)
        assert done.returncode == 0, done.stderr
        if form == "csv":
            return list(csv.DictReader(io.StringIO(done.stdout)))
        return json.loads(done.stdout) if form == "json" else done.stdout


def margins(page: str) -> list[tuple[int, float]]:
    """The lines of a report in HTML and the shares in their margins, per cent."""
    found = re.findall(
        r'data-line="(\d+)"><summary[^>]*><span class="share">(?:<i[^>]*></i>([\d.]+))?<', page
    )
    return [(int(line), float(share or 0)) for line, share in found]


def by_line(rows: pd.DataFrame, column: str) -> dict[tuple[str, int, int], float]:
    """By kernel, variant and line, a column added up over call paths; without what is missing."""
    if column not in rows:
        return {}
    known = rows[rows[column].notna()]
    sums = known.groupby(["kernel", "variant", "line"], observed=True)[column].sum()
    return {(str(kernel), int(variant), int(line)): float(x) for (kernel, variant, line), x in sums.items()}  # type: ignore[misc]


def warps_of(profile: Profile) -> int:
    """How many warps have spans."""
    df = profile.df
    return len(df.loc[df["kind"] != "async", ["launch", "cta", "warp"]].drop_duplicates())


def of_group(table: pd.DataFrame, key: tuple[str, int]) -> pd.DataFrame:
    """The rows of a kernel and variant."""
    kernel, variant = key
    return table[(table["kernel"] == kernel) & (table["variant"] == variant)]
