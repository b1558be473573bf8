"""Times and evidence of the corpus' kernels on the GPU of this machine.

A recording has what the rules of the findings read, and is cut to stay small: it has the first spans of each
warp, of some CTAs of one launch; when some of the other CTAs ran; and of the code no SASS. If some CTAs take
far longer than others, all CTAs of all launches have their times. So its totals over spans are not those of
the launch.
"""

from __future__ import annotations

import math
import multiprocessing
import re
import statistics
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench.corpus.case import Case, Launch, Prepare, agree
from bench.cut import cut as cut_spans
from bench.kernels import surroundings
from bench.timing import synchronize
from profscope.instrument_passes.kept_text import packed, unpacked
from profscope.profiles import Profile
from profscope.schema import Tables
from profscope.traces.saving import save

__all__ = [
    "RECORDINGS",
    "WITHOUT_COUNTERS",
    "cases_of",
    "compile_ahead",
    "cut",
    "evidence_file",
    "prepared",
    "record",
    "runs_here",
]

RECORDINGS: Final = Path(__file__).parent / "recordings"
WITHOUT_COUNTERS: Final = RECORDINGS.parent / "without_counters"
"""With experiments and the kernels' own counts instead of counters and PC samples."""
_ONE_IN: Final = 64  # CTAs records, or in more, so that no more than these do:
_MOST_CTAS: Final = 128
_MOST_SPANS: Final = 1000  # of a launch; fewer CTAs record if it has more
_KEPT_SPANS: Final = 200  # of one launch, about, in a file
_MOST_OTHERS: Final = 128  # CTAs that do not record, of which a file keeps when they ran
_UNEVEN: Final = 0.25  # CTAs whose times have a deviation of more than this share of their mean are all kept
_LAUNCHES: Final = 24  # of a session; those observed leave some for the records
_EVERY: Final = 4  # of those that are not observed one in so many is recorded, or, of large ones, the first
_FEW_CTAS: Final = 1024  # of a launch that is not large, as each CTA has a row
_ROUNDS: Final = 8
_PAIRS: Final = 5  # launches of fault and twin in a round
_SLEEP_CYCLES: Final = 4_000_000  # about 2 ms, in which the host gets ahead
_EVIDENCE_SECONDS: Final = 20.0
_SETTLED_S: Final = 0.2  # in which a session measures clocks and the cost of records
_NEEDED_OF_SAMPLES: Final = (
    "kernel", "variant", "key", "binary", "launches", "samples", "dropped", "period_cycles", "instructions",
)  # fmt: skip


def prepared(prepare: Prepare, small: bool) -> Launch:
    """A launch whose tensors have the same values each time; on the GPU, if there is one."""
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        torch.manual_seed(0)
        return prepare(small)


def evidence_file(case: Case) -> str:
    return re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-") + ".pftrace.gz"


def runs_here(case: Case) -> bool:
    """Whether the GPU runs the kernel, or the emulator, which stands for compute capability 8.0."""
    major, minor = torch.cuda.get_device_capability() if torch.cuda.is_available() else (8, 0)
    return case.least <= major * 10 + minor


def compile_ahead(cases: Iterable[Case], workers: int, checkout: Path | None = None) -> None:
    """Fill Triton's cache from several processes; a case that fails there fails again when it is measured."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        wait([pool.submit(_compile, case.name, checkout) for case in cases])


def cases_of(checkout: Path | None) -> dict[str, Case]:
    """The cases of the repository, or of a checkout of an earlier commit."""
    from bench.corpus.cases import CASES
    from bench.corpus.earlier import earlier_cases

    return CASES if checkout is None else earlier_cases(checkout)


def _compile(name: str, checkout: Path | None) -> None:
    """All that `record` compiles."""
    case = cases_of(checkout)[name]
    with surroundings():
        if case.mended is not None:
            prepared(case.mended, small=False)()
        fault = prepared(case.prepare, small=False)
        with profscope.session(ctas=_recording_ctas(fault)):
            fault()
            synchronize()


def record(case: Case, small: bool, out: Path, *, without_counters: bool = False) -> dict[str, Any]:
    """A row of the table: times, and whether fault and twin agree. The evidence goes into a file in out.

    small: on the emulator, without times. without_counters: evidence is what needs no permission: the
    kernel's own counts, and experiments.
    """
    with surroundings():
        fault = prepared(case.prepare, small)
        fault()
        row: dict[str, Any] = {"name": case.name, "causes": list(case.causes), "lines": list(case.lines)}
        if case.mended is None:
            row |= _times("fault", timed((fault,))[0])
        else:
            row |= _times_of_both(fault, prepared(case.mended, small))
        profile = _evidence(fault, without_counters=without_counters)
    save(cut(profile).tables, out / evidence_file(case))
    evidence = profile.metadata.get("evidence", {})
    return row | {"file": evidence_file(case), "not_measured": evidence.get("not_measured", [])}


def _times_of_both(fault: Launch, twin: Launch) -> dict[str, Any]:
    expected = fault.outputs()
    twin()
    row: dict[str, Any] = {"same_results": agree(expected, twin.outputs())}
    for which, times in zip(("fault", "mended"), timed((fault, twin)), strict=True):
        row |= _times(which, times)
    if fault_us := row.get("fault_us"):
        row["gain"] = 1 - row["mended_us"] / fault_us
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


def _evidence(launch: Launch, *, without_counters: bool = False) -> Profile:
    """Launches in a session, some of them recorded and, on a GPU, others observed."""
    on_gpu = torch.cuda.is_available()
    evidence: Any = {"seconds": _EVIDENCE_SECONDS} if on_gpu else False
    evidence = (
        ["records", "experiments", f"seconds:{_EVIDENCE_SECONDS:g}"]
        if on_gpu and without_counters
        else evidence
    )
    ctas = _recording_ctas(launch)
    is_large = isinstance(ctas, list) or math.prod(launch.grid) > _FEW_CTAS
    every = _LAUNCHES if is_large else _EVERY
    with profscope.session(evidence=evidence, ctas=ctas, every=every) as prof:
        launch()
        synchronize()
        time.sleep(_SETTLED_S if on_gpu else 0)
        for _ in range(_LAUNCHES - 1 if on_gpu else 1):
            launch()
        synchronize()
    return prof.profile


def _recording_ctas(launch: Launch) -> int | list[int]:
    """One CTA in so many, or those listed, if these had too many spans."""
    one_in = max(_ONE_IN, 1 << (math.prod(launch.grid) // _MOST_CTAS).bit_length())
    with profscope.session(ctas=one_in) as prof:
        launch()
        synchronize()
    spans, recorded = len(prof.df), int(prof.ctas["recorded"].sum())
    if spans <= _MOST_SPANS:
        return one_in
    few, last = max(1, recorded * _MOST_SPANS // spans), math.prod(launch.grid) - 1
    return sorted({round(last * at / max(1, few - 1)) for at in range(few)})


def cut(profile: Profile) -> Profile:
    """What a recording keeps of a profile; all CTAs if some take far longer than others."""
    tables, cycles = profile.tables, profile.tables.ctas["duration_cycles"]
    if cycles.std() < _UNEVEN * cycles.mean():
        launch = tables.df[tables.df["launch"] == tables.launches["launch"].iloc[0]]
        ctas = max(2, _KEPT_SPANS * launch["cta"].nunique() // max(1, len(launch)))
        few = cut_spans(profile, ctas, launches=1, others=_MOST_OTHERS, most_spans=_KEPT_SPANS)
    else:
        few = cut_spans(profile, ctas=0, launches=0, others=0, most_spans=_KEPT_SPANS)
    return Profile.of(_with_needed_metadata(few.tables))


def _with_needed_metadata(tables: Tables) -> Tables:
    """Without SASS, and without the sections of PTX that name this machine's folders."""
    metadata = dict(tables.metadata)
    metadata["code"] = [_shorter(code) for code in metadata.get("code", [])]
    if sampler := metadata.get("sampler"):
        binaries = [{name: each[name] for name in _NEEDED_OF_SAMPLES} for each in sampler["binaries"]]
        metadata["sampler"] = sampler | {"binaries": binaries}
    return replace(tables, metadata=metadata)


def _shorter(code: Mapping[str, Any]) -> dict[str, Any]:
    ptx = unpacked(code["ptx"]).partition("\t.section\t.debug")[0]
    ttgir = re.sub(r'profscope\.manifest = "(\\.|[^"\\])*", ', "", unpacked(code["ttgir"]))
    return {**code, "ptx": packed(ptx), "ttgir": packed(ttgir)}
