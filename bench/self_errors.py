"""Whether self_error_pct covers what recording only some CTAs changes: self times at ctas=64 and at ctas=1.

    python -m bench.self_errors [--rows REGEX] [--tiny]

Each kernel runs in two sessions that record all CTAs and in one that records one in 64. A row of the
summary is beyond its error if its self time a launch differs by more than 3 standard errors and 0.3 %. `runs`
compares the two sessions that record all CTAs: what runs differ by. Needs a GPU; with --tiny it runs without
one, on the emulator, to show that it runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
import torch

import profscope
from bench.on_gpu import arguments
from profscope.profiles import Profile
from tests.kernels.cases import Case, cases

__all__ = ["main"]

KERNELS: Final = (
    "add", "softmax", "layer_norm", "matmul", "matmul_tma", "matmul_ws", "attention", "while", "nested_loops",
    "branch_in_loop", "noinline", "call_paths",
)  # fmt: skip
_LAUNCHES: Final = {1: 4, 64: 64}
_ERRORS, _LEAST_PCT = 3.0, 0.3


def recorded(case: Case, device: str, ctas: int) -> Profile:
    inputs = case.inputs(device)
    if device == "cuda":
        case.launch(inputs)
    with profscope.session(ctas=ctas, memory=1024) as prof:
        for _ in range(_LAUNCHES[ctas] if device == "cuda" else 1):
            case.launch(inputs)
    return prof.profile


def self_times(profile: Profile) -> pd.DataFrame:
    """A row for each scope: self time a launch in cycles, its standard error, and its share of the kernel."""
    rows = profile.summary().groupby(["kernel", "scope", "kind", "line"], dropna=False, observed=True).first()
    cycles = rows["self_cycles"] / rows["launches"]
    return pd.DataFrame({"cycles": cycles, "error_pct": rows["self_error_pct"], "share": rows["share"]})


def compared(every: Profile, other: Profile) -> pd.DataFrame:
    """By scope of both: difference_pct of `every`, three standard errors, and whether it is beyond them."""
    both = self_times(every).add_suffix("_every").join(self_times(other), how="inner")
    both = both[both["cycles_every"] > 0]
    difference = 100 * (both["cycles"] / both["cycles_every"] - 1).abs()
    errors = _ERRORS * np.hypot(both["error_pct"].fillna(0), both["error_pct_every"].fillna(0))
    return pd.DataFrame(
        {"difference_pct": difference, "errors_pct": errors, "share": both["share"]}
    ).assign(beyond=difference > errors + _LEAST_PCT)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments("bench.self_errors", __doc__, argv)
    if options is None:
        return 1
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = beyond = by_chance = 0
    print(f"{'kernel':18}{'rows':>6}{'beyond':>8}{'runs':>6}  most beyond: difference, 3 errors, share, row")
    for case in cases("small" if options.tiny else "real"):
        if case.name not in KERNELS or not re.search(options.rows, case.name):
            continue
        every, again, some = (recorded(case, device, ctas) for ctas in (1, 1, 64))
        table, runs = compared(every, some), compared(every, again)
        over = (table["difference_pct"] - table["errors_pct"]).sort_values(ascending=False)
        worst = table.loc[over.index[0]]
        print(
            f"{case.name:18}{len(table):6}{int(table['beyond'].sum()):8}{int(runs['beyond'].sum()):6}  "
            f"{worst['difference_pct']:.1f} %, {worst['errors_pct']:.1f} %, {worst['share']:.1%}, "
            f"{'/'.join(map(str, over.index[0][1:]))}",
            flush=True,
        )
        rows, beyond = rows + len(table), beyond + int(table["beyond"].sum())
        by_chance += int(runs["beyond"].sum())
    print(f"{'all':18}{rows:6}{beyond:8}{by_chance:6}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
