"""The sections of `report` on one kernel: plain data, a number's unit in its key, None where unknown."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import Answer
from profscope.analysis.kernel_analysis import KernelAnalysis, SkippedKernel
from profscope.analysis.limits import bound_by
from profscope.analysis.line_rows import GAP, PLACE, call_path_key, placed
from profscope.analysis.sources import Sources
from profscope.analysis.span_rows import grid_ctas
from profscope.analysis.time_account import TimeAccount, apportioned
from profscope.schema import Tables

__all__ = [
    "TAIL_DTYPES", "breakdown", "clipped", "configuration", "critical_path", "ctas", "kernel_id", "limits",
    "lines", "number", "overlap", "recorded_rows", "records", "resources", "source", "tail", "tail_of",
    "times", "work",
]  # fmt: skip

_CHARACTERS: Final = 160  # of a text
_MOST_ARGUMENTS: Final = 24
_STALLS: Final = 3
_CLOCKS: Final = "records: from the first to the last clock of each launch"
TAIL_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "tail_pct": "float64",
    "ctas": "int64",
    "waves": "float64",
    "sms_used": "int64",
}
_RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions")


def clipped(text: object, characters: int = _CHARACTERS) -> str:
    """A text, cut where it is long."""
    whole = str(text)
    return whole if len(whole) <= characters else whole[: characters - 3] + "..."


def number(value: Any, digits: int = 6) -> Any:
    """As JSON has it: an int, a float of so many significant digits, None where it is missing."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    return float(f"{float(value):.{digits}g}") if np.isfinite(value) else None


def kernel_id(about: dict[str, Any], kernel: str, variant: int) -> str:
    """The same in every session for the same kernel and configuration; where that is not known, of the name
    and the variant's number."""
    return _identity(about["key"]) if about.get("key") else _identity(kernel, str(variant))


def _identity(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:12]


def configuration(about: dict[str, Any]) -> dict[str, Any] | None:
    """Constexprs and options of the launch; arguments' types are left out."""
    if "constexprs" not in about:
        return None
    constexprs = about.get("constexprs") or {}
    shown = list(constexprs.items())[:_MOST_ARGUMENTS]
    return {
        "constexprs": {clipped(name, 60): _plain(value) for name, value in shown},
        **{name: about.get(name) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)  # JSON has none
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return f"an integer of {value.bit_length()} bits"
    return value if value is None or isinstance(value, bool | int | float) else clipped(value, 60)


def source(tables: Tables, kernel: str, summary: pd.DataFrame) -> dict[str, Any] | None:
    """Where the kernel's text stands, and its hash; None if there are several and none is surely its own.
    summary: the rows of one variant."""
    texts = [each for each in tables.metadata.get("sources") or [] if each["name"] == kernel]
    files = set(summary["file"][summary["kind"] == "kernel"].astype("str"))
    own = texts[0] if len(texts) == 1 else next((each for each in texts if each["file"] in files), None)
    if own is None:
        return None
    digest = str(own.get("sha256") or "")
    line = int(own["line"]) + _decorator_lines(str(own["text"]))
    return {"file": clipped(own["file"], 200), "line": line, "sha256": digest}


def _decorator_lines(text: str) -> int:
    """How many lines stand before the `def` of a function's text; 0 where there is none."""
    before = re.match(r"(?:(?!\s*def\b).*\n)*?(?=\s*def\b)", text)
    return before.group().count("\n") if before else 0


def times(lasted: pd.Series[float], unit: str, cost: dict[str, Any], timed: dict[str, Any]) -> dict[str, Any]:
    """How long a variant's instrumented launches took, and bare ones. lasted: `took` of its launches, in
    unit; cost: its row of `overhead`."""
    usable = lasted.dropna().round().to_numpy(np.int64)
    bare = np.asarray(timed.get("bare_ns") or (), np.float64)
    slowdown = {
        "ratio": number(cost["slowdown"], 4),
        "low_ratio": number(cost["slowdown_low"], 4),
        "high_ratio": number(cost["slowdown_high"], 4),
        "basis": cost["basis"],
    }
    return {
        "instrumented": _spread(usable, "ns", _CLOCKS) if unit == "ns" else None,
        "instrumented_cycles": _spread(usable, "cycles", _CLOCKS) if unit == "cycles" else None,
        "bare": _spread(bare, "ns", "CUDA events around bare launches"),
        "instrumented_over_bare": slowdown,
    }


def _spread(times: Any, unit: str, provenance: str) -> dict[str, Any] | None:
    if not len(times):
        return None
    low, median, high = np.quantile(times, (0.25, 0.5, 0.75))
    return {
        "launches": len(times),
        f"median_{unit}": number(median),
        f"p25_{unit}": number(low),
        f"p75_{unit}": number(high),
        f"min_{unit}": number(times.min()),
        f"max_{unit}": number(times.max()),
        f"total_{unit}": number(times.sum()),
        "provenance": provenance,
    }


def resources(cost: dict[str, Any]) -> dict[str, Any]:
    """What the two binaries take, of a row of `overhead`."""
    own = {name: number(cost[name]) for name in _RESOURCES}
    bare = {name: number(cost[f"bare_{name}"]) for name in _RESOURCES}
    told = {"instrumented": own, "bare": None if set(bare.values()) == {None} else bare}
    return {**told, "provenance": "the loaded binaries; spills in the compiler's units"}


def ctas(launches: pd.DataFrame) -> dict[str, Any]:
    """Of how many CTAs the figures are."""
    return {
        "grid": int(grid_ctas(launches).sum()),
        "recorded": int(launches["ctas"].sum()),
        "unfinished": int(launches["unfinished"].sum()),
    }


def records(launches: pd.DataFrame, cost: dict[str, Any]) -> dict[str, Any]:
    return {
        "kept": int(launches["records"].sum()),
        "dropped": int(launches["dropped"].sum()),
        "per_warp": number(cost["records_per_warp"], 4),
        "memory_bytes": int(launches["profile_bytes"].sum()),
    }


def lines(
    summary: pd.DataFrame,
    sources: Sources,
    identity: str,
    most: int,
    samples: pd.DataFrame | None,
    unit: str,
) -> list[dict[str, Any]]:
    """The source lines with most self time. summary: the rows of one variant; samples: its rows of
    prof.lines(); unit: "cycles" where these are no
    time. Time that no record covers is at no line."""
    if not len(summary):
        if samples is None:
            return []
        names = _names(samples["file"])
        return [_sampled(names, identity, row) for row in samples.head(most).to_dict("records")]
    names = _names(summary["file"])
    rows = recorded_rows(summary)
    rows = rows.assign(count=rows["count"].where(rows["kind"] != "async", 0)).astype({"scope": "str"})
    total = rows.groupby(PLACE, sort=False, as_index=False)
    table = total[["self_ns", "self_cycles", "count"]].sum()
    unknown = ["share", "bytes_at_most", "flops"]  # of some rows; of a line where it is of all
    table[unknown] = total[unknown].sum(min_count=1)[unknown]
    heaviest = rows.sort_values(f"self_{unit}", ascending=False, kind="stable")
    table = table.merge(heaviest.drop_duplicates(PLACE)[[*PLACE, "call_path", "scope"]])
    table = table.sort_values(f"self_{unit}", ascending=False, kind="stable").head(most)
    if unit == "cycles":
        table["self_ns"] = None
    return [_line(sources, names, identity, row) | _samples(samples, row) for row in table.to_dict("records")]


def recorded_rows(summary: pd.DataFrame) -> pd.DataFrame:
    """Those of a summary that stand for a line, with the PLACE of it: not the time that no record covers."""
    return placed(summary[summary["kind"] != GAP])


def _names(files: pd.Series[str]) -> dict[str, str]:
    """By file, the name that is the same wherever the program stands: the last part of its path, and as many
    before as tell it from the others here."""
    names: dict[str, str] = {}
    left = {str(file): PurePath(str(file)).parts for file in files.unique()}
    for length in range(1, max(map(len, left.values()), default=0) + 1):
        tails = {file: "/".join(parts[-length:]) for file, parts in left.items()}
        often = Counter(tails.values())
        names |= {file: tail for file, tail in tails.items() if often[tail] == 1}
        left = {file: parts for file, parts in left.items() if often[tails[file]] > 1}
    return names | {file: file for file in left}


def _sampled(names: dict[str, str], identity: str, row: dict[Any, Any]) -> dict[str, Any]:
    """A line of a kernel without spans, of a row of prof.lines()."""
    place = {name: row[name] for name in ("file", "line", "call_path")}
    unknown = dict.fromkeys(("share", "self_ns", "self_cycles", "bytes_at_most", "flops"))
    known = _line(Sources({}), names, identity, place | unknown | {"scope": "", "count": 0})
    return known | {"text": clipped(row["source"], 120) or None} | _samples_of(row)


def _samples(samples: pd.DataFrame | None, place: dict[Any, Any]) -> dict[str, Any]:
    nothing = {"sample_share": None, "samples": None, "stalls": None}
    if samples is None or not samples["samples"].sum():
        return nothing
    rows = samples[[folded == tuple(place[name] for name in PLACE) for folded in _places(samples)]]
    if len(rows) != 1:
        return nothing
    return _samples_of(dict(rows.iloc[0]))


def _places(lines: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """PLACE of rows of prof.lines()."""
    for file, line, path in zip(lines["file"], lines["line"], lines["call_path"], strict=True):
        yield file, line, call_path_key(path)


def _samples_of(row: dict[Any, Any]) -> dict[str, Any]:
    total = max(1, sum(count for _, count in row["stall_counts"]))
    stalls = [
        {"stall": clipped(stall, 60), "share": number(count / total, 3)}
        for stall, count in row["stall_counts"][:_STALLS]
    ]
    share = number(row["share_samples"], 4)
    return {"sample_share": share, "samples": int(row["samples"]), "stalls": stalls}


def breakdown(account: TimeAccount | None) -> dict[str, Any] | None:
    """Where a variant's time goes, in shares that add up to 1."""
    if account is None:
        return None
    counts = apportioned(account.shares.values(), 10_000)
    shares = {clipped(name, 60): count / 10_000 for name, count in zip(account.shares, counts, strict=True)}
    return {"shares": shares, "basis": list(account.basis), "advice": account.advice or None}


def critical_path(path: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """The heaviest scopes on the way through a CTA. path: a variant's rows of `critical_path`."""
    return [
        {
            "scope": clipped(row["scope"], 80),
            "file": clipped(row["file"], 200),
            "line": int(row["line"]),
            "cycles": int(row["cycles"]),
            "share": number(row["share"], 4),
            "earlier_pct": number(row["earlier_pct"], 4),
        }
        for row in path.head(most).to_dict("records")
    ]


def limits(rows: pd.DataFrame) -> dict[str, Any] | None:
    """What binds a variant, by the hardware's counters. rows: its rows of prof.limits()."""
    if not len(rows):
        return None
    used = zip(rows["resource"].tolist(), rows["peak_pct"].tolist(), strict=True)
    peak_pct = {str(resource): number(value, 3) for resource, value in used}
    return {"bound": bound_by(rows), "peak_pct": peak_pct, "provenance": "counters of bare launches"}


def overlap(rows: pd.DataFrame) -> dict[str, Any] | None:
    """What runs at once in a CTA and on an SM. rows: a variant's rows of prof.timeline.overlap()."""
    kept = [name for name in rows.columns if name not in ("kernel", "variant", "of")]
    entries = {
        str(row["of"]): {name: number(row[name], 3) for name in kept} for row in rows.to_dict("records")
    }
    return {of: entries.get(of) for of in ("cta", "sm")} if entries else None


def _line(sources: Sources, names: dict[str, str], identity: str, row: dict[Any, Any]) -> dict[str, Any]:
    file, line, path = str(row["file"]), int(row["line"]), str(row["call_path"])
    return {
        "id": f"{identity}-{_identity(names[file], str(line), path)[:8]}",
        "file": clipped(file, 200),
        "line": line,
        "call_path": clipped(path, 200),
        "text": clipped(sources.text(file, line), 120) or None,
        "scope": clipped(row["scope"], 80),
        "self_share": number(row["share"], 4),
        "self_ns": number(row["self_ns"]),
        "self_cycles": number(row["self_cycles"]),
        "spans": int(row["count"]),
        "bytes_at_most": number(row["bytes_at_most"]),
        "flops": number(row["flops"]),
    }


def work(summary: pd.DataFrame, launches: pd.DataFrame) -> dict[str, Any]:
    """What the variant's ops computed and moved, in all launches, from their types: masked lanes count, too.
    Which memory bytes are of, the op says, so they are told by op."""
    moved, rate_moved = "bytes_at_most", "gb_per_s_at_most"
    ops = summary[summary[moved].notna() & (summary[moved] > 0)]
    by_op = ops.groupby(ops["scope"].astype("str"), sort=False)[[moved, rate_moved]].sum()
    by_op = by_op.sort_values(moved, ascending=False, kind="stable").head(6)
    flops = summary["flops"].sum(min_count=1)
    rate = summary["tflop_per_s"].sum(min_count=1)
    return {
        "flops": number(flops),
        "tflop_per_s": number(rate, 4),
        "bytes_by_op": {
            clipped(op, 60): {moved: int(row[moved]), rate_moved: number(row[rate_moved] or None, 4)}
            for op, row in by_op.iterrows()
        },
        "provenance": "types of ops, and how often records say they ran; masks count in full",
    }


def tail_of(judged: KernelAnalysis | SkippedKernel) -> Answer:
    """How a configuration's launches end, as the finding `tail` has it."""
    if isinstance(judged, SkippedKernel):
        return judged.answer
    shape = judged.shape
    if shape is None:
        return Answer([], [f"{judged.kernel}: only some of the CTAs were recorded"])
    row = {"kernel": judged.kernel, "variant": judged.variant, "sms_used": shape.sms}
    return Answer([row | {"tail_pct": shape.tail_pct, "ctas": shape.ctas, "waves": shape.waves}], [])


def tail(rows: pd.DataFrame) -> dict[str, Any] | None:
    """How launches end. rows: a variant's of `tail_of`."""
    if not len(rows):
        return None
    row = rows.iloc[0]
    return {
        "tail_pct": number(row["tail_pct"], 4),
        "ctas": int(row["ctas"]),
        "waves": number(row["waves"], 4),
        "sms_used": int(row["sms_used"]),
        "provenance": "records: slots for CTAs that are empty once the last CTA has begun, over all slots",
    }
