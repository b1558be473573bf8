"""Each question to one profile of many spans, in turn; see `bench.first_answer`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.phases import Clock, Profiled

__all__ = ["BOUNDS_S", "asked"]

BOUNDS_S: Final = {
    "findings": 4.0, "verdict": 1.6, "breakdown": 1.4, "lines": 2.15, "report": 2.3, "save": 7.5
}  # fmt: skip
_SMS: Final = 132
_RECORDING: Final = Path(__file__).parent / "corpus" / "recordings" / "good-matmul-bfloat16.pftrace.gz"


def asked(spans_m: float, profiled: Profiled) -> Mapping[str, list[float]]:
    """Each question to one profile, in turn."""
    import torch

    clock = Clock()
    if torch.cuda.is_available():
        session = _recorded(spans_m)
        with clock("decoding"), profiled():
            profile = session.profile
    else:
        profile = _repeated(spans_m)
    print(profile)
    questions = {name: getattr(profile, name) for name in ("findings", "breakdown", "lines", "report")}
    with tempfile.TemporaryDirectory() as folder:
        questions["verdict"] = lambda: profile.verdict
        questions["save"] = lambda: profile.save(Path(folder) / "t.pftrace.gz")
        for name in BOUNDS_S:
            with clock(name), profiled():
                questions[name]()
    return clock.took


def _recorded(spans_m: float) -> Any:
    """Launches of about a million spans each, with evidence."""
    import profscope
    from bench.kernels import matmul

    workload = matmul(4096, (128, 128, 64), 4)
    inputs = workload.inputs("cuda")
    with profscope.session(evidence=True) as prof:
        for _ in range(max(1, round(spans_m)) + 6):  # as many are observed, unrecorded
            workload.launch(inputs)
    return prof


def _repeated(spans_m: float) -> Any:
    """The spans of a recording's first CTA in every CTA of many launches."""
    import numpy as np
    import pandas as pd

    import profscope
    from profscope.profiles import Profile

    tables = profscope.load(_RECORDING).tables
    once = tables.df[tables.df["cta"] == 0]
    ctas = int(tables.launches["grid_x"].iloc[0])
    launches = max(1, round(spans_m * 1e6 / (len(once) * ctas)))
    launch, cta = np.divmod(np.repeat(np.arange(launches * ctas), len(once)), ctas)
    round_ = launch * -(-ctas // _SMS) + cta // _SMS  # of CTAs, one on each SM, one round after the other
    df = pd.concat([once] * (launches * ctas), ignore_index=True)
    parent = (df["parent"] + len(once) * (launch * ctas + cta)).where(df["parent"] >= 0, -1)
    df = df.assign(launch=launch, cta=cta, sm=cta % _SMS, parent=parent)
    for start, took in (("start_cycle", "duration_cycles"), ("start_ns", "duration_ns")):
        df[start] += round_ * int(once[took].max())
    rows = pd.concat([tables.launches] * launches, ignore_index=True)
    rows = rows.assign(launch=range(launches), ctas=ctas)
    apart = round_[:: len(once) * ctas] * int(once["duration_ns"].max())
    rows = rows.assign(start_ns=rows["start_ns"] + apart, end_ns=rows["end_ns"] + apart)
    kept = replace(tables, df=df.astype(tables.df.dtypes), launches=rows.astype(tables.launches.dtypes))
    return Profile.of(kept)
