"""Folded launches to tables: their sums, spreads and numbers, and a row for each launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.decoding.clocks import Clocks
from profscope.decoding.folding import NEWEST, FoldedProgram
from profscope.decoding.numbers import NumberFigures
from profscope.decoding.spread import Spread, no_spread, together
from profscope.decoding.stack_sums import BY, Layout, Place
from profscope.decoding.timebase import session_slope
from profscope.schema import launches_frame, numbers_frame, spreads_frame, sums_frame

__all__ = ["SumTables", "in_launch_order", "sum_tables"]

_ALL_LAUNCHES: Final = -1  # in the table of spreads, what stands for all of them

# Kernel, variant, trial.
_Group = tuple[str, int, bool]


class SumTables(NamedTuple):
    """What folded launches are in tables; of the table of launches parts, one for each program."""

    launches: list[pd.DataFrame]
    sums: pd.DataFrame
    spreads: pd.DataFrame
    numbers: pd.DataFrame


def sum_tables(
    programs: Sequence[FoldedProgram], variants: Mapping[int, int], clocks: Mapping[int, Clocks], backend: str
) -> SumTables:
    """variants: by the first launch of each program; clocks: by device, what all launches say."""
    launches = [_launches(each, variants[each.index], clocks[each.device], backend) for each in programs]
    return SumTables(
        launches,
        _sums(programs, variants, clocks),
        _spreads(programs, variants),
        _numbers(programs, variants),
    )


def in_launch_order(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Parts of the table of launches as one."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else launches_frame()
    return pd.concat(filled).sort_values("launch", ignore_index=True)


def _launches(program: FoldedProgram, variant: int, clocks: Clocks, backend: str) -> pd.DataFrame:
    rows, manifest = program.launches, program.manifest
    slope = np.where(np.isfinite(rows["slope"]), rows["slope"], session_slope(clocks))
    constant: dict[str, Any] = {
        "kernel": manifest.kernel,
        "variant": variant,
        "trial": program.trial,
        "num_warps": manifest.warps,
        "device": program.device,
        "backend": backend,
        "records": 0,
        "dropped": 0,
        "keeps": "sums",
    }
    columns = {name: rows[name] for name in ("launch", "stream", "profile_bytes", "grid_y")}
    columns |= {name: rows[name] for name in ("graph", "replay", "cold")}
    for name in ("start_ns", "end_ns"):  # the globaltimer is read half a step late (see `timebase`)
        columns[name] = np.where(rows["ended"] > 0, rows[name] + clocks.step // 2, 0)
    columns |= {"ctas": rows["ended"], "unfinished": rows["chosen"] - rows["ended"]}
    columns |= {"num_ctas": rows["cluster"], "grid_x": rows["grid_x"] // rows["cluster"]}
    columns["grid_z"] = rows["grid_ctas"] // (rows["grid_x"] * rows["grid_y"].astype(np.int64))
    columns |= {"clock_ghz": 1 / slope, "ns_uncertainty": np.full(len(rows), clocks.step / 2)}
    return launches_frame(columns | {name: [value] * len(rows) for name, value in constant.items()})


def _sums(
    programs: Sequence[FoldedProgram], variants: Mapping[int, int], clocks: Mapping[int, Clocks]
) -> pd.DataFrame:
    columns: dict[str, list[Any]] = {}
    base = 0
    for ((kernel, variant, trial), _), of_binary in _binaries(programs, variants).items():
        layout = of_binary[0].layout
        sites = len(layout.sites)
        figures = _figures(layout, of_binary, clocks)
        figures |= {"kernel": [kernel] * sites, "variant": [variant] * sites, "trial": [trial] * sites}
        places = [Place.of(site)._asdict() for site in layout.sites]
        figures |= {name: [place[name] for place in places] for name in Place._fields}
        figures["parent"] = np.where(layout.parents < 0, -1, layout.parents + base).tolist()
        for name, values in figures.items():
            columns.setdefault(name, []).extend(values)
        base += sites
    return sums_frame(columns or None)


def _figures(
    layout: Layout, programs: Sequence[FoldedProgram], clocks: Mapping[int, Clocks]
) -> dict[str, list[Any]]:
    """The columns with figures of launches of one binary, on all devices."""
    count, cycles, ns, grid_count, grid_cycles, grid_ns = np.zeros((6, len(layout.sites)))
    warps, longest, longest_ns = np.zeros((3, len(layout.sites)), np.int64)
    longest -= 1
    longest_ns -= 1
    count, cycles = count.astype(np.int64), cycles.astype(np.int64)
    for program in programs:
        slope = session_slope(clocks[program.device])
        warps += program.warps[layout.sections]
        count += program.seen.count
        cycles += program.seen.cycles
        ns += program.seen.all_ns(slope)
        grid_count += program.grid.count
        grid_cycles += program.grid.cycles
        grid_ns += program.grid.all_ns(slope)
        longest = np.maximum(longest, program.longest)
        untimed = np.nan_to_num(slope * np.maximum(program.untimed_longest, 0))
        of_all = np.rint(np.maximum(program.longest_ns, untimed)).astype(np.int64)
        longest_ns = np.maximum(longest_ns, np.where(program.longest < 0, -1, of_all))
    figures = {"warps": warps, "count": count, "total_cycles": cycles, "total_ns": ns}
    figures |= {"longest_cycles": longest, "longest_ns": longest_ns, "grid_count": grid_count}
    figures |= {"grid_cycles": grid_cycles, "grid_ns": grid_ns}
    as_lists = {name: np.rint(values).astype(np.int64).tolist() for name, values in figures.items()}
    return {"launches": [_told(programs)] * len(layout.sites), **as_lists}


def _told(programs: Sequence[FoldedProgram]) -> int:
    """How many launches there are figures of."""
    rows = [program.launches for program in programs]
    return sum(int(np.count_nonzero((row["ended"] > 0) | (row["chosen"] == row["ended"]))) for row in rows)


def _numbers(programs: Sequence[FoldedProgram], variants: Mapping[int, int]) -> pd.DataFrame:
    columns: dict[str, list[Any]] = {}
    for ((kernel, variant, trial), _), of_binary in _binaries(programs, variants).items():
        layout = of_binary[0].layout
        payloads, rows = layout.payloads, len(layout.payloads)
        figures = reduce(NumberFigures.together, (program.numbers for program in of_binary))
        places = [Place.of(layout.sites[payload.site])._asdict() for payload in payloads]
        values: dict[str, list[Any]] = {"kernel": [kernel] * rows}
        values |= {"variant": [variant] * rows, "trial": [trial] * rows}
        values |= {name: [place[name] for place in places] for name in Place._fields}
        values |= {"name": [payload.name for payload in payloads], "launches": [_told(of_binary)] * rows}
        for name, each in (values | figures.columns(payloads)).items():
            columns.setdefault(name, []).extend(each)
    return numbers_frame(columns or None)


def _spreads(programs: Sequence[FoldedProgram], variants: Mapping[int, int]) -> pd.DataFrame:
    """Of each variant's newest launches, and of all of them."""
    groups: dict[_Group, list[FoldedProgram]] = {}
    for program in programs:
        groups.setdefault(_group(program, variants), []).append(program)
    columns: dict[str, list[Any]] = {}
    for (kernel, variant, trial), of_group in groups.items():
        places = list(dict.fromkeys(place for program in of_group for place in program.layout.places))
        number = {place: at for at, place in enumerate(places)}
        everything = no_spread((len(places), len(BY)))
        newest: list[tuple[int, list[int], Spread]] = []
        for program in of_group:
            mine = [number[place] for place in program.layout.places]
            widened = no_spread(everything.items.shape)
            for part, values in zip(widened, program.spread, strict=True):
                part[mine] = values
            everything = together(everything, widened)
            newest += [(launch, mine, spread) for launch, spread in program.newest]
        newest = sorted(newest, key=lambda each: each[0])[-NEWEST:]
        for launch, mine, spread in [(_ALL_LAUNCHES, list(range(len(places))), everything), *newest]:
            rows = _rows(spread, [places[at] for at in mine])
            rows |= {"kernel": kernel, "variant": variant, "trial": trial, "launch": launch}
            for name, values in rows.items():
                many = values if isinstance(values, list) else [values] * len(rows["by"])
                columns.setdefault(name, []).extend(many)
    return spreads_frame(columns or None)


def _rows(spread: Spread, places: Sequence[Place]) -> dict[str, Any]:
    """Columns of the table for what is spread in these places, shape (places, 3); no rows for empty sets."""
    at, by = np.nonzero(spread.items)
    count, total, squares, least, greatest = (part[at, by] for part in spread)
    mean = total / count
    columns: dict[str, Any] = {
        name: [getattr(places[place], name) for place in at.tolist()] for name in Place._fields
    }
    return columns | {
        "by": [BY[each] for each in by.tolist()],
        "count": count.astype(np.int64).tolist(),
        "least_cycles": least.astype(np.int64).tolist(),
        "mean_cycles": mean.tolist(),
        "greatest_cycles": greatest.astype(np.int64).tolist(),
        "variation": (np.sqrt(squares / count) / np.where(mean > 0, mean, 1)).tolist(),
    }


def _binaries(
    programs: Sequence[FoldedProgram], variants: Mapping[int, int]
) -> dict[tuple[_Group, int], list[FoldedProgram]]:
    """The programs of each group by their binary: on all devices."""
    parts: dict[tuple[_Group, int], list[FoldedProgram]] = {}
    for program in programs:
        parts.setdefault((_group(program, variants), program.manifest.digest), []).append(program)
    return parts


def _group(program: FoldedProgram, variants: Mapping[int, int]) -> _Group:
    return program.manifest.kernel, variants[program.index], program.trial
