"""How long it takes to read, save and look at many spans, and how much memory that needs.

    python -m bench.reading [--spans 10] [--many 200] [--only TEXT] [--json FILE]      # millions

Each step has a process of its own: seconds, those of CPU time over all threads, and the most memory it held.
A `profscope view` is timed with all its imports, other steps without what they prepare. Each is done three
times, and the fastest counts: a virtual machine that gives memory back to its host has to fetch it again.
"many:" is a file with more spans than memory holds. If the machine does other work besides, CPU seconds say
more than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

# What is heavy is imported where it is needed: a command's peak of memory is not less than what the process
# that starts it holds (getrusage(2)).

__all__ = ["STEPS", "compiled_environment", "main", "many_launches"]

_KERNELS, _LAUNCHES, _WARPS, _ITERATIONS, _SMS = 20, 40, 8, 60, 132
_SPANS_A_CTA: Final = _WARPS * (3 + 5 * _ITERATIONS)
_SMALL: Final = ("add", "softmax", "layer_norm", "matmul")
_SMALL_LAUNCHES: Final = 6912
_TIMES: Final = 3
_DATA: Final = Path(__file__).parents[1] / "tests" / "data"
_ON_GPU: Final = "recorded matmul to df"
_BY_SCOPE: Final = "select scope, count(*), sum(duration_ns), max(duration_ns) from {} group by all"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reading",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--spans", type=float, default=10, help="in millions (default 10)")
    parser.add_argument("--many", type=float, default=200, help="of the large file (default 200)")
    parser.add_argument("--only", default="", metavar="TEXT", help="steps whose name has it")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--do", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.do:
        print(json.dumps(_here(options.do, options.of, options.spans)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        about = _prepared(folder, options.spans, options.many)
        print(", ".join(f"{key} {value}" for key, value in about.items() if value is not None))
        print(f"load of the machine: {os.getloadavg()[0]:.1f}\n\n{'':30}{'s':>8}{'CPU s':>8}{'peak MB':>9}")
        figures = []
        for step in [each for each in STEPS if options.only in each and (about["gpu"] or each != _ON_GPU)]:
            found = min((_measured(step, folder, options.spans) for _ in range(_TIMES)), key=itemgetter("s"))
            print(
                f"{step:30}{found['s']:8.2f}{found['cpu_s']:8.2f}{found['peak_mb']:9,.0f}  {found['answer']}",
                flush=True,
            )
            figures.append({"step": step, **found})
    if options.json:
        options.json.write_text(json.dumps({"about": about, "steps": figures}) + "\n")
    return 0


def _prepared(folder: Path, spans_m: float, many_m: float) -> dict[str, Any]:
    """Save all that is looked at; what to tell of it and of this run. Modules are compiled by that, too."""
    command = "from bench.reading import saved; import sys; saved(sys.argv[1], *map(float, sys.argv[2:]))"
    words = [sys.executable, "-c", command, str(folder), str(spans_m), str(many_m)]
    environment = compiled_environment(folder)
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for name in ("t.parquet", "t.pftrace.gz"):  # each has modules of its own
        view = [sys.executable, "-m", "profscope", "view", name, "--launch", "7"]
        subprocess.run(view, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
    return found


def saved(name: str, spans_m: float, many_m: float) -> None:
    """In a process of its own, as its memory would count as that of all that it starts."""
    from bench.about import about
    from tests.support.profiles import regular_profile

    folder, profile = Path(name), _profile(spans_m)
    for path in ("t.pftrace.gz", "t.parquet"):
        profile.save(folder / path)
    one = regular_profile(launches=1, ctas=1024, warps=_WARPS, iterations=_ITERATIONS)
    spans = many_launches(folder / "many.parquet", many_m, one)
    size = (folder / "many.parquet").stat().st_size
    rows = len(profile.tables.df)
    print(json.dumps({**about(), "spans": rows, "many": spans, "many_gb": round(size / 1e9, 2)}))


def _profile(spans_m: float) -> Any:
    """Launches of several kernels in turn, whose records are known to have cost something."""
    import numpy as np
    import pandas as pd

    from profscope.profiles import Profile
    from tests.support.profiles import regular_profile

    ctas = max(1, round(spans_m * 1e6 / (_SPANS_A_CTA * _LAUNCHES)))
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


def many_launches(path: Path, spans_m: float, profile: Any) -> int:
    """A file of a profile of so many million spans, which repeats one launch; how many exactly."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from profscope.traces.parquet import CHECKS, checked_pieces, described, schema, span_table, write_options
    from profscope.traces.parquet_tables import entries

    tables = profile.tables
    rows = len(tables.df)
    launches = max(1, round(spans_m * 1e6 / rows))
    columns = schema(tables.df)
    once = span_table(tables.df, columns)
    table = pd.concat([tables.launches] * launches, ignore_index=True)
    table["launch"] = table.index.to_numpy("int32")
    references = [columns.get_field_index(name) for name in ("parent", "wait")]
    about = described(tables.df) | {"rows": rows * launches}

    def group(number: int) -> Any:
        launch = pa.array(np.full(rows, number, np.int32))
        one = once.set_column(columns.get_field_index("launch"), columns.field("launch"), launch)
        for at in references:
            own = once.column(at).to_numpy()
            moved = pa.array(own + (own >= 0) * number * rows, columns.field(at).type)
            one = one.set_column(at, columns.field(at), moved)
        return one

    def texts(checks: list[list[int]]) -> dict[bytes, bytes]:
        return entries(replace(tables, launches=table), about | {CHECKS: checks})

    with path.open("wb") as file:
        for piece in checked_pieces(map(group, range(launches)), columns, write_options(tables.df), texts):
            file.write(piece)
    return rows * launches


Prepared = Callable[[Path, float], Callable[[], object]]
"""From the folder and millions of spans: what is timed. What it returns is printed if it is a number."""


def _small_launches(folder: Path, spans_m: float) -> Callable[[], object]:
    """Many launches of a few CTAs at the light level, of four kernels in turn."""
    import numpy as np

    from profscope.decoding.areas import read_buffer
    from profscope.decoding.assemble import assemble
    from profscope.decoding.build import RawLaunch
    from profscope.instrument_passes.manifest import Manifest
    from profscope.profiles import Profile

    captured = []
    for name in _SMALL:
        with np.load(_DATA / f"{name}-light-0.npz") as arrays:
            manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
            captured.append((manifest, len(read_buffer(arrays["buffer"], manifest).ctas), arrays["buffer"]))
    raw = []
    for index in range(_SMALL_LAUNCHES):
        manifest, ctas, buffer = captured[index % len(captured)]
        raw.append(RawLaunch(index, manifest, 0, 0, ctas, buffer.copy()))
    clock = {"read_cycles": 18.0, "row_cycles": 30.0, "basis": "measured"}
    return lambda: len(Profile.of(assemble(raw, {"backend": "gpu", "clock": clock})).df)


def _recorded(folder: Path, spans_m: float) -> Callable[[], object]:
    """A matmul that the GPU records at the default level: about a million spans a launch."""
    import profscope
    from bench.kernels import matmul

    workload = matmul(4096, (128, 128, 64), 4)
    inputs = workload.inputs("cuda")
    with profscope.session() as prof:
        for _ in range(max(1, round(spans_m))):
            workload.launch(inputs)
    return lambda: len(prof.df)


def _of_profile(ask: Callable[[Any, Path], object]) -> Prepared:
    def prepare(folder: Path, spans_m: float) -> Callable[[], object]:
        import profscope

        profile = profscope.load(folder / "t.parquet")
        return lambda: ask(profile, folder)

    return prepare


def _load(name: str, **part: int) -> Prepared:
    def prepare(folder: Path, spans_m: float) -> Callable[[], object]:
        import profscope

        return lambda: len(profscope.load(folder / name, **part).df)

    return prepare


def _by_scope(name: str) -> Prepared:
    def prepare(folder: Path, spans_m: float) -> Callable[[], object]:
        import duckdb

        duckdb.sql("set memory_limit = '1GB'")
        duckdb.sql("set enable_progress_bar = false")
        return lambda: len(duckdb.sql(_BY_SCOPE.format(f"'{folder}/{name}'")).fetchall())

    return prepare


def _diff(profile: Any, folder: Path) -> object:
    import profscope

    return len(profscope.diff(profile, profile))


STEPS: Final[Mapping[str, str | Prepared]] = {
    "small launches to df": _small_launches,
    _ON_GPU: _recorded,
    "save .pftrace.gz": _of_profile(lambda profile, folder: profile.save(folder / "u.pftrace.gz")),
    "save .parquet": _of_profile(lambda profile, folder: profile.save(folder / "u.parquet")),
    "load .pftrace.gz": _load("t.pftrace.gz"),
    "load .parquet": _load("t.parquet"),
    "load one CTA": _load("t.parquet", launch=7, cta=0),
    "DuckDB, time by scope": _by_scope("t.parquet"),
    "view .pftrace.gz": "t.pftrace.gz",
    "view .parquet": "t.parquet",
    "view one kernel": "t.parquet --kernels ^kernel_7$",
    "view one launch": "t.parquet --launch 7",
    "view one launch of .pftrace.gz": "t.pftrace.gz --launch 7",
    "view one CTA": "t.parquet --launch 7 --cta 0",
    "report.html": _of_profile(lambda profile, folder: profile.save(folder / "report.html")),
    "findings": _of_profile(lambda profile, folder: len(profile.findings())),
    "diff with itself": _of_profile(_diff),
    "many: DuckDB, time by scope": _by_scope("many.parquet"),
    "many: one launch": _load("many.parquet", launch=1),
    "many: one CTA": _load("many.parquet", launch=1, cta=0),
}
"""Words behind `profscope view`, or what is timed in a process of its own."""


def _measured(name: str, folder: Path, spans_m: float) -> dict[str, Any]:
    step = STEPS[name]
    if isinstance(step, str):
        words = ["profscope", "view", *step.split()]
    else:
        words = ["bench.reading", "--of", str(folder), "--do", name, "--spans", str(spans_m)]
    environment = compiled_environment(folder)
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=printed, cwd=folder, env=environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    found = {"s": took_s, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1e3}
    if process.returncode:
        return found | {"answer": f"ends with {process.returncode}"}
    return found | {"answer": ""} | ({} if isinstance(step, str) else json.loads(text.splitlines()[-1]))


def compiled_environment(folder: Path) -> dict[str, str]:
    """With modules that were compiled before, as installed ones are."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_DATA.parents[1]), os.environ.get("PYTHONPATH")])),
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }


def _here(name: str, folder: Path, spans_m: float) -> dict[str, Any]:
    """What a step takes in this process."""
    prepare = STEPS[name]
    assert not isinstance(prepare, str)
    step = prepare(folder, spans_m)
    begin, cpu = time.perf_counter(), time.process_time()
    answer = step()
    found = {"s": time.perf_counter() - begin, "cpu_s": time.process_time() - cpu}
    return found | {"answer": f"{answer:,}" if isinstance(answer, int) else ""}


if __name__ == "__main__":
    sys.exit(main())
