"""All that rules find in the repository's recordings and TTGIR texts, as tests/data keeps it:
findings.json, and places.json with what each rule says before findings are ranked.

python -m tests.support.corpus_findings      # writes it; look at the difference before it is kept
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.diagnose import RECORDINGS, cases
from profscope.analysis.rules.arithmetic import avoidable_casts
from profscope.analysis.rules.diagnose import RULES
from profscope.analysis.rules.exchange import conversion_lines, early_reductions
from profscope.analysis.rules.kernel import Kernel, divisions
from profscope.analysis.rules.products import summed_products
from profscope.analysis.rules.unused import discarded_results, masked_loop
from profscope.instrument_passes.analyses.graph import Graph
from profscope.profiles import Profile, load
from profscope.schema import Tables, measured_frame, samples_frame
from tests.support.kernel_of import kernel_in
from tests.support.ttgir_cases import TEXTS, graph

__all__ = ["kept_findings", "kept_places", "recordings", "shown_findings", "shown_graph", "shown_places"]

_DATA: Final = Path(__file__).parents[1] / "data"
_FILE: Final = _DATA / "diagnosis" / "findings.json"
_ALL_OF_IT: Final = 0.9995
_PLACES: Final = _DATA / "diagnosis" / "places.json"


def kept_findings() -> dict[str, list[str]]:
    """By recording and TTGIR text, a line for each finding or fact."""
    found: dict[str, list[str]] = json.loads(_FILE.read_text())
    return found


def kept_places() -> dict[str, list[str]]:
    """By recording, a line for each place at which a rule holds."""
    found: dict[str, list[str]] = json.loads(_PLACES.read_text())
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


def shown_places(tables: Tables) -> list[str]:
    """With the part of the time that goes, and the parts of resources' use that stay; then those of a
    recording in which nothing was measured."""
    unmeasured = replace(
        tables, counters=measured_frame("counters"), counts=measured_frame("counts"), samples=samples_frame()
    )
    by_binary = (f"unmeasured: {each}" for each in _places(kernel_in(unmeasured)))
    return [*_places(kernel_in(tables)), *by_binary]


def _places(kernel: Kernel) -> Iterator[str]:
    for rule in RULES:
        for where in rule.where(kernel) if not rule.is_silent(kernel) else ():
            said = f"{where.name or rule.name} at {where.place[1]}"
            if where.edit is not None:
                kept = kernel.resources.kept(where.edit)
                less = [f"{name} {part:.3f}" for name, part in sorted(kept.items()) if part < _ALL_OF_IT]
                said += ", ".join([f": {where.edit.removed:.3f}", *less])
            yield said


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
    places = {name: shown_places(load(path).tables) for name, path in recordings().items()}
    _PLACES.write_text(json.dumps(places, indent=1) + "\n")
