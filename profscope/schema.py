"""The columns of a profile's tables: their names, order and dtypes, each declared once.

`df` has one row per span, ordered by launch, cta, warp, then pre-order in time; behind these columns it has
one for each name of a payload, missing if a span carries none; ops of pipelined loops carry `stage` and
`for_iteration` (see `instrument_passes.analyses.loop_stages`). `launches` has one row per launch. Cycles are
SM clock64 values, nanoseconds are absolute globaltimer values (or Unix time for imported traces). `file` and
`line` are the innermost line outside of Triton's own package, "" and 0 if unknown; `call_path` has the
functions and lines that lead to it, outermost first, "" without a call. `parent` is the row of the span
around this one, that of an async span the row of the span that started it; -1 at a root. `wait` is the row of
the span whose return ended an async span, -1 if none is known.

`ctas` has one row per CTA, ordered by launch and cta: when it began and ended, by its SM's clock and in ns,
from its first warp's begin to its last warp's end, or, where it has no spans, from its first warp's begin to
that warp's end. `recorded` says whether it has spans. Unfinished CTAs have no row.

`samples` has the PC samples of warps and their stall reasons. They are of launches of the `binary` "bare";
these have no row in the table of launches, so `launch` is -1. `samples` warps were at the instruction `pc`,
bytes from the function's start, for the reason `stall`, caused by the instruction `blamed_pc`; if a stall has
several causes, whole samples are divided among them. `file`, `line`, `call_path` and `class` are those of
`pc`, `blamed_file`, `blamed_line` and `blamed_class` those of `blamed_pc`; the class of an instruction
(docs/source-view.md) is "" if unknown.

`counts` has one row per instruction of a configuration's bare binary, and how often it ran, summed over
`launches`: `executed` counts warps, `threads` those of their threads that are not predicated off, `sectors`
32-byte sectors of global memory and `wavefronts` those of shared memory, each with the fewest that the same
bytes could take (`_ideal`), `local_sectors` sectors of local memory, and `divergent` branches whose threads
part. `counters` has one row per hardware counter of a configuration: `value` in `unit`, NVIDIA's name in
`metric`, and in `peak_pct` its percentage of the GPU's peak, null without a peak; `launches` is the number of
launches for all counters.

`experiments` has one row per part of a kernel that was left out or changed, in the order in which that was
tried (docs/experiments.md). `file` and `line` are those of the `op`, "" and 0 of a group of ops; `experiment`
is "off", "contiguous" or "resident", and `saved_pct` its saving of the bare time, with its 95 % interval from
`low_pct` to `high_pct`. A launch with it takes `time_us` on a GPU, and `time_kcycles`, thousands of cycles of
the cost model, on the emulator: the other one is missing, and all are missing if it was not timed. `valid`:
nothing else changed; `why_not`: why it is not valid or was not made, else "".

`sums` has one row per launch and site if the spans of a job do not fit into memory: then `df` has those of
one rank. Its figures are as in a summary, but never scaled up to a grid; `outermost` counts the spans of
whole warps, `root_*` is their time, and `self_squares` adds up the squares of the CTAs' self times, in the
profile's unit, 0 if all CTAs recorded. `host` has one row per scope of the host's code (`profscope.scope`,
NVTX ranges, torch.profiler's `record_function`: `source`), in order of beginning; `parent` is the row of the
scope around it on its thread, -1 at a root. Behind these columns it has one for each metric, float64, NaN if
a scope has none. `events` has one row per event of the host's and the GPUs' that Kineto saw: `kind` is
"kernel", "collective", "copy" or "set" on a GPU, and "op", "call" (of CUDA's) or "annotation" on the host.
`parent` is the event around it on its thread, or the call that launched it, -1 if none is known; `host` is
the row of the scope it was in, or was launched in, -1 for none; `launch` that of the table of launches, -1
for none; `bytes` the copied bytes, -1 if unknown; `call_path` the scopes and events around it, outermost
first. On the host `device` and `stream` are -1, on a GPU `thread` is. Times of these two tables, and of no
other, are of the host's clock (`time.time_ns()`). `host` of a launch is the row of the scope it was launched
in, -1 for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd  # imported where tables are made: a session opens in half the time without

__all__ = [
    "ANSWERS",
    "CALL_ARROW",
    "CORRECTED_DTYPES",
    "COUNTER_DTYPES",
    "COUNT_DTYPES",
    "CTA_DTYPES",
    "EVENT_DTYPES",
    "EVENT_KINDS",
    "EXPERIMENT_DTYPES",
    "GPU_KINDS",
    "HOST_DTYPES",
    "KINDS",
    "LAUNCH_DEFAULTS",
    "LAUNCH_DTYPES",
    "MEASURED_DTYPES",
    "MODEL_DTYPES",
    "PAYLOAD_DTYPES",
    "SAMPLE_DTYPES",
    "SPAN_DTYPES",
    "SUM_DTYPES",
    "Tables",
    "ctas_frame",
    "empty_frame",
    "events_frame",
    "host_frame",
    "launches_frame",
    "measured_frame",
    "payload_names",
    "samples_frame",
    "spans_frame",
    "sums_frame",
]

KINDS = ("kernel", "loop", "iteration", "op", "scope", "async", "mark", "gap")
"""What a span can be. "async" may overlap its siblings and outlast its parent; "mark" has no duration; "gap"
is time of a warp that no record covers, since a ring overwrote the records."""

SPAN_DTYPES = {
    "kernel": "category",
    "launch": "int32",
    "cta": "int32",
    "sm": "int32",
    "warp": "int32",
    "scope": "category",
    "kind": "category",
    "file": "category",
    "line": "int32",
    "call_path": "category",
    "iteration": "int32",
    "depth": "int32",
    "parent": "int64",
    "wait": "int64",
    "start_cycle": "int64",
    "duration_cycles": "int64",
    "start_ns": "int64",
    "duration_ns": "int64",
}

CORRECTED_DTYPES = {"corrected_cycles": "Int64", "corrected_ns": "Int64"}
"""Behind all others: see `profscope/analysis/spans/corrections.py`."""

MODEL_DTYPES = {"module": "category", "model_file": "category", "model_line": "int32"}
"""Of kernels that torch.compile made: see `profscope/analysis/variants.py`."""

_BESIDE = {**CORRECTED_DTYPES, **MODEL_DTYPES}  # of a profile's spans, and in no file

PAYLOAD_DTYPES = ("Int32", "float64", "category")
"""Dtypes of payload columns, missing values allowed: i32 alone, all other numbers, and `stage`."""

LAUNCH_DTYPES = {
    "launch": "int32",
    "kernel": "str",
    "variant": "int32",
    "grid_x": "int32",
    "grid_y": "int32",
    "grid_z": "int32",
    "num_ctas": "int32",
    "num_warps": "int32",
    "ctas": "int32",
    "device": "int32",
    "stream": "int64",
    "backend": "str",
    "records": "int64",
    "dropped": "int64",
    "profile_bytes": "int64",
    "start_ns": "int64",
    "end_ns": "int64",
    "clock_ghz": "float64",
    "ns_uncertainty": "float64",
    "graph": "int32",
    "replay": "int32",
    "cold": "bool",
    "unfinished": "int32",
    "rank": "int32",
    "host": "int64",
}

LAUNCH_DEFAULTS = {
    "variant": 0,
    "graph": -1,
    "replay": -1,
    "cold": False,
    "unfinished": 0,
    "rank": -1,
    "host": -1,
}
"""Columns of a launch that a table may leave out, and what holds then: one configuration, no
CTA that was to record and did not come to its end, no job of ranks, and no scopes of the host's."""

CTA_DTYPES = {
    "kernel": "category",
    "variant": "int32",
    "launch": "int32",
    "cta": "int32",
    "sm": "int32",
    "start_ns": "int64",
    "end_ns": "int64",
    "start_cycle": "int64",
    "duration_cycles": "int64",
    "recorded": "bool",
}

SAMPLE_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "launch": "int64",
    "binary": "str",
    "pc": "int64",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "class": "str",
    "stall": "str",
    "samples": "int64",
    "blamed_pc": "int64",
    "blamed_file": "str",
    "blamed_line": "int32",
    "blamed_class": "str",
}

COUNT_DTYPES = {
    "kernel": "category",
    "variant": "int32",
    "pc": "int64",
    "opcode": "category",
    "file": "category",
    "line": "int32",
    "column": "int32",
    "call_path": "category",
    "executed": "int64",
    "threads": "int64",
    "sectors": "int64",
    "sectors_ideal": "int64",
    "wavefronts": "int64",
    "wavefronts_ideal": "int64",
    "local_sectors": "int64",
    "divergent": "int64",
    "launches": "int32",
}

COUNTER_DTYPES = {
    "kernel": "category",
    "variant": "int32",
    "counter": "category",
    "metric": "category",
    "value": "float64",
    "unit": "category",
    "peak_pct": "float64",
    "launches": "int32",
}

EXPERIMENT_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "file": "str",
    "line": "int32",
    "op": "str",
    "experiment": "str",
    "saved_pct": "float64",
    "low_pct": "float64",
    "high_pct": "float64",
    "time_us": "float64",
    "time_kcycles": "float64",
    "valid": "bool",
    "why_not": "str",
}

MEASURED_DTYPES = {
    "samples": SAMPLE_DTYPES,
    "counts": COUNT_DTYPES,
    "counters": COUNTER_DTYPES,
    "experiments": EXPERIMENT_DTYPES,
}
"""By name, the tables of what was measured of bare launches."""

SUM_DTYPES = {
    "kernel": "category",
    "launch": "int32",
    "scope": "category",
    "kind": "category",
    "file": "category",
    "line": "int32",
    "call_path": "category",
    "count": "int64",
    "outermost": "int64",
    "total_ns": "int64",
    "total_cycles": "int64",
    "self_ns": "int64",
    "self_cycles": "int64",
    "root_ns": "int64",
    "root_cycles": "int64",
    "max_ns": "int64",
    "max_cycles": "int64",
    "self_squares": "float64",
}

HOST_DTYPES = {
    "scope": "str",
    "source": "str",
    "thread": "int64",
    "start_unix_ns": "int64",
    "end_unix_ns": "int64",
    "depth": "int32",
    "parent": "int64",
    "rank": "int32",
}

EVENT_KINDS = ("kernel", "collective", "copy", "set", "op", "call", "annotation")
"""What an event can be; the first four run on a GPU."""

GPU_KINDS = EVENT_KINDS[:4]

CALL_ARROW = " > "
"""Between the parts of an event's call path."""

EVENT_DTYPES = {
    "name": "category",
    "kind": "category",
    "device": "int32",
    "stream": "int64",
    "thread": "int64",
    "start_unix_ns": "int64",
    "end_unix_ns": "int64",
    "parent": "int64",
    "host": "int64",
    "launch": "int64",
    "bytes": "int64",
    "call_path": "category",
    "rank": "int32",
    "group": "category",
}


def payload_names(df: pd.DataFrame) -> list[str]:
    """The columns of a span table that are payloads: neither of all spans nor derived from them."""
    return [name for name in df.columns if name not in SPAN_DTYPES and name not in _BESIDE]


def spans_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A span table in the schema's column order and dtypes; empty when given nothing.

    A table without `wait` gets one of -1, one without `call_path` one of "". Raises KeyError for any other
    missing column.
    """
    if columns is None:
        return empty_frame(SPAN_DTYPES)
    import pandas as pd

    rows = len(columns["parent"])
    if "wait" not in columns:
        columns = {**columns, "wait": np.full(rows, -1)}
    if "call_path" not in columns:
        columns = {
            **columns,
            "call_path": pd.Categorical.from_codes(
                np.zeros(rows, np.int8), categories=pd.Index([""], dtype="str")
            ),
        }
    # Without copy=False pandas stacks columns of one dtype, which takes longer than all the rest of a load.
    return pd.DataFrame(
        {name: _series(columns[name], dtype) for name, dtype in SPAN_DTYPES.items()}, copy=False
    )


def launches_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A launch table in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column that has no default.
    """
    if columns is None:
        return _frame(None, LAUNCH_DTYPES)
    count = len(columns["launch"])
    columns = {name: [value] * count for name, value in LAUNCH_DEFAULTS.items()} | dict(columns)
    return _frame(columns, LAUNCH_DTYPES)


def ctas_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of CTAs in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column.
    """
    return _frame(columns, CTA_DTYPES)


def samples_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of samples in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column.
    """
    return _frame(columns, SAMPLE_DTYPES)


def measured_frame(name: str, columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of MEASURED_DTYPES in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column.
    """
    return _frame(columns, MEASURED_DTYPES[name])


def sums_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of sums in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column.
    """
    return _frame(columns, SUM_DTYPES)


def host_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of host scopes in the schema's column order and dtypes, then metrics; empty when given nothing.

    Raises KeyError for a missing column.
    """
    import pandas as pd

    table = _frame(columns, HOST_DTYPES)
    for name in columns.keys() - HOST_DTYPES.keys() if columns is not None else ():
        table[name] = pd.Series(columns[name], dtype="float64")  # type: ignore[index]
    return table[[*HOST_DTYPES, *sorted(str(name) for name in table if name not in HOST_DTYPES)]]


def events_frame(columns: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """A table of events in the schema's column order and dtypes; empty when given nothing.

    Raises KeyError for a missing column.
    """
    return _frame(columns, EVENT_DTYPES)


def _frame(columns: Mapping[str, Any] | None, dtypes: Mapping[str, str]) -> pd.DataFrame:
    if columns is None or not any(len(columns[name]) for name in dtypes):
        return empty_frame(dtypes)
    import pandas as pd

    return pd.DataFrame({name: _series(columns[name], dtype) for name, dtype in dtypes.items()})


def empty_frame(dtypes: Mapping[str, str]) -> pd.DataFrame:
    """A table of these columns without rows."""
    return _empty(tuple(dtypes.items())).copy()


@cache
def _empty(dtypes: tuple[tuple[str, str], ...]) -> pd.DataFrame:
    """Made once, to be copied: pandas takes its time for each column, and most profiles have some such
    tables."""
    import pandas as pd

    return pd.DataFrame({name: _nothing(dtype) for name, dtype in dtypes})


@cache
def _nothing(dtype: str) -> Any:
    """The array of a column without rows."""
    return _series((), dtype).array


def _series(values: Sequence[Any] | pd.Series, dtype: str) -> pd.Series:
    import pandas as pd

    if dtype == "category":
        # Through str first: an empty or all-text column must have text categories on every pandas.
        if isinstance(getattr(values, "dtype", None), pd.CategoricalDtype):
            return pd.Series(values, copy=False)
        return pd.Series(values, dtype="str").astype("category")
    return pd.Series(values, dtype=dtype, copy=False)


ANSWERS: Final = "_answers"
"""The attribute of tables with what `analysis.spans.asked_once` keeps of them."""


@dataclass(frozen=True, eq=False)
class Tables:
    """A profile as plain data: all that decoding and importing make, and all that analyses and files read.

    df: one row per span, the columns of SPAN_DTYPES, in order of launch, cta, warp and time.
    launches: one row per launch, the columns of LAUNCH_DTYPES.
    metadata: a JSON-able dict: tool, versions, device, options, notes to the user.
    samples: where launches under the sampler stood, and why, the columns of SAMPLE_DTYPES.
    host: one row per scope of the host's code, the columns of HOST_DTYPES and metrics.
    events: one row per event that Kineto saw on host and GPUs, the columns of EVENT_DTYPES.
    counts: how often each instruction ran, in bare launches or on the emulator, the columns of COUNT_DTYPES.
    counters: hardware counters of bare launches, the columns of COUNTER_DTYPES.
    experiments: costs of lines, measured by leaving them out, the columns of EXPERIMENT_DTYPES.
    ctas: when the CTAs of launches began and ended, and on which SM, the columns of CTA_DTYPES.
    sums: of the spans of each site in each launch, if df has one rank's only, the columns of SUM_DTYPES.
    """

    df: pd.DataFrame = field(default_factory=spans_frame)
    launches: pd.DataFrame = field(default_factory=launches_frame)
    metadata: dict[str, Any] = field(default_factory=dict)
    samples: pd.DataFrame = field(default_factory=samples_frame)
    host: pd.DataFrame = field(default_factory=host_frame)
    events: pd.DataFrame = field(default_factory=events_frame)
    counts: pd.DataFrame = field(default_factory=lambda: measured_frame("counts"))
    counters: pd.DataFrame = field(default_factory=lambda: measured_frame("counters"))
    experiments: pd.DataFrame = field(default_factory=lambda: measured_frame("experiments"))
    ctas: pd.DataFrame = field(default_factory=ctas_frame)
    sums: pd.DataFrame = field(default_factory=sums_frame)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, also a pickled one, is without answers."""
        return {name: value for name, value in vars(self).items() if name != ANSWERS}

    @property
    def emulated(self) -> bool:
        """Whether the cycles come from the emulator's cost model; then no figure here is GPU time."""
        return self.metadata.get("backend") == "emulator"

    @property
    def unit(self) -> str:
        """In which their times are shown where nothing else is asked for: the emulator's cycles are no ns."""
        return "cycles" if self.emulated else "ns"
