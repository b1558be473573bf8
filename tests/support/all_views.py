"""What each view says of one profile, brought into one form: figures by kernel, scope or line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from profscope.profiles import Profile
from tests.support.command_line import run


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
