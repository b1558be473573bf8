"""One line that says why the quickest configuration is the quickest."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from profscope.analysis.paired import LAYOUT_NOISE

__all__ = ["why"]

_POINTS: Final = 5.0  # percent points; differences below these are no reason


def why(table: pd.DataFrame) -> str:
    """What tells the quickest configuration from the next one. table: as `explain` makes it."""
    built = [row for row in table.to_dict("records") if not row["failed"]]
    if not built:
        return "no configuration can be built here"
    best = built[0]
    if len(built) == 1:
        return (
            f"{best['configuration']} is the only configuration that can be built: {best['time_us']:.4g} us"
        )
    second = built[1]
    slower = 100 * (second["time_us"] / best["time_us"] - 1)
    begin = f"{best['configuration']}: {best['time_us']:.4g} us, {second['configuration']} takes"
    begin = f"{begin} {slower:.1f} % longer"
    if best["high_us"] > second["low_us"] and best["low_us"] != best["high_us"]:
        return f"{begin}, no more than their times vary: there is no clear winner"
    if slower < 100 * LAYOUT_NOISE:
        return f"{begin}, less than where the code lies can change ({LAYOUT_NOISE:.0%}): too close to explain"
    reasons = _reasons(best, second)
    return f"{begin}: {'; '.join(reasons)}" if reasons else f"{begin}; what was recorded does not say why"


def _reasons(best: dict[Any, Any], second: dict[Any, Any]) -> list[str]:
    """The figures in which the quicker one is better, or differs where that is all there is."""
    reasons = []
    for name, says in (
        ("exposed_pct", "waits are {best:.0f} % of its time against {second:.0f} %"),
        ("tail_pct", "its tail leaves {best:.0f} % of the launch empty against {second:.0f} %"),
    ):
        if _more(second[name], best[name], _POINTS):
            reasons.append(says.format(best=best[name], second=second[name]))
    if _more(second["spills"], best["spills"]):
        reasons.append(f"it spills {_count(best['spills'])} registers against {_count(second['spills'])}")
    if _more(best["ctas_per_sm"], second["ctas_per_sm"]):
        reasons.append(f"{best['ctas_per_sm']} CTAs fit on an SM against {second['ctas_per_sm']}")
    if second["finding"] and second["finding"] != best["finding"]:
        gain = f"{second['gain_pct']:.0f} % to gain"
        reasons.append(f"the other one has {second['finding']} at line {second['line']}, {gain}")
    return reasons


def _more(one: Any, other: Any, than: float = 0.0) -> bool:
    """Whether both are known, and one is more than the other, by more than so much."""
    return not (pd.isna(one) or pd.isna(other)) and bool(one - other > than)


def _count(value: Any) -> str:
    return "no" if value == 0 else str(value)
