"""Whether spans and samples agree on where a kernel's time goes."""

from typing import Any

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.estimates import FEWEST_SAMPLES, expected_distance, variation_distance
from profscope.analysis.line_rows import (
    GAP,
    PLACE,
    TimeSources,
    call_path_key,
    configurations,
    folded_path,
    witnesses,
)
from profscope.analysis.op_labels import instructions_of, is_copy_wait
from profscope.schema import Tables

__all__ = ["ELSEWHERE", "compared", "distances"]

ELSEWHERE = "elsewhere"
"""Stands for all lines that no op's span tells apart."""

_NOWHERE = "", 0, ELSEWHERE
_Timed = list[tuple[Any, ...]]
"""Stretches of a binary that ops' spans have inside, by pc: those of two clock reads, then PLACE."""

_SAMPLED_SPANS = "sampled spans"
_COPY = "async copy"
"""The class of instructions that a wait for copies is charged to (`binaries.blame`)."""
_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "first": "str",
    "second": "str",
    "distance": "float64",
    "noise": "float64",
    "noise_seen": "Float64",
    "lines": "int64",
    "first_samples": "Int64",
    "second_samples": "Int64",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "difference": "float64",
    "elsewhere": "Float64",
}


def distances(tables: Tables) -> pd.DataFrame:
    """How far two witnesses of a kernel are apart: one row per kernel, variant and pair of them.

    Columns: kernel, variant; first and second, each one of "bare samples", "spans samples"
    (of the binary that Triton alone would run, or that records) and "spans"; distance,
    the total variation of their shares by line, 0 to 1: the part of the time that one sees at other lines
    than the other; noise, the distance that is to be expected of the counts alone if they agree (see
    `estimates.expected_distance`); noise_seen, the same times as much as launches of one binary were farther
    apart than counts explain, missing where neither binary was sampled twice; lines, how many were told
    apart; first_samples and second_samples, missing where the witness is no sampler; the line where they
    differ most: file, line, call_path, and difference, the second's share less the first's; and elsewhere,
    that difference for what is at no line that is told apart.

    - "bare samples" to "spans samples": what recording has changed.
    - "spans samples" to "spans": whether the clocks that were recorded tell the same as the hardware, of the
      same binary and launch.
    - "bare samples" to "spans": both together.

    Time between the spans of ops is the self time of the loop or kernel around them, so it is known of no
    line. Spans are therefore compared with samples over the lines where an op has a span, and of
    these over the instructions that the span has inside: in a binary that records those between its two clock
    reads, and the second of these, wherever they come from; else those that such an op is made of, and those
    that are seen waiting for copies, if an op's span is this wait. A load's span has the load inside, and not
    the conversion of what it brings. Everything else is grouped as "elsewhere".

    Below 200 samples a witness is left out. attrs["not_measured"] says what is missing, a list of texts.
    """
    return compared(witnesses(tables), tables.metadata)


def compared(known: TimeSources, metadata: dict[str, Any]) -> pd.DataFrame:
    """What `distances` returns, of witnesses that are known."""
    if not any(len(counts) for counts in known.counts.values()):  # and every pair has samples in it
        return answer_frame([], _DTYPES, {})
    tables: dict[tuple[str, int], dict[str, pd.DataFrame]] = {}
    for binary, counts in known.counts.items():
        for key, rows in configurations(counts):
            tables.setdefault(key, {})[f"{binary} samples"] = rows.rename(columns={"samples": "weight"})
    for source, times in {"spans": known.times, _SAMPLED_SPANS: known.sampled}.items():
        for key, rows in configurations(times[times["kind"] != GAP]):
            if rows["self_time"].sum() > 0 and (rows["kind"] == "op").any():
                tables.setdefault(key, {})[source] = rows.rename(columns={"self_time": "weight"})
    spread, timed = _spread(metadata), _timed(metadata)
    rows_of: list[dict[str, Any]] = []
    missing: dict[str, None] = {}
    for (kernel, variant), of_key in tables.items():
        name = f"{kernel} #{variant}" if variant else str(kernel)
        for each, table in list(of_key.items()):
            count = int(table["weight"].sum())
            if each.endswith("samples") and count < FEWEST_SAMPLES:
                del of_key[each]
                missing[
                    f"{name}: {count} {each}, fewer than {FEWEST_SAMPLES}: nothing is compared with them"
                ] = None
        for first, second in _pairs(of_key):
            own = first == "spans samples" and second == "spans" and _SAMPLED_SPANS in of_key
            inside = timed.get((kernel, variant, first), [])
            row = _compared(of_key, first, _SAMPLED_SPANS if own else second, inside)
            factors = [spread.get((kernel, variant, each)) for each in (first, second)]
            seen = [factor for factor in factors if factor is not None]
            row["noise_seen"] = row["noise"] * max(seen) if seen else None
            rows_of.append({"kernel": kernel, "variant": variant, "first": first, "second": second, **row})
        if "bare samples" not in of_key:
            missing[f"{name}: the bare binary was not sampled enough to say what recording changed"] = None
    return answer_frame(rows_of, _DTYPES, missing)


def _spread(metadata: dict[str, Any]) -> dict[tuple[str, int, str], float]:
    """By kernel, variant and witness, how much farther its launches are apart than counts explain."""
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    return {
        (entry["kernel"], entry["variant"], f"{entry['binary']} samples"): max(seen / expected, 1.0)
        for entry in binaries
        for seen, expected in [entry.get("apart") or (0, 0)]
        if expected > 0
    }


def _timed(metadata: dict[str, Any]) -> dict[tuple[str, int, str], _Timed]:
    """By kernel, variant and witness."""
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    return {
        (entry["kernel"], entry["variant"], f"{entry['binary']} samples"): [
            (begin, end, file, line, call_path_key(folded_path(file, line, path)))
            for begin, end, file, line, path in entry.get("timed") or []
        ]
        for entry in binaries
    }


def _pairs(known: dict[str, pd.DataFrame]) -> list[tuple[str, str]]:
    pairs = [("bare samples", "spans samples"), ("spans samples", "spans"), ("bare samples", "spans")]
    return [pair for pair in pairs if all(each in known for each in pair)]


def _by_line(rows: pd.DataFrame) -> pd.DataFrame:
    """PLACE, call_path and weight, one row a line."""
    return rows.groupby(PLACE, as_index=False, sort=False).agg(
        call_path=("call_path", "first"), weight=("weight", "sum")
    )


def _elsewhere(rows: pd.DataFrame) -> pd.DataFrame:
    file, line, way = _NOWHERE
    return rows.assign(file=file, line=line, way=way, call_path=ELSEWHERE)


def _at_ops(samples: pd.DataFrame, ops: pd.DataFrame, timed: _Timed) -> pd.DataFrame:
    """By line the samples at instructions that the ops' spans have inside; all others are elsewhere.

    timed: of the binary. An instruction that is in none of these spans may be part of one whose code the
    compiler has put elsewhere, as a loop around the test of a phase; then its class tells.
    """
    inside: dict[tuple[Any, ...], frozenset[str] | None] = {}
    waits: dict[tuple[str, int], tuple[Any, ...]] = {}  # by the line of the copies
    for *of_op, scope in ops[[*PLACE, "scope"]].itertuples(index=False):
        key, classes = tuple(of_op), instructions_of(scope)
        known = inside.get(key, frozenset())
        inside[key] = None if classes is None or known is None else known | classes
        if is_copy_wait(scope):
            waits[key[0], key[1]] = key
    begins = np.array([begin for begin, *_ in timed], np.int64)
    at = np.searchsorted(begins, samples["pc"].to_numpy(np.int64)) - 1
    places: list[tuple[Any, ...]] = []
    blamed = ["blamed_class", "blamed_file", "blamed_line"]
    rows = samples[["pc", "class", *blamed, *PLACE]].itertuples(index=False, name=None)
    for span, (pc, cls, cause, file, line, *own) in zip(at.tolist(), rows, strict=True):
        if span >= 0 and pc <= timed[span][1]:
            place = timed[span][2:]
            is_told = place in inside
        else:
            place = tuple(own)
            of_place = inside.get(place, frozenset())
            is_told = not timed if of_place is None else cls in of_place
            if not is_told and cause == _COPY and (file, line) in waits:
                place, is_told = waits[file, line], True
        places.append(place if is_told else _NOWHERE)
    table = pd.DataFrame(places, samples.index, PLACE).astype({"file": "str", "way": "str"})
    return _by_line(samples.assign(**{name: table[name] for name in PLACE}))


def _compared(known: dict[str, pd.DataFrame], first: str, second: str, timed: _Timed) -> dict[str, Any]:
    one, other = known[first], known[second]
    if second.endswith("samples"):
        one, other = _by_line(one), _by_line(other)
    else:
        ops = other["kind"] == "op"
        one = _at_ops(one, other[ops], timed)
        other = _by_line(pd.concat([other[ops], _elsewhere(other[~ops])]))
    both = one.merge(other, how="outer", on=PLACE, suffixes=("", "_other"))
    weights = [both[name].fillna(0).to_numpy(np.float64) for name in ("weight", "weight_other")]
    shares = [each / each.sum() for each in weights]
    counts = [int(each.sum()) for each in weights]
    sampled = second.endswith("samples")
    pooled = (weights[0] + weights[1]) / sum(counts) if sampled else shares[1]
    difference = shares[1] - shares[0]
    elsewhere = (both["way"] == ELSEWHERE).to_numpy()
    at = int(np.where(elsewhere, -1.0, np.abs(difference)).argmax())
    most = both.iloc[at]
    path = most["call_path_other"] if isinstance(most["call_path_other"], str) else most["call_path"]
    return {
        "distance": variation_distance(*weights),
        "noise": expected_distance(pooled, counts[0], counts[1] if sampled else None),
        "lines": len(both),
        "first_samples": counts[0],
        "second_samples": counts[1] if sampled else None,
        "file": most["file"],
        "line": most["line"],
        "call_path": path,
        "difference": float(difference[at]),
        "elsewhere": float(difference[elsewhere].sum()) if not sampled else None,
    }
