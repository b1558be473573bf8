"""The time of launches, in parts that add up to all of it.

`breakdown` has them by line; an `Account` has at most six shares, for a view with room for one bar.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.answers import Answer, joined_frame, refused_evidence
from profscope.analysis.estimates import FEWEST_SAMPLES
from profscope.analysis.kernels.devices import max_resident_ctas, sm_count_of
from profscope.analysis.line_rows import TimeSources, configurations, witnesses
from profscope.analysis.op_labels import op_class
from profscope.analysis.spans.ctas import beside_bare_ones, every_cta, knows_sms, shape_of, sms_a_launch
from profscope.analysis.spans.rows import begins_of_runs, ended, grid_ctas
from profscope.schema import Tables

__all__ = [
    "OTHER",
    "PARTS",
    "UNKNOWN",
    "Account",
    "apportioned",
    "bar_of",
    "bar_symbols",
    "basis_text",
    "breakdown",
    "sm_time",
    "time_accounts",
]

BREAKDOWN_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "part": "str",
    "reason": "str",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "share": "float64",
    "basis": "str",
}

PARTS: Final = ("idle-sms", "tail", "imbalance", "between-ctas", "issuing", "waiting", "op", "unknown")

_REASONS: Final[Mapping[str, str]] = {
    "long_scoreboard": "memory",
    "lg_throttle": "memory",
    "drain": "memory",
    "membar": "memory",
    "tex_throttle": "memory",
    "gmma": "tensor cores",
    "warpgroup_arrive": "tensor cores",
    "math_pipe_throttle": "pipe busy",
    "barrier": "barrier",
    "sleeping": "barrier",
    "wait": "dependency",
    "branch_resolving": "branch",
    "no_instructions": "instruction fetch",
    "imc_miss": "constant cache",
    "dispatch_stall": "dispatch",
    "not_selected": "issue slot",
}
"""By stall what a warp waits for (NVIDIA, "Nsight Compute Profiling Guide", Warp Stall Reasons)."""

_OF_MIO: Final = ("short_scoreboard", "mio_throttle")
_MIO_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("shared load", "shared store", "warp exchange"), "shared memory"),
    **dict.fromkeys(("special function", "conversion"), "special functions"),
    **dict.fromkeys(
        (
            "global load", "global store", "local load", "local store", "atomic", "async copy", "tma",
        ),
        "memory",
    ),
}  # fmt: skip
"""By class of the instruction to blame: shared memory, special functions, and what goes to memory share the
queue of memory input and output (MIO) that these stalls are about."""
_MIO: Final = "MIO queue"
_ISSUED: Final = "selected"
_MMA: Final = "mma"
_LATENCY: Final = " latency"  # ends the names of spans that end with their data
_PLACE: Final = ("file", "line", "call_path")
_WORK: Final = ("part", "reason", *_PLACE)
_Work = tuple[str, str, str, int, str]


class SmTime(NamedTuple):
    """The time of SMs in some launches, in ns of one SM, added up. idle: SMs that ran no CTA of their launch;
    after: the others, behind their last CTA; between: before their first one, and where none ran; busy: any
    CTA ran."""

    idle: float
    after: float
    between: float
    busy: float

    @property
    def whole(self) -> float:
        return self.idle + self.after + self.between + self.busy


def breakdown(tables: Tables) -> pd.DataFrame:
    """The time of each kernel's launches, in parts: SMs times duration, in parts that add up to 1.

    | column | dtype | |
    |---|---|---|
    | `kernel`, `variant` | str, int32 | as in the summary |
    | `part` | str | see below |
    | `reason` | str | the awaited thing, or the class of the instruction or op; "" for other parts |
    | `file`, `line`, `call_path` | str, int32, str | as in `lines()`; "" and 0 for parts that have no line |
    | `share` | float64 | of the configuration's launches; adds up to 1 |
    | `basis` | str | "ctas", "samples", "model" or "spans" |

    | part | |
    |---|---|
    | `idle-sms` | SMs that ran no CTA |
    | `tail` | SMs behind their last CTA |
    | `imbalance` | the part of that time due to uneven CTAs (`imbalance_pct` of the finding) |
    | `between-ctas` | SMs before their first CTA, and between one CTA and the next |
    | `issuing` | samples: a warp issues its instruction |
    | `waiting` | a warp waits, for `reason`: memory, shared memory, special functions, tensor cores, ... |
    | `op` | spans: a warp is in an op of the class `reason`; whether it issues or waits is not known |
    | `unknown` | spans: no op's span covers it |

    The first four are of SMs, from the begin and end of each CTA. If only some SMs ran recorded CTAs, these
    SMs count for `idle-sms` alone, since records take time. The time in which an SM ran a CTA is divided by
    PC samples of the bare kernel (`session(evidence=True)`), if there are 200, else by the self times of
    spans. On the emulator it is divided by the cycles of its cost model ("model"). Unknown time is charged to
    no line.

    attrs["not_measured"]: a list of texts, the missing evidence with reasons.
    """
    return joined_frame(breakdown_answers(tables, witnesses(tables)), BREAKDOWN_DTYPES)


def sm_time(ctas: pd.DataFrame, sms: int) -> SmTime:
    """The time of SMs in launches; `ctas` has all CTAs of each.

    ctas: launch, sm, start_ns and end_ns of each CTA; sms: of the device.
    """
    launch, found = pd.factorize(ctas["launch"].to_numpy())
    begins, ends = ctas["start_ns"].to_numpy(), ctas["end_ns"].to_numpy()
    limits = np.iinfo(np.int64)
    begin, end = np.full(len(found), limits.max), np.full(len(found), limits.min)
    np.minimum.at(begin, launch, begins)
    np.maximum.at(end, launch, ends)
    start, stop = begins - begin[launch], ends - begin[launch]
    length = end - begin
    key, _ = pd.factorize(launch.astype(np.int64) * (1 << 20) + ctas["sm"].to_numpy())
    order = np.lexsort((start, key))
    key, start, stop, launch = key[order], start[order], stop[order], launch[order]
    # CTAs of one SM overlap: what is behind the latest end before it is new.
    apart = key * (int(length.max()) + 1)
    latest = np.maximum.accumulate(stop + apart) - apart
    first = begins_of_runs(key)  # the first CTA of each SM
    before = np.concatenate([[0], latest[:-1]])
    before[first] = 0
    busy = np.maximum(0, stop - np.maximum(start, before)).sum()
    last = latest[np.append(first[1:], len(key)) - 1]
    of_sm = length[launch[first]]
    whole = float(length.sum()) * max(sms, int(np.bincount(launch[first]).max()))
    after = float((of_sm - last).sum())
    return SmTime(
        idle=whole - float(of_sm.sum()),
        after=after,
        between=float(of_sm.sum()) - after - float(busy),
        busy=float(busy),
    )


def breakdown_answers(
    tables: Tables, known: TimeSources, only: Collection[tuple[str, int]] | None = None
) -> Iterator[Answer]:
    """The rows of each configuration, or only of these kernels and variants."""
    spans, samples, launches = (
        dict(configurations(table)) for table in (known.times, known.samples, tables.launches)
    )
    basis = "model" if tables.emulated else "samples"
    refused = refused_evidence(tables.metadata)
    none = f"no PC samples: {refused or 'session(evidence=True) takes some'}"
    none = "this trace has no samples" if tables.emulated and not refused else none
    for key in dict.fromkeys([*launches, *samples]):
        if only is not None and key not in only:
            continue
        kernel, variant = key
        said: list[str] = []
        parts, at_work = _parts_of_sms(tables, kernel, variant, launches.get(key), said)
        work = _of_samples(samples.get(key), kernel, variant, basis, none, said)
        work = _of_spans(spans.get(key)) if work is None else work
        rows = parts + [each | {"share": each["share"] * at_work} for each in work]
        yield Answer([{"kernel": kernel, "variant": variant} | each for each in rows if each["share"]], said)


def _parts_of_sms(
    tables: Tables, kernel: str, variant: int, launches: pd.DataFrame | None, said: list[str]
) -> tuple[list[dict[str, Any]], float]:
    """The rows of SMs without a CTA, and the share of the time that is left; none, and why, if not every CTA
    and the SM it ran on is known."""
    sms = sm_count_of(tables.metadata)
    whole = None if launches is None else ended(launches)
    known = whole is not None and len(whole) > 0 and knows_sms(tables) and (grid_ctas(whole) > 0).all()
    ctas = every_cta(tables, whole) if known and whole is not None else None
    if ctas is None or not sms or (ctas["sm"] < 0).any():
        why = "not every CTA of its launches is known" if sms else "the number of SMs is not known"
        said.append(f"{kernel} #{variant}: idle-sms, tail, imbalance, between-ctas: {why}")
        return [], 1.0
    bare = ctas[~beside_bare_ones(tables, ctas)]
    time = sm_time(bare, sms)
    every = time if len(bare) == len(ctas) else sm_time(ctas, sms)
    if time.whole == time.idle:
        return [], 1.0
    away = round(sms_a_launch(ctas) - sms_a_launch(bare))  # these SMs had no place for a bare CTA
    shape = shape_of(bare, sms - away, max_resident_ctas(tables.metadata, kernel, variant))
    imbalance = min(time.after, shape.imbalance_pct / 100 * time.whole)
    idle = every.idle / every.whole
    of_others = (1 - idle) / (time.whole - time.idle)
    parts = {
        "idle-sms": idle,
        "tail": of_others * (time.after - imbalance),
        "imbalance": of_others * imbalance,
        "between-ctas": of_others * time.between,
    }
    return [_row(part, "", "ctas", share) for part, share in parts.items()], of_others * time.busy


def _of_samples(
    samples: pd.DataFrame | None, kernel: str, variant: int, basis: str, none: str, said: list[str]
) -> list[dict[str, Any]] | None:
    """Rows by line and reason, whose shares add up to 1; None if there are too few samples. none: why there
    are none, if so."""
    count = 0 if samples is None else int(samples["samples"].sum())
    if samples is None or count < FEWEST_SAMPLES:
        few = f"{count} PC samples of the {FEWEST_SAMPLES} needed: record more launches"
        why = few if count else none
        said.append(f"{kernel} #{variant}: issuing, waiting: {why}")
        return None
    columns = (samples[name].tolist() for name in (*_PLACE, "stall", "class", "blamed_class", "samples"))
    works = (
        ((*_charged_to(stall, cls, blamed), file, line, path), count)
        for file, line, path, stall, cls, blamed, count in zip(*columns, strict=True)
    )
    return _summed(works, basis)


def _charged_to(stall: str, cls: str, blamed: str) -> tuple[str, str]:
    """The part and reason of samples: their stall, the class of their instruction, and of what they wait
    for."""
    if stall == _ISSUED:
        return "issuing", cls
    if blamed == _MMA:
        return "waiting", "tensor cores"
    if stall in _OF_MIO:
        return "waiting", _MIO_REASONS.get(blamed, _MIO)
    return "waiting", _REASONS.get(stall, "other")


def _of_spans(spans: pd.DataFrame | None) -> list[dict[str, Any]]:
    """Rows by line and class of op, whose shares add up to 1."""
    if spans is None or not spans["self_time"].sum():
        return [_row("unknown", "", "spans", 1.0)]
    columns = (spans[name].tolist() for name in (*_PLACE, "kind", "scope", "self_time"))
    works = (
        (_of_scope(kind, str(scope), file, line, path), time)
        for file, line, path, kind, scope, time in zip(*columns, strict=True)
    )
    return _summed(works, "spans")


def _of_scope(kind: str, scope: str, file: str, line: int, call_path: str) -> _Work:
    cls = op_class(scope) if kind == "op" else ""
    if not cls:  # loops, the kernel itself, and what no record covers
        return "unknown", "", "", 0, ""
    if cls == "barrier":
        return "waiting", "barrier", file, line, call_path
    if cls == "load" and scope.endswith(_LATENCY):
        return "waiting", "memory", file, line, call_path
    return "op", cls, file, line, call_path


def _summed(works: Iterable[tuple[_Work, float]], basis: str) -> list[dict[str, Any]]:
    """One row for what is alike, the longest first."""
    sums: dict[_Work, float] = {}
    for work, weight in works:
        sums[work] = sums.get(work, 0) + weight
    whole = sum(sums.values())
    shares = sorted(sums.items(), key=itemgetter(1), reverse=True)
    return [
        dict(zip(_WORK, work, strict=True)) | {"share": weight / whole, "basis": basis}
        for work, weight in shares
    ]


def _row(part: str, reason: str, basis: str, share: float) -> dict[str, Any]:
    return {
        "part": part, "reason": reason, "file": "", "line": 0, "call_path": "", "share": share,
        "basis": basis,
    }  # fmt: skip


UNKNOWN: Final = "unknown"
OTHER: Final = "other"

_CELLS: Final = "█▓▒░▚▖"
_CELL_OF: Final = {UNKNOWN: "·", OTHER: "-"}
_MOST_SHARES: Final = 6
_SMALL: Final = 0.02
_MUCH_UNKNOWN: Final = 0.3
_TENTHS: Final = 1000
_WORK_MISSING: Final = "issuing, waiting: "  # begins what the breakdown says if there are too few PC samples
_BASES: Final = {"ctas": "CTA times", "samples": "PC samples", "model": "the cost model", "spans": "spans"}


def basis_text(basis: Sequence[str]) -> str:
    """ "CTA times and the cost model"."""
    return " and ".join(_BASES[each] for each in basis)


@dataclass(frozen=True)
class Account:
    """The time of one configuration's launches in parts.

    shares: by name, such as "waiting: memory" or "tail", at most six, in whole tenths of a percent, which add
    up to 1, the largest first and "other" last; "unknown" has a share of its own. basis: as in `breakdown`.
    advice: how to reduce the unknown share, if it is above 0.3; else "". not_measured: which parts are
    missing, and why.
    """

    shares: Mapping[str, float]
    basis: tuple[str, ...]
    advice: str
    not_measured: tuple[str, ...]

    @property
    def caveats(self) -> list[str]:
        """Limits of the shares, and how to learn more: a sentence each."""
        told = [f"{UNKNOWN}: {self.advice}"] if self.advice else []
        split = (text.rpartition(": ") for text in self.not_measured if text.startswith("idle-sms"))
        return told + [f"{parts} are not in the bar: {why}" for parts, _, why in split]


def time_accounts(
    tables: Tables, known: TimeSources, of: Collection[tuple[str, int]]
) -> dict[tuple[str, int], Account]:
    """The accounts of these kernels and variants. known: sums of spans and samples."""
    answers = [answer for answer in breakdown_answers(tables, known, of) if answer.rows]
    return {(each.rows[0]["kernel"], each.rows[0]["variant"]): _account(each) for each in answers}


def apportioned(shares: Collection[float], whole: int) -> list[int]:
    """Shares that add up to 1 as integers that add up to `whole`: the largest remainders are rounded up."""
    exact = np.fromiter(shares, np.float64) * whole
    least = np.floor(exact)
    left = whole - int(least.sum())
    least[np.argsort(least - exact, kind="stable")[:left]] += 1
    return [int(count) for count in least]


def bar_symbols(shares: Collection[str]) -> dict[str, str]:
    """The character that each share is drawn with."""
    named = [name for name in shares if name not in _CELL_OF]
    return dict(zip(named, _CELLS, strict=False)) | _CELL_OF


def bar_of(shares: Mapping[str, float], cells: int) -> str:
    """All shares as one bar of so many characters."""
    symbols = bar_symbols(shares)
    counts = zip(shares, apportioned(shares.values(), cells), strict=True)
    return "".join(symbols[name] * count for name, count in counts)


def _account(answer: Answer) -> Account:
    kernel, variant = answer.rows[0]["kernel"], answer.rows[0]["variant"]
    missing = tuple(text.removeprefix(f"{kernel} #{variant}: ") for text in answer.not_measured)
    shares = _folded(_by_name(answer.rows))
    asks = shares.get(UNKNOWN, 0.0) > _MUCH_UNKNOWN
    why = next((text[len(_WORK_MISSING) :] for text in missing if text.startswith(_WORK_MISSING)), "")
    tenths = apportioned(shares.values(), _TENTHS)
    return Account(
        shares={name: count / _TENTHS for name, count in zip(shares, tenths, strict=True)},
        basis=tuple(dict.fromkeys(row["basis"] for row in answer.rows)),
        advice=why if asks else "",
        not_measured=missing,
    )


def _by_name(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Shares of all lines together, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        name = f"{row['part']}: {row['reason']}" if row["reason"] else row["part"]
        shares[name] = shares.get(name, 0.0) + row["share"]
    return dict(sorted(shares.items(), key=lambda each: -each[1]))


def _folded(shares: dict[str, float]) -> dict[str, float]:
    """What is small, or has no room, as "other"."""
    named = [name for name, share in shares.items() if name != UNKNOWN and share >= _SMALL]
    room = _MOST_SHARES - (UNKNOWN in shares)
    if len(named) > room or len(named) + (UNKNOWN in shares) < len(shares):
        named = named[: room - 1]
    kept = {name: share for name, share in shares.items() if name == UNKNOWN or name in named}
    rest = sum(share for name, share in shares.items() if name not in kept)
    return kept | ({OTHER: rest} if rest else {})
