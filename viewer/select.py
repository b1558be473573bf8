"""Choose the CTA whose timeline is drawn."""

from dataclasses import dataclass

import pandas as pd

from profscope.errors import TraceError

__all__ = ["Choice", "choose_cta"]


@dataclass(frozen=True)
class Choice:
    """One CTA of one launch: which it is, and its rank by duration among `candidates` CTAs of that kernel."""

    kernel: str
    launch: int
    cta: int
    rank: int
    candidates: int


def choose_cta(
    df: pd.DataFrame, launch: int | None, cta: int | None, sm: int | None, warp: int | None
) -> Choice:
    """The CTA of median duration among those asked for, of the kernel with the most warp time.

    Raises TraceError when no CTA fits, naming what there is.
    """
    roots = df[(df["depth"] == 0) & (df["kind"] != "async")]
    for name, wanted in (("launch", launch), ("cta", cta), ("sm", sm), ("warp", warp)):
        if wanted is not None:
            fitting = roots[roots[name] == wanted]
            if fitting.empty:
                raise TraceError(f"no spans for {name} {wanted}; there are: {_ranges(roots[name])}")
            roots = fitting
    kernel = roots.groupby("kernel", observed=True)["duration_ns"].sum().idxmax()
    roots = roots[roots["kernel"] == kernel]
    end = roots["start_ns"] + roots["duration_ns"]
    ctas = roots.assign(end=end).groupby(["launch", "cta"]).agg(start=("start_ns", "min"), end=("end", "max"))
    duration = (ctas["end"] - ctas["start"]).sort_values(kind="stable")
    rank = (len(duration) - 1) // 2
    chosen = duration.index[rank]
    return Choice(str(kernel), int(chosen[0]), int(chosen[1]), rank, len(duration))


def _ranges(values: "pd.Series[int]", most: int = 8) -> str:
    """Distinct numbers as ranges: "0-3, 7"."""
    numbers = sorted(set(values.tolist()))
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")
