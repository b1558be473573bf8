"""How long it takes to look at ten million spans, and how much memory that needs.

    python -m bench.viewer [--spans 10] [--json FILE]        # millions

A profile of 20 kernels, two launches of each, is saved, and looked at by commands of their own. Their seconds
are those of the process with all its imports, its memory what it held at most. The page is saved, and the
interactive view draws its first screen, of a profile that is in memory. Beside each stands the ratio to what
json.dump takes for as many rows, in the same run; that is measured for a hundredth of them. Modules are
compiled before, as those of installed packages are. Where the machine does other work besides, seconds of CPU
time say what the clock would say without it, or a little more: a target is missed where both are above it.
Before each command memory is touched and freed: a virtual machine may have given it back to its host, and
hand it out anew at 2 s a GB, and then that is what would be timed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

# What is heavy is imported where it is needed: a command's peak of memory is not less than what the process
# that starts it holds (getrusage(2)).

__all__ = ["STEPS", "Took", "main"]

_KERNELS, _LAUNCHES, _WARPS, _ITERATIONS, _SMS = 20, 40, 8, 60, 132
_SPANS_A_CTA: Final = _WARPS * (3 + 5 * _ITERATIONS)
_GB: Final = 1e9
_TOUCHED_BYTES: Final = 2 << 30
# In a process of its own, see below.
_TOUCH: Final = f"""
import mmap
memory = mmap.mmap(-1, {_TOUCHED_BYTES}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)  # as numpy does: such pages come from where small ones do not
memory[::4096] = bytes({_TOUCHED_BYTES} // 4096)
"""
_VERDICTS: Final = {None: "", True: "  missed", False: "  met"}


@dataclass(frozen=True)
class Took:
    """Of one step: seconds, seconds of CPU time over all threads, and bytes. system_s: of the CPU time, what
    the system took in the whole process, most of it to hand out memory. start_s, start_cpu_s: of what came
    before it in its process and is not counted."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    system_s: float = 0.0
    start_s: float = 0.0
    start_cpu_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """command: the words behind `python -m`, with {folder} for where the files are. target_s, target_bytes:
    at most; None where there is no target."""

    command: str
    target_s: float | None = None
    target_bytes: float | None = None


STEPS: Final = {
    "view --help": Step("profscope view --help", 0.3),
    "view small.json": Step("profscope view {folder}/small.json"),
    "view .pftrace.gz": Step("profscope view {folder}/t.pftrace.gz", 15, 2 * _GB),
    "view .parquet": Step("profscope view {folder}/t.parquet", 3, 2 * _GB),
    "view one kernel": Step("profscope view {folder}/t.parquet --kernels ^kernel_7$", 1),
    "view one launch": Step("profscope view {folder}/t.parquet --launch 7", 1),
    "view one CTA": Step("profscope view {folder}/t.parquet --launch 7 --cta 17", 1),
    "view one CTA of a folder": Step("profscope view {folder}/t --launch 7 --cta 17", 1),
    "report.html": Step("bench.viewer --of {folder} --do page", 10),
    "interactive, first screen": Step("bench.viewer --of {folder} --do screen", 2),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; returns an exit code, 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.viewer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--spans", type=float, default=10, help="in millions (default 10)")
    parser.add_argument("--only", default="", metavar="TEXT", help="steps whose name has it")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files there, and take what is")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--do", choices=_WITHIN, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.do:
        print(json.dumps(_WITHIN[options.do](options.of, options.spans)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        making = f"bench.viewer --of {folder} --do make --spans {options.spans}"
        about = json.loads(_run(making.split(), folder)[1].splitlines()[-1])
        _run(f"profscope view {folder}/small.json".split(), folder)  # so that its modules are compiled
        _run(f"profscope view {folder}/t/ --launch 7".split(), folder)
        rows, dump_cpu_s = about["spans"], about["dump_cpu_s"]
        print(f"{rows:,} spans; json.dump of them takes {dump_cpu_s:.1f} s of CPU time")
        load = os.getloadavg()[0]
        print(f"load of the machine: {load:.1f} on {len(os.sched_getaffinity(0))} cores\n")
        print(
            f"{'':28}{'s':>8}{'CPU s':>8}{'system s':>10}{'of json.dump':>14}{'peak MB':>9}{'target':>16}",
            flush=True,
        )
        figures: list[dict[str, Any]] = []
        for name, step in STEPS.items():
            if options.only not in name:
                continue
            took = _took(step.command.format(folder=folder).split(), folder)
            missed = _misses(step, took)
            target = "" if step.target_s is None else f"{step.target_s:g} s"
            target += "" if step.target_bytes is None else f", {step.target_bytes / _GB:g} GB"
            print(
                f"{name:28}{took.wall_s:8.2f}{took.cpu_s:8.2f}{took.system_s:10.2f}"
                f"{took.cpu_s / dump_cpu_s:14.3f}{took.peak_bytes / 1e6:9,.0f}{target:>16}"
                f"{_VERDICTS[missed]}",
                flush=True,
            )
            figures.append({"step": name, **asdict(step), **asdict(took), "missed": missed})
    if options.json:
        options.json.write_text(
            json.dumps({"about": about | {"load": load}, "steps": figures}, indent=1) + "\n"
        )
    return int(any(row["missed"] for row in figures))


def _misses(step: Step, took: Took) -> bool | None:
    """None where there is nothing to miss."""
    if step.target_s is None:
        return None
    return min(took.wall_s, took.cpu_s) > step.target_s or took.peak_bytes > (
        step.target_bytes or took.peak_bytes
    )


def _took(words: list[str], folder: Path) -> Took:
    took, printed = _run(words, folder)
    if words[0] != "bench.viewer":
        return took
    within = Took(**json.loads(printed.splitlines()[-1]))  # of what it does besides its beginning
    return replace(within, peak_bytes=took.peak_bytes, system_s=took.system_s)


def _run(words: list[str], folder: Path) -> tuple[Took, str]:
    """What a command took, and what it printed; its compiled modules are kept in the folder. Raises
    RuntimeError where it fails."""
    environment = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    subprocess.run([sys.executable, "-c", _TOUCH], check=True)
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen([sys.executable, "-m", *words], stdout=printed, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(words)} ends with {process.returncode}")
        printed.seek(0)
        text = printed.read()
    cpu_s = usage.ru_utime + usage.ru_stime
    return Took(wall_s, cpu_s, usage.ru_maxrss << 10, usage.ru_stime), text


def _make(folder: Path, spans_m: float) -> dict[str, Any]:
    """Save the profile in all its forms, if it is not there yet; what to tell of it and of this run."""
    from bench.about import about
    from tests.support.profiles import regular_profile

    folder.mkdir(exist_ok=True)
    profile = _profile(max(1, round(spans_m * 1e6 / (_SPANS_A_CTA * _LAUNCHES))))
    if not (folder / "small.json").exists():
        profile.save(folder / "t.pftrace.gz")
        profile.save(folder / "t.parquet")
        profile.save(f"{folder}/t/")
        regular_profile().save(folder / "small.json")
    rows = profile.tables.df.iloc[: max(1, len(profile.tables.df) // 100)].to_dict("list")
    begin = time.process_time()
    with open(os.devnull, "w") as nowhere:
        json.dump(rows, nowhere)
    return {**about(), "spans": len(profile.tables.df), "dump_cpu_s": 100 * (time.process_time() - begin)}


def _profile(ctas: int) -> Any:
    """Launches of several kernels by turns, whose records are known to have cost something."""
    import numpy as np
    import pandas as pd

    from profscope.profiles import Profile
    from tests.support.profiles import regular_profile

    tables = regular_profile(_LAUNCHES, ctas, _WARPS, _ITERATIONS, _SMS).tables
    names = [f"kernel_{number}" for number in range(_KERNELS)]
    codes = (tables.df["launch"].to_numpy() % _KERNELS).astype(np.int8)
    kernel = pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="str"))
    launches = tables.launches.assign(kernel=[names[launch % _KERNELS] for launch in range(_LAUNCHES)])
    clock = {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}
    return Profile.of(
        replace(
            tables,
            df=tables.df.assign(kernel=kernel),
            launches=launches.astype(tables.launches.dtypes.to_dict()),
            metadata=tables.metadata | {"clock": clock},
        )
    )


def _page(folder: Path, _: float) -> dict[str, Any]:
    import profscope

    profile = profscope.load(folder / "t.parquet")
    return _within(lambda: profile.save(folder / "report.html"))


def _screen(folder: Path, _: float) -> dict[str, Any]:
    """Until the first screen is drawn, by textual's pilot, which needs no terminal."""
    import asyncio

    import profscope
    from profscope.analysis.source_code.texts import source_lines
    from profscope.viewer.interactive.app import ExplorerApp

    profile = profscope.load(folder / "t.parquet")

    async def first() -> None:
        app = ExplorerApp(profile, "ns", source_lines(profile.metadata, 0.0))
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()

    return _within(lambda: asyncio.run(first()))


def _within(step: Callable[[], object]) -> dict[str, Any]:
    """What a step of this process took; what it held at most is told by whoever started it."""
    start_s = time.clock_gettime(time.CLOCK_BOOTTIME) - _began_s()
    start_cpu_s = time.process_time()
    begin = time.perf_counter()
    step()
    wall_s = time.perf_counter() - begin
    return asdict(Took(wall_s, time.process_time() - start_cpu_s, 0, 0.0, start_s, start_cpu_s))


def _began_s() -> float:
    """When this process began, in seconds since the machine did (Linux, proc(5))."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


_WITHIN: Final[dict[str, Callable[[Path, float], dict[str, Any]]]] = {
    "make": _make,
    "page": _page,
    "screen": _screen,
}


if __name__ == "__main__":
    sys.exit(main())
