"""Profile real kernels on the GPU and check everything that can be checked about what came back.

    python -m tests.gpu.run_kernels [--size real] [--kernels REGEX] [--levels light,heavy] [--json FILE]
    python -m tests.gpu.run_kernels --capture DIR        # raw buffers for tests/data, see capture.py

Per case and level: the outputs are the bits of the uninstrumented run, every CTA's records decode with
nothing unexplained, the tables are sound, and a saved trace loads back equal. Times are of the whole case on
the device, between events around it, with the queue kept full; what it does beside its kernels is in both.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pandas as pd
import torch
import triton

import profscope
from tests.gpu import capture, fla, liger
from tests.kernels.cases import Case
from tests.kernels.cases import cases as own_cases
from tests.support.sessions import same_bits
from tests.support.validation import validate

__all__ = ["LEVELS", "Result", "all_cases", "measure"]

LEVELS = ("light", "default", "heavy")
# Above this many spans a profile is not written to disk: the small size of the same kernel is.
_SAVED_SPANS = 300_000
_TIMED_SPANS = 5_000_000  # spans that the timed launches of one session may leave to decode


@dataclass(frozen=True)
class Result:
    """One kernel launch of one case at one level; times are of the whole case, in ms.

    in_flight and unpaired: asynchronous operations with and without the wait that ended them, of the kernel's
    launches together.
    """

    case: str
    kernel: str
    level: str
    ctas: int
    warps: int
    spans: int
    dropped: int
    in_flight: int
    unpaired: int
    identical: bool
    problems: tuple[str, ...]
    clock_ghz: float
    ns_uncertainty: float
    bare_ms: float
    instrumented_ms: float


def all_cases(size: str) -> list[Case]:
    """Every case this GPU can run, of size "small" or "real"."""
    major, minor = torch.cuda.get_device_capability()
    found = own_cases(size) + [
        c for package in (liger, fla) if package.INSTALLED for c in package.cases(size)
    ]
    return [case for case in found if case.capability <= 10 * major + minor]


def measure(case: Case, level: str, *, timed: bool = True, keep: Path | None = None) -> list[Result]:
    """Run a case bare and instrumented; one result per launch of the instrumented run.

    keep: folder that also gets the saved trace.
    """
    inputs = case.inputs("cuda")
    bare, again = case.launch(inputs), case.launch(inputs)
    with profscope.session(instrument=level, backend="gpu") as prof:
        instrumented = case.launch(inputs)
    profile = prof.profile
    problems = list(_problems(profile))
    if not same_bits(bare, again):
        problems.append("two bare runs differ: nothing to compare with")
    if len(profile.df) <= _SAVED_SPANS:
        problems += _reloaded(profile, case, level, keep)
    repeats = max(3, min(20, _TIMED_SPANS // max(len(profile.df), 1)))
    bare_ms = instrumented_ms = math.nan
    if timed:
        bare_ms = _device_ms(lambda: case.launch(inputs), repeats)
        # So much memory that nothing is drained meanwhile: the kernel's own time is wanted.
        with profscope.session(instrument=level, backend="gpu", memory=8192):
            case.launch(inputs)  # the first launch shows what the second needs
            instrumented_ms = _device_ms(lambda: case.launch(inputs), repeats)
    identical = same_bits(bare, instrumented)
    if profile.launches.empty:
        problems.append("nothing was recorded")
        nothing = (case.name, "-", level, 0, 0, 0, 0, 0, 0, identical, tuple(problems), math.nan, math.nan)
        return [Result(*nothing, bare_ms, instrumented_ms)]
    spans = profile.df["launch"].value_counts()
    return [
        Result(
            case=case.name,
            kernel=launch.kernel,
            level=level,
            ctas=launch.ctas,
            warps=launch.num_warps,
            spans=int(spans.get(launch.launch, 0)),
            dropped=launch.dropped,
            in_flight=profile.metadata["kernels"][launch.kernel]["in_flight"],
            unpaired=profile.metadata["kernels"][launch.kernel]["unpaired"],
            identical=identical,
            problems=tuple(problems),
            clock_ghz=launch.clock_ghz,
            ns_uncertainty=launch.ns_uncertainty,
            bare_ms=bare_ms,
            instrumented_ms=instrumented_ms,
        )
        for launch in profile.launches.itertuples()
    ]


def _problems(profile: profscope.Profile) -> Iterator[str]:
    """What is wrong with a profile, or said in a note that its own figures do not explain."""
    yield from validate(profile.tables)
    dropped = profile.launches.groupby("kernel")["dropped"].sum()
    for note in profile.metadata["notes"]:
        if not ("overwritten" in note and dropped.get(note.split(":")[0], 0) > 0):
            yield f"note: {note}"
    roots = profile.df[profile.df["depth"] == 0].groupby("launch")["cta"].nunique()
    for launch in profile.launches.itertuples():
        expected = launch.grid_x * launch.grid_y * launch.grid_z * launch.num_ctas
        if launch.ctas != expected:
            yield f"launch {launch.launch}: {launch.ctas} CTAs recorded, the grid has {expected}"
        if roots.get(launch.launch, 0) != launch.ctas:
            yield f"launch {launch.launch}: only {roots.get(launch.launch, 0)} CTAs have a kernel span"
        if launch.end_ns < launch.start_ns:
            yield f"launch {launch.launch} ends before it starts"


def _reloaded(profile: profscope.Profile, case: Case, level: str, keep: Path | None) -> list[str]:
    """Save, load, compare."""
    with tempfile.TemporaryDirectory() as folder:
        path = (keep or Path(folder)) / f"{case.name}-{level}.json.gz"
        profile.save(path)
        loaded = profscope.load(path)
    try:
        pd.testing.assert_frame_equal(loaded.df, profile.df)
        pd.testing.assert_frame_equal(loaded.launches, profile.launches)
        assert loaded.metadata == profile.metadata, "metadata differs"
    except AssertionError as error:
        return [f"the saved trace loads back different: {' '.join(str(error).split())[:200]}"]
    return []


def _device_ms(run: Callable[[], object], repeats: int) -> float:
    """Median device time of `run` in ms. The device sleeps first, so that the host runs ahead of it."""
    run()
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairwise(events))


def _table(results: Sequence[Result]) -> str:
    frame = pd.DataFrame([asdict(result) for result in results])
    frame["problems"] = [len(result.problems) for result in results]
    frame["slowdown"] = frame["instrumented_ms"] / frame["bare_ms"]
    digits = {"clock_ghz": 4, "ns_uncertainty": 1, "bare_ms": 4, "instrumented_ms": 4, "slowdown": 3}
    return frame.round(digits).to_string(index=False, na_rep="-")


def _json(results: Sequence[Result], size: str) -> str:
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "profscope": profscope.__version__,
        "size": size,
    }
    rows = [{k: None if v != v else v for k, v in asdict(result).items()} for result in results]  # NaN: null
    return json.dumps({**about, "results": rows}, indent=1, allow_nan=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if any case has a problem."""
    options = _arguments(argv)
    if not torch.cuda.is_available():
        print("run_kernels: no GPU is active", file=sys.stderr)
        return 1
    for package, installed in (("liger-kernel", liger.INSTALLED), ("fla-core", fla.INSTALLED)):
        if not installed:
            print(f"{package}: not installed, its kernels are left out")
    size = "small" if options.capture else options.size
    chosen = [case for case in all_cases(size) if re.search(options.kernels, case.name)]
    if options.capture:
        return capture.run(chosen, options.capture)
    results: list[Result] = []
    for case in chosen:
        for level in options.levels.split(","):
            found = measure(case, level, keep=options.traces)
            results += found
            print(
                f"{case.name} {level}: {found[0].spans} spans, {len(found[0].problems)} problems", flush=True
            )
        torch.cuda.empty_cache()
    print(f"\n{torch.cuda.get_device_name()}, Triton {triton.__version__}, torch {torch.__version__}, {size}")
    print(_table(results))
    if options.json:
        options.json.write_text(_json(results, size))
    wrong = [result for result in results if result.problems or not result.identical]
    for result in wrong:
        for problem in result.problems or ("outputs differ from the bare run",):
            print(f"{result.case} {result.level}: {problem}")
    return 1 if wrong else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run_kernels")
    parser.add_argument("--size", choices=("small", "real"), default="real")
    parser.add_argument("--kernels", default="", help="regular expression on the case name")
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--json", type=Path, help="write the results here too")
    parser.add_argument("--traces", type=Path, help="keep the saved traces in this folder")
    parser.add_argument("--capture", type=Path, help="only save raw buffers of small launches in this folder")
    options = parser.parse_args(argv)
    for folder in (options.traces, options.capture):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    raise SystemExit(main())
