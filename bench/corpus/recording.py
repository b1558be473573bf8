"""Times and evidence of the corpus' kernels, one after the other, on the GPU of this machine."""

from __future__ import annotations

import json
import math
import re
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import profscope
from bench.corpus.case import Case, Launch, Prepare, agree
from profscope.analysis.rules.thresholds import UNEVEN
from profscope.profiles import Profile

__all__ = ["evidence_file", "prepared", "record", "warm"]

_ONE_IN: Final = 64  # CTAs records, or in more, so that no more than these do:
_MOST_CTAS: Final = 128
_MOST_SPANS: Final = 1000  # of a launch; fewer CTAs record if it has more
_LAUNCHES: Final = 24  # of a session; those observed leave some for the records
_EVERY: Final = 4  # of those that are not observed one in so many is recorded, or, of large ones, the first
_FEW_CTAS: Final = 1024  # of a launch that is not large, as each CTA has a row
_MOST_OTHERS: Final = 512  # CTAs that do not record, of which a file keeps when they ran
_ROUNDS: Final = 8
_PAIRS: Final = 5  # launches of fault and twin in a round
_SLEEP_CYCLES: Final = 4_000_000  # about 2 ms, in which the host gets ahead
_EVIDENCE_SECONDS: Final = 20.0
_SETTLED_S: Final = 0.2  # in which a session measures clocks and the cost of records


def prepared(prepare: Prepare, small: bool) -> Launch:
    """A launch whose tensors have the same values each time; on the GPU, if there is one."""
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        torch.manual_seed(0)
        return prepare(small)


def evidence_file(case: Case) -> str:
    return re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-") + ".pftrace.gz"


def warm(case: Case, small: bool, out: Path) -> None:
    """Compile all that recording the case needs, into Triton's cache, and choose its CTAs."""
    if case.mended is not None:
        prepared(case.mended, small)()
    launch = prepared(case.prepare, small)
    one_in = _one_in(launch)
    with profscope.session(ctas=one_in) as prof:
        launch()
        _synchronize()
    spans, recorded = len(prof.df), int(prof.ctas["recorded"].sum())
    if spans > _MOST_SPANS:
        few = max(1, recorded * _MOST_SPANS // spans)
        last = math.prod(launch.grid) - 1
        chosen = sorted({round(last * at / max(1, few - 1)) for at in range(few)})
        with profscope.session(ctas=chosen):
            launch()
            _synchronize()
        _choice_file(case, out).write_text(json.dumps(chosen))


def _one_in(launch: Launch) -> int:
    return max(_ONE_IN, 1 << (math.prod(launch.grid) // _MOST_CTAS).bit_length())


def _choice_file(case: Case, out: Path) -> Path:
    return out / evidence_file(case).replace(".pftrace.gz", ".ctas")


def record(case: Case, small: bool, out: Path) -> dict[str, Any]:
    """A row of the table: times, and whether fault and twin agree. The evidence goes into a file in out."""
    begun = time.monotonic()
    fault = prepared(case.prepare, small)
    fault()
    row: dict[str, Any] = {"name": case.name, "round": case.round, "half": case.half}
    row |= {"causes": list(case.causes), "lines": list(case.lines)}
    if case.mended is None:
        row |= _times("fault", timed((fault,))[0])
    else:
        expected = fault.outputs()
        twin = prepared(case.mended, small)
        twin()
        row["same_results"] = agree(expected, twin.outputs())
        for which, times in zip(("fault", "mended"), timed((fault, twin)), strict=True):
            row |= _times(which, times)
        if times := row.get("fault_us"):
            row["gain"] = 1 - row["mended_us"] / times
        del twin
    path, choice = out / evidence_file(case), _choice_file(case, out)
    chosen = json.loads(choice.read_text()) if choice.exists() else None
    choice.unlink(missing_ok=True)
    row |= _evidence(fault, path, chosen) | {"file": path.name, "bytes": path.stat().st_size}
    row["seconds"] = time.monotonic() - begun
    return row


def timed(launches: tuple[Launch, ...]) -> list[list[float]]:
    """us of launches in turn, by events; empty without a GPU, where nothing has a time."""
    if not torch.cuda.is_available():
        return [[] for _ in launches]
    for launch in launches * 10:
        launch()
    found: list[list[float]] = [[] for _ in launches]
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        torch.cuda._sleep(_SLEEP_CYCLES)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(_PAIRS * len(launches) + 1)]
        events[0].record()
        for at, event in enumerate(events[1:]):
            launches[at % len(launches)]()
            event.record()
        torch.cuda.synchronize()
        for at, event in enumerate(events[1:]):
            found[at % len(launches)].append(1e3 * events[at].elapsed_time(event))
    return found


def _times(which: str, times: list[float]) -> dict[str, Any]:
    if not times:
        return {}
    low, middle, high = statistics.quantiles(times, n=4)
    return {f"{which}_us": middle, f"{which}_quartiles_us": [low, high]}


def _evidence(launch: Launch, path: Path, chosen: list[int] | None) -> dict[str, Any]:
    """Launches in a session, saved; what of the hardware's evidence is missing. chosen: CTAs that record."""
    on_gpu = torch.cuda.is_available()
    hardware: Any = {"seconds": _EVIDENCE_SECONDS} if on_gpu else False
    is_large = bool(chosen) or math.prod(launch.grid) > _FEW_CTAS
    ctas, every = chosen or _one_in(launch), _LAUNCHES if is_large else _EVERY
    with profscope.session(hardware=hardware, ctas=ctas, every=every) as prof:
        launch()
        _synchronize()
        time.sleep(_SETTLED_S if on_gpu else 0)
        for _ in range(_LAUNCHES - 1 if on_gpu else 1):
            launch()
        _synchronize()
    thinned(prof.profile).save(path)
    return {
        "recorded_launches": len(prof.launches),
        "spans": len(prof.df),
        "not_measured": prof.metadata.get("hardware", {}).get("not_measured", []),
        "notes": prof.metadata["notes"],
    }


def thinned(profile: Profile) -> Profile:
    """A profile with fewer of the CTAs that do not record, if all take about the same time: each has a row,
    and a large grid has many."""
    ctas = profile.tables.ctas
    cycles = ctas["duration_cycles"]
    others = np.flatnonzero(~ctas["recorded"].to_numpy(bool))
    if cycles.std() >= UNEVEN * cycles.mean() or len(others) <= _MOST_OTHERS:
        return profile
    kept = ctas["recorded"].to_numpy(bool, copy=True)
    kept[others[np.linspace(0, len(others) - 1, _MOST_OTHERS).astype(int)]] = True
    return Profile.of(replace(profile.tables, ctas=ctas[kept].reset_index(drop=True)))


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
