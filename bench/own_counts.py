"""The kernels' own counts against CUPTI's, and what a counting launch costs.

    python -m bench.own_counts [CASE...]     needs an NVIDIA GPU whose counters may be read

For each kernel of `evidence_kernels.CASES` two sessions: one with CUPTI's counts, one with the kernel's own.
Of the rows of each line and opcode: the sums by class, and how many rows differ by more than 2 %.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import pandas as pd
import torch

import profscope
from bench.evidence_kernels import CASES
from bench.kernels import give_scratch
from profscope.analysis.evidence_table import evidence_table
from profscope.dispatch import own_counts

__all__ = ["main"]

_AMOUNTS: Final = ("executed", "threads", "sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal")
_LAUNCHES: Final = 12
_APART: Final = 0.02
_ROUNDS: Final = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rows", type=int, default=3, help="of those that differ, shown for a kernel")
    options = parser.parse_args()
    give_scratch("cuda")
    print(f"{torch.cuda.get_device_name()}; own / CUPTI, sums of all rows")
    print(
        f"{'':24}{'bare us':>9}{'counting':>9}{'added s':>8}", *(f"{each:>16}" for each in _AMOUNTS), " rows"
    )
    for name in options.cases or CASES:
        try:
            with torch.device("cuda"):
                launch = CASES[name](False)
            _compare(name, launch, options.rows)
        except Exception:  # noqa: BLE001  one kernel must not cost the others
            print(f"{name:24} failed: {traceback.format_exc(limit=-3)[-900:]}", flush=True)
        torch.cuda.empty_cache()


def _compare(name: str, launch: Callable[[], Any], most: int) -> None:
    for _ in range(2):
        launch()
    (theirs, _), (own, prof) = (_rows(launch, kind) for kind in ("counts", "records"))
    about = prof.metadata["evidence"]
    if not len(own) or not len(theirs):
        print(f"{name:24} own {len(own)} rows, CUPTI {len(theirs)}: {about['not_measured']}", flush=True)
        return
    both = own.join(theirs, how="outer", lsuffix="_own", rsuffix="_cupti").fillna(0)
    cells = []
    for amount in _AMOUNTS:
        mine, other = both[f"{amount}_own"].sum(), both[f"{amount}_cupti"].sum()
        cells.append(f"{mine / other:7.3f} {other:8.2g}" if other else f"{mine:16.3g}")
    apart = pd.concat(
        [(both[f"{a}_own"] - both[f"{a}_cupti"]).abs() / both[f"{a}_cupti"].clip(lower=1) for a in _AMOUNTS],
        axis=1,
    ).max(axis=1)
    times = _times_us(launch)
    differ = both[apart > _APART]
    print(
        f"{name:24}{times[0]:9.1f}{times[1]:9.1f}{about['added_s']:8.2f}", *cells,
        f" {len(both) - len(differ)} of {len(both)}", flush=True,
    )  # fmt: skip
    for at, row in differ.sort_values("executed_cupti", ascending=False).head(most).iterrows():
        print("   ", at, {k: int(v) for k, v in row.items() if v}, flush=True)


def _rows(launch: Callable[[], Any], kind: str) -> tuple[pd.DataFrame, Any]:
    """The table of one configuration by file, line and opcode."""
    with profscope.session(instrument="light", evidence=[kind], ctas=64) as prof:
        for _ in range(_LAUNCHES):
            launch()
        torch.cuda.synchronize()
    counts = prof.counts
    if not len(counts):
        return pd.DataFrame(), prof
    kernel, variant = counts.groupby(["kernel", "variant"], observed=True)["executed"].sum().idxmax()
    counts = counts[(counts["kernel"] == kernel) & (counts["variant"] == variant)]
    rows = evidence_table(counts, prof.samples.iloc[:0]).rows
    return rows.groupby(["line", "op"])[list(_AMOUNTS)].sum(), prof


def _times_us(launch: Callable[[], Any]) -> tuple[float, float]:
    """Medians of a bare launch, and of one that counts."""
    counting: list[float] = []
    plain = own_counts.load

    def timed(kernel: Any) -> Callable[..., None]:
        launcher = plain(kernel)

        def run(*args: Any) -> None:
            torch.cuda.synchronize()
            counting.append(_us(lambda: launcher(*args)))

        return run

    bare = [_us(launch) for _ in range(_ROUNDS)]
    own_counts.load = timed  # type: ignore[assignment]
    try:
        for _ in range(3):
            _rows(launch, "records")
    finally:
        own_counts.load = plain
    return median(bare), median(counting) if counting else float("nan")


def _us(launch: Callable[[], Any]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    launch()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end)


if __name__ == "__main__":
    main()
