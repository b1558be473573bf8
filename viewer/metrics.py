"""The metrics of a tree's frames, by the names that proton-viewer's users know."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from profscope.analysis.span_rows import only_trials
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from viewer.kernels import make_kernels
from viewer.tree import Node, ScopeTree, make_trees

__all__ = ["NO_METRICS", "Frame", "available", "frames_of", "metric_names"]

TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
RATES = {
    **{f"{prefix}byte/s": ("bytes_at_most", scale) for prefix, scale in (("", 1.0), ("g", 1e9), ("t", 1e12))},
    **{f"{prefix}flop/s": ("flops", scale) for prefix, scale in (("", 1.0), ("g", 1e9), ("t", 1e12))},
}
MEASURED = ("time", "cycles", "count", "bytes_at_most", "flops")
"""What frames have; a `/%` behind the name is the share of all kernels together. An autotuner's trials stand
apart, and have none, unless there is nothing else."""

MOST_METRICS = 2

NO_METRICS = "no metrics: nothing was recorded of any kernel"


@dataclass
class Frame:
    """A kernel, or a scope in its place. path: the names that lead to it, its own last. values: by metric,
    what of MEASURED is known, and the rates."""

    name: str
    depth: int
    path: tuple[str, ...]
    values: dict[str, float] = field(default_factory=dict)


def available(profile: Profile) -> dict[str, str]:
    """What each metric is, of those that a frame of the trace has."""
    known = _conceivable(profile)
    frames = frames_of(profile, list(known))
    return {name: what for name, what in known.items() if any(name in frame.values for frame in frames)}


def _conceivable(profile: Profile) -> dict[str, str]:
    """What each metric is that the tables have a column of."""
    known: dict[str, str] = {}
    if not profile.emulated:
        known |= {f"time/{unit}": "warp time, of all warps together" for unit in TIMES}
        known |= {f"avg_time/{unit}": "time of one span: time / count" for unit in TIMES}
    if profile.emulated or profile.tables.df["duration_cycles"].any():
        known |= {"cycles": "warp time in cycles", "avg_cycles": "cycles / count"}
    known["count"] = "spans; of a kernel its warps"
    summary = profile.summary()
    for name in ("bytes_at_most", "flops"):
        if summary[name].notna().any():
            known[name] = (
                "operations of dots" if name == "flops" else "bytes that ops move, masked lanes included"
            )
            if not profile.emulated:
                known |= {
                    rate: f"{name} over the launches' time" for rate, (of, _) in RATES.items() if of == name
                }
    for name in MEASURED:
        if name in known or f"{name}/ns" in known:
            known[f"{name}/%"] = f"{name}, of all kernels together, an autotuner's trials left out"
    return known


def metric_names(profile: Profile, asked: str | None) -> list[str]:
    """What -m names. Raises OptionError for more than two, and for what the trace does not have,
    TraceError where it has none."""
    if asked is None:
        return ["cycles", "cycles/%"] if profile.emulated else ["time/ns", "time/%"]
    names = [name.strip().lower() for name in asked.split(",")]
    if len(names) > MOST_METRICS:
        raise OptionError(f"-m takes two metrics at most, not {len(names)}")
    known = available(profile)
    if not known:
        raise TraceError(NO_METRICS)
    for at, name in enumerate(names):
        names[at] = f"{name}/ns" if name in ("time", "avg_time") else name
        if names[at] in known:
            continue
        if profile.emulated and names[at].partition("/")[0] in ("time", "avg_time"):
            raise OptionError("an emulated trace has cycles of a cost model and no GPU time: -m cycles")
        raise OptionError(f"there is no metric {name!r} in this trace; there are: {', '.join(known)}")
    return names


def frames_of(profile: Profile, names: list[str]) -> list[Frame]:
    """The frames of all kernels in pre-order, each with these metrics, where it has them."""
    wants_time = any(name.partition("/")[0] in ("time", "avg_time") for name in names)
    unit = "ns" if wants_time or not profile.emulated else "cycles"
    wants_cycles = any(name.partition("/")[0] in ("cycles", "avg_cycles") for name in names)
    groups = make_kernels(profile, unit)
    trees = make_trees(profile, groups, unit, 0, lambda file, line: "")
    others = make_trees(profile, groups, "cycles", 0, lambda file, line: "") if wants_cycles else trees
    work = _work(profile)
    # Work is known by scope: where one stands at several places of a kernel, nobody knows whose it is.
    times = Counter((_group(tree), _place(node)) for tree in trees for node in tree.nodes)
    frames: list[Frame] = []
    for tree, other in zip(trees, others, strict=True):
        way: list[str] = []
        for node, same in zip(tree.nodes, other.nodes, strict=True):
            name = node.scope + ("" if node.depth else tree.label)
            way = [*way[: node.depth], name]
            values: dict[str, float] = {"count": node.count}
            values["time" if unit == "ns" else "cycles"] = node.total
            if wants_cycles:
                values["cycles"] = same.total
            if times[_group(tree), _place(node)] == 1:
                values |= work.get((*_group(tree), *(_place(node) if node.depth else ())), {})
            frames.append(Frame(name, node.depth, tuple(way), values))
    whole = only_trials(profile.launches)
    shared = [whole or not tree.trial for tree in trees for _ in tree.nodes]
    roots = [frame for frame, is_shared in zip(frames, shared, strict=True) if is_shared and not frame.depth]
    totals = {name: sum(frame.values.get(name, 0.0) for frame in roots) for name in MEASURED}
    for frame, is_shared in zip(frames, shared, strict=True):
        of_all = totals if is_shared else dict.fromkeys(MEASURED, 0.0)
        told = {name: _value(name, frame.values, of_all) for name in names}
        frame.values = {name: value for name, value in told.items() if value is not None}
    return frames


def _group(tree: ScopeTree) -> tuple[str, int, bool]:
    return tree.kernel, tree.variant, tree.trial


def _place(node: Node) -> tuple[str, str, str, int, str]:
    return node.scope, node.kind, node.file, node.line, node.call_path


def _value(name: str, values: Mapping[str, float], totals: Mapping[str, float]) -> float | None:
    base, _, unit = name.partition("/")
    if unit == "%":
        return 100 * values[base] / totals[base] if base in values and totals[base] else None
    if name in RATES:
        return values.get(name)
    if base == "time":
        return values["time"] / TIMES[unit]
    if base == "avg_time":
        return values["time"] / values["count"] / TIMES[unit]
    if base == "avg_cycles":
        return values["cycles"] / values["count"]
    return values.get(base)


def _work(profile: Profile) -> dict[tuple[object, ...], dict[str, float]]:
    """By kernel, variant, trial and scope: bytes, flops and rates; without a scope those of the kernel."""
    made: dict[tuple[object, ...], dict[str, float]] = {}
    for row in profile.summary().to_dict("records"):
        group = (str(row["kernel"]), int(row["variant"]), bool(row["trial"]))
        place = (
            str(row["scope"]),
            str(row["kind"]),
            str(row["file"]),
            int(row["line"]),
            str(row["call_path"]),
        )
        for name, rate, scale in (("bytes_at_most", "gb_per_s_at_most", 1e9), ("flops", "tflop_per_s", 1e12)):
            known = {} if pd.isna(row[name]) else {name: float(row[name])}
            if not pd.isna(row[rate]):
                known |= {
                    each: float(row[rate]) * scale / size for each, (of, size) in RATES.items() if of == name
                }
            for key in ((*group, *place), group):
                of_key = made.setdefault(key, {})
                for each, value in known.items():
                    of_key[each] = of_key.get(each, 0.0) + value
    return made
