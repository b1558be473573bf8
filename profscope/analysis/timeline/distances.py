"""Agreement of spans and samples on the lines that take a kernel's time."""

from typing import Any

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.estimates import FEWEST_SAMPLES, expected_distance, variation_distance
from profscope.analysis.line_rows import GAP, PLACE, TimeSources, configurations, witnesses
from profscope.analysis.op_labels import instructions_of, is_copy_wait
from profscope.schema import Tables

__all__ = ["ELSEWHERE", "compared", "distances"]

ELSEWHERE = "elsewhere"
"""Stands for all lines that no op's span tells apart."""

_NOWHERE = "", 0, ELSEWHERE
_COPY = "async copy"
"""The class of instructions that a wait for copies is charged to (`binaries.blame`)."""
_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "distance": "float64",
    "noise": "float64",
    "lines": "int64",
    "samples": "int64",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "difference": "float64",
    "elsewhere": "float64",
}


def distances(tables: Tables) -> pd.DataFrame:
    """How far spans and PC samples are apart: one row per kernel and variant that has both.

    Columns: kernel, variant; distance, the total variation of their shares by line, 0 to 1: the part of the
    time that one sees at other lines than the other; noise, the distance that is to be expected of the counts
    alone if they agree (see `estimates.expected_distance`); lines, how many were told apart; samples, how
    many there were; the line where they differ most: file, line, call_path, and difference, the spans' share
    less the samples'; and elsewhere, that difference for all other places.

    Samples are of bare launches, spans of recorded ones: the distance includes changes by recording. Time
    between the spans of ops is the self time of the loop or kernel around them, so it is known of no line.
    Spans are therefore compared with samples over the lines where an op has a span, and of these over the
    instructions that such an op is made of, and those that are seen waiting for copies, if an op's span is
    this wait. A load's span covers the load, and not the conversion of its result. Everything else is grouped
    as "elsewhere".

    Below 200 samples there is no row. attrs["not_measured"]: a list of texts, missing evidence.
    """
    return compared(witnesses(tables))


def compared(known: TimeSources) -> pd.DataFrame:
    """The result of `distances`, for given witnesses."""
    if not len(known.samples):
        return answer_frame([], _DTYPES)
    sampled = dict(configurations(known.samples))
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    for (kernel, variant), spans in configurations(known.times[known.times["kind"] != GAP]):
        samples = sampled.get((kernel, variant), known.samples.iloc[:0])
        count = int(samples["samples"].sum())
        if count < FEWEST_SAMPLES:
            few = f"{count} samples, fewer than {FEWEST_SAMPLES}, are compared with no spans"
            name = f"{kernel} #{variant}" if variant else str(kernel)
            missing.append(f"{name}: {few if count else 'no launch was sampled'}")
        elif spans["self_time"].sum() > 0 and (spans["kind"] == "op").any():
            rows.append({"kernel": kernel, "variant": variant, **_compared(samples, spans)})
    return answer_frame(rows, _DTYPES, missing)


def _by_line(rows: pd.DataFrame, weight: str) -> pd.DataFrame:
    """PLACE, call_path and weight, one row a line."""
    return rows.groupby(PLACE, as_index=False, sort=False).agg(
        call_path=("call_path", "first"), weight=(weight, "sum")
    )


def _at_ops(samples: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """By line the samples at instructions that the ops' spans have inside; all others are elsewhere."""
    inside: dict[tuple[Any, ...], frozenset[str] | None] = {}
    waits: dict[tuple[str, int], tuple[Any, ...]] = {}  # by the line of the copies
    for *of_op, scope in ops[[*PLACE, "scope"]].itertuples(index=False):
        key, classes = tuple(of_op), instructions_of(scope)
        known = inside.get(key, frozenset())
        inside[key] = None if classes is None or known is None else known | classes
        if is_copy_wait(scope):
            waits[key[0], key[1]] = key
    places: list[tuple[Any, ...]] = []
    blamed = ["blamed_class", "blamed_file", "blamed_line"]
    rows = samples[["class", *blamed, *PLACE]].itertuples(index=False, name=None)
    for cls, cause, file, line, *own in rows:
        place = tuple(own)
        of_place = inside.get(place, frozenset())
        if of_place is not None and cls not in of_place:
            place = waits.get((file, line), _NOWHERE) if cause == _COPY else _NOWHERE
        places.append(place)
    table = pd.DataFrame(places, samples.index, PLACE).astype({"file": "str", "way": "str"})
    return _by_line(samples.assign(**{name: table[name] for name in PLACE}), "samples")


def _compared(samples: pd.DataFrame, spans: pd.DataFrame) -> dict[str, Any]:
    file, line, way = _NOWHERE
    ops = spans["kind"] == "op"
    elsewhere = spans[~ops].assign(file=file, line=line, way=way, call_path=ELSEWHERE)
    one = _at_ops(samples, spans[ops])
    other = _by_line(pd.concat([spans[ops], elsewhere]), "self_time")
    both = one.merge(other, how="outer", on=PLACE, suffixes=("", "_other"))
    weights = [both[name].fillna(0).to_numpy(np.float64) for name in ("weight", "weight_other")]
    shares = [each / each.sum() for each in weights]
    count = int(weights[0].sum())
    difference = shares[1] - shares[0]
    nowhere = (both["way"] == ELSEWHERE).to_numpy()
    at = int(np.where(nowhere, -1.0, np.abs(difference)).argmax())
    most = both.iloc[at]
    path = most["call_path_other"] if isinstance(most["call_path_other"], str) else most["call_path"]
    return {
        "distance": variation_distance(*weights),
        "noise": expected_distance(shares[1], count),
        "lines": len(both),
        "samples": count,
        "file": most["file"],
        "line": most["line"],
        "call_path": path,
        "difference": float(difference[at]),
        "elsewhere": float(difference[nowhere].sum()),
    }
