"""Why an autotuner chose what it chose: every configuration timed bare, recorded once, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pandas as pd

from profscope.analysis.analysed_kernels import kernel_analyses
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.errors import OptionError
from profscope.installed import require
from profscope.options import Options
from profscope.profiles import Profile
from profscope.sessions import Session
from profscope.tuning.reasons import why

__all__ = ["explain"]

# Findings that say warps wait; what waiting costs is told as one figure.
_WAITING: Final = ("exposed-load", "few-stages", "late-warp", "atomics", "starving-partition")
_COLUMNS: Final = {
    "configuration": "str",
    "best": "bool",
    "time_us": "float64",
    "low_us": "float64",
    "high_us": "float64",
    "registers": "Int64",
    "spills": "Int64",
    "shared_bytes": "Int64",
    "ctas_per_sm": "Int64",
    "exposed_pct": "float64",
    "tail_pct": "float64",
    "finding": "str",
    "line": "Int64",
    "gain_pct": "float64",
    "failed": "str",
}


def explain(
    kernel: Any, *args: Any, grid: Any, options: Mapping[str, Any] | None = None, **kwargs: Any
) -> pd.DataFrame:
    """The configurations of an autotuned kernel, the quickest first, and why it is.

        table = profscope.explain(matmul_kernel, a, b, c, M, N, K, grid=grid)
        print(table.attrs["why"])

    args, kwargs, grid: as at a launch, `kernel[grid](*args, **kwargs)`. options: those of `session()`. Every
    configuration that the autotuner would try is timed bare, by the autotuner's own benchmark, and then
    launched once in a session. Tensors of `reset_to_zero` and `restore_value` are copied: the copies are
    written.

    configuration: what it chooses; best: the quickest. time_us: median of the bare times; low_us, high_us:
    their 20th and 80th percentiles. On the emulator these are the recorded launch's, in emulated time;
    attrs["basis"] says which. registers, spills, shared_bytes, ctas_per_sm: of the bare binary, missing where
    nobody says.
    exposed_pct: the largest gain of the findings that say warps wait, 0 where there is none. tail_pct: what
    the finding `tail` is about, of a launch, however little: the slots for CTAs that stand empty behind the
    begin of the last CTA; missing where only some CTAs were recorded. finding, line, gain_pct: the top
    finding. failed: why a configuration cannot be built, else "". attrs["why"]: one line.

    Raises OptionError for a kernel without autotuner and for bad options, SessionError inside a session.
    """
    require("triton", "profscope.explain()")
    from profscope.device.backend import uses_gpu
    from profscope.tuning.configurations import configurations
    from profscope.tuning.failures import why_not_built

    chosen = dict(options or {})
    Options.check_names((), chosen)
    session_options = Options(**chosen)
    on_gpu = uses_gpu(session_options.backend)
    rows = []
    with configurations(kernel, grid, args, kwargs) as tried:
        for each in tried:
            try:
                times = tuple(1e3 * ms for ms in each.bench()) if on_gpu else None
                profile = _recorded(each.launch, session_options)
            except Exception as error:
                failed = why_not_built(error)
                if not failed:
                    raise
                rows.append({"configuration": each.name, "failed": failed})
                continue
            rows.append({"configuration": each.name, **_row(profile, times or _emulated_us(profile))})
    table = _table(rows)
    emulated = "emulated time of the recorded launch"
    table.attrs["basis"] = "bare launches, benchmarked" if on_gpu else emulated
    table.attrs["why"] = why(table)
    return table


def _recorded(launch: Any, options: Options) -> Profile:
    with Session(options) as session:
        launch()
    if not len(session.profile.launches):
        raise OptionError(f"explain: nothing was launched: {'; '.join(session.profile.metadata['notes'])}")
    return session.profile


def _emulated_us(profile: Profile) -> tuple[float, ...]:
    took = (profile.launches["end_ns"] - profile.launches["start_ns"]).sum() / 1e3
    return (took, took, took)


def _row(profile: Profile, times: tuple[float, ...]) -> dict[str, Any]:
    low, median, high = times
    costs, findings = profile.overhead(), profile.findings()
    row: dict[str, Any] = {"time_us": median, "low_us": low, "high_us": high, "failed": ""}
    if len(costs):
        cost = costs.iloc[0]
        for name in ("registers", "spills", "shared_bytes", "ctas_per_sm"):
            bare = cost[f"bare_{name}"]
            row[name] = cost[name] if pd.isna(bare) else bare
    waiting = findings["gain_pct"][findings["finding"].isin(_WAITING)]
    row["exposed_pct"] = float(waiting.max()) if len(waiting) else 0.0
    shapes = [each.shape for each in kernel_analyses(profile.tables) if isinstance(each, KernelAnalysis)]
    row["tail_pct"] = shapes[0].tail_pct if shapes and shapes[0] is not None else None
    if len(findings):
        top = findings.iloc[0]
        row |= {"finding": str(top["finding"]), "line": int(top["line"]), "gain_pct": float(top["gain_pct"])}
    return row


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    table = table.sort_values("time_us", kind="stable", na_position="last", ignore_index=True)
    table["best"] = [at == 0 and not pd.isna(time) for at, time in enumerate(table["time_us"])]
    for name in ("finding", "failed"):
        table[name] = table[name].astype("object").fillna("")  # of none that was built all are missing
    return table.astype(_COLUMNS)
