"""All findings of the repository's recordings, as tests/data keeps them: a rule that changes changes them.

python -m tests.support.corpus_findings      # writes them; look at the difference before it is kept
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from bench.diagnose import RECORDINGS, cases
from profscope.profiles import Profile, load

__all__ = ["kept_findings", "shown_findings"]

_FILE: Final = Path(__file__).parents[1] / "data" / "diagnosis" / "findings.json"


def kept_findings() -> dict[str, list[str]]:
    """By case, a line for each finding."""
    found: dict[str, list[str]] = json.loads(_FILE.read_text())
    return found


def shown_findings(profile: Profile) -> list[str]:
    table = profile.findings()
    columns = ["finding", "line", "gain_low_pct", "gain_pct", "gain_high_pct", "confidence", "evidence"]
    return [
        f"{name} at {line}, {low:.1f} {gain:.1f} {high:.1f} %, {confidence}: {evidence}"
        for name, line, low, gain, high, confidence, evidence in table.reindex(columns=columns).itertuples(
            index=False, name=None
        )
    ]


if __name__ == "__main__":
    every = {case["name"]: shown_findings(load(RECORDINGS / case["file"])) for case in cases()}
    _FILE.write_text(json.dumps(every, indent=1) + "\n")
