"""All that rules find in the repository's recordings and TTGIR texts, as tests/data keeps it.

python -m tests.support.corpus_findings      # writes it; look at the difference before it is kept
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.diagnose import RECORDINGS, cases
from profscope.analysis.rules.arithmetic import avoidable_casts
from profscope.analysis.rules.exchange import conversion_lines, early_reductions
from profscope.analysis.rules.kernel import divisions
from profscope.analysis.rules.products import summed_products
from profscope.analysis.rules.unused import discarded_results, masked_loop
from profscope.instrument_passes.analyses.graph import Graph
from profscope.profiles import Profile, load
from tests.support.ttgir_cases import TEXTS, graph

__all__ = ["kept_findings", "recordings", "shown_findings", "shown_graph"]

_DATA: Final = Path(__file__).parents[1] / "data"
_FILE: Final = _DATA / "diagnosis" / "findings.json"


def kept_findings() -> dict[str, list[str]]:
    """By recording and TTGIR text, a line for each finding or fact."""
    found: dict[str, list[str]] = json.loads(_FILE.read_text())
    return found


def recordings() -> dict[str, Path]:
    found = {case["name"]: RECORDINGS / case["file"] for case in cases()}
    return found | {"starving partition": _DATA / "findings" / "starving-partition.json.gz"}


def shown_findings(profile: Profile) -> list[str]:
    columns = ["finding", "line", "gain_low_pct", "gain_pct", "gain_high_pct", "confidence", "evidence"]
    rows = profile.findings().reindex(columns=columns).itertuples(index=False, name=None)
    return [
        f"{name} at {line}, {low:.1f} {gain:.1f} {high:.1f} %, {confidence}: {evidence}"
        for name, line, low, gain, high, confidence, evidence in rows
    ]


def shown_graph(seen: Graph) -> list[str]:
    facts: dict[str, object] = {
        "masked loop": masked_loop(seen),
        "discarded": [choice.line for choice, _ in discarded_results(seen)],
        "early reductions": early_reductions(seen),
        "conversions": conversion_lines(seen),
        "divisions": divisions(seen),
        "summed products": sorted(summed_products(seen)),
        "avoidable casts": sorted(avoidable_casts(seen)),
    }
    return [f"{name}: {fact}" for name, fact in facts.items() if fact]


def _every() -> Iterator[tuple[str, list[str]]]:
    for name, path in recordings().items():
        yield name, shown_findings(load(path))
    for text in sorted(TEXTS.glob("*.ttgir")):
        yield text.name, shown_graph(graph(text.stem))


if __name__ == "__main__":
    _FILE.write_text(json.dumps(dict(_every()), indent=1) + "\n")
