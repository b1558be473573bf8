"""Stacks and their time: `.collapsed` for flamegraph.pl, inferno and speedscope, `.speedscope.json`.

profscope 0
matmul_kernel;loop L22;dot (matmul.py:27) 52835

The first line of a `.collapsed` is the mark of profscope's files. A `.speedscope.json` has a profile for each
kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.spans.corrections import are_corrected, weighed
from profscope.analysis.spans.rows import scales, self_times
from profscope.analysis.texts import printable
from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.own_files import COLLAPSED

__all__ = ["collapsed", "collapsed_text", "speedscope"]


class Frame(NamedTuple):
    """A scope at its place; line 0 where that is not known."""

    scope: str
    file: str
    line: int


def _unit(tables: Tables) -> str:
    """What weights are in: "ns", or "cycles" where nothing has a time: what was emulated has none."""
    if tables.emulated:
        return "cycles"
    return "ns" if tables.df["duration_ns"].any() else "cycles"


def _weights(tables: Tables) -> dict[tuple[Frame, ...], int]:
    """By stack, outermost first, what all warps spent in it and in no scope inside it, where that is not 0.

    The first frame is the kernel. Spans in flight overlap others and are left out, as marks are. Otherwise it
    is what the summary adds up: durations are corrected, and what some CTAs of a launch recorded is scaled up
    to its grid, where the summary does so. What no record covers is a frame of its own.
    """
    named = _unit(tables)
    together: dict[tuple[Frame, ...], int] = {}
    stacks: dict[int, tuple[Frame, ...]] = {-1: ()}
    rows: list[dict[Any, Any]] = _spans(tables, named).to_dict("records")
    for row in rows:
        stack = (*stacks.get(row["above"], ()), Frame(row["scope"], row["file"], row["line"]))
        stacks[row["number"]] = stack
        together[stack] = together.get(stack, 0) + row["own"]
    return {stack: own for stack, own in together.items() if own > 0}


def _spans(tables: Tables, named: str) -> pd.DataFrame:
    """One row for each distinct stack: number, above, its place, and what its spans spent in themselves."""
    df = weighed(tables.df, tables.metadata) if are_corrected(tables) else tables.df
    counts = ~df["kind"].isin(["async", "mark"]).to_numpy()
    parent = df["parent"].to_numpy()
    scale = scales(tables)
    own = self_times(df, f"duration_{named}") * (1 if scale is None else scale.of(df["launch"].to_numpy()))
    place = df.groupby(["scope", "file", "line"], observed=True, sort=False).ngroup().to_numpy()
    depth = df["depth"].to_numpy()
    number = np.full(len(df), -1)
    rows: list[dict[str, Any]] = []
    for level in range(int(depth.max(initial=-1)) + 1):
        at = np.flatnonzero(counts & (depth == level))
        above = np.where(parent[at] >= 0, number[parent[at]], -1)
        keys = pd.MultiIndex.from_arrays([above, place[at]])
        codes, distinct = pd.factorize(keys)
        totals = np.rint(np.bincount(codes, own[at], len(distinct))).astype(np.int64).tolist()
        first = np.zeros(len(distinct), np.int64)
        first[codes[::-1]] = at[::-1]
        number[at] = codes + len(rows)
        where = df.iloc[first][["scope", "file", "line"]].to_dict("records")
        rows += [
            {**{str(name): value for name, value in each.items()}, "above": up, "own": total}
            for each, up, total in zip(where, [key[0] for key in distinct], totals, strict=True)
        ]
    table = pd.DataFrame(rows, columns=["scope", "file", "line", "above", "own"])
    return table.assign(number=np.arange(len(table)))


def collapsed(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes; weights are nanoseconds of warp time, or cycles where no times are known."""
    yield (COLLAPSED + collapsed_text(tables)).encode("utf-8", "replace")


def collapsed_text(tables: Tables) -> str:
    """The stacks as text, a line each."""
    return "".join(f"{';'.join(map(_text, stack))} {weight}\n" for stack, weight in _weights(tables).items())


def _text(frame: Frame) -> str:
    place = f" ({PurePath(frame.file).name}:{frame.line})" if frame.line else ""
    return printable(" ".join(f"{frame.scope}{place}".replace(";", ",").split())) or "?"


_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def speedscope(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    numbers: dict[Frame, int] = {}
    kernels: dict[str, list[tuple[list[int], int]]] = {}
    for stack, weight in _weights(tables).items():
        frames = [numbers.setdefault(frame, len(numbers)) for frame in stack]
        kernels.setdefault(stack[0].scope, []).append((frames, weight))
    unit = "nanoseconds" if _unit(tables) == "ns" else "none"
    places = [{"file": frame.file, "line": frame.line} if frame.line else {} for frame in numbers]
    document = {
        "$schema": _SCHEMA,
        "exporter": "profscope",
        "shared": {
            "frames": [{"name": frame.scope, **place} for frame, place in zip(numbers, places, strict=True)]
        },
        "profiles": [
            {
                "type": "sampled",
                "name": name,
                "unit": unit,
                "startValue": 0,
                "endValue": sum(weight for _, weight in rows),
                "samples": [frames for frames, _ in rows],
                "weights": [weight for _, weight in rows],
            }
            for name, rows in kernels.items()
        ],
    }
    yield json.dumps(document).encode()
