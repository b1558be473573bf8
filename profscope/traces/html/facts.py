"""The data for the page's script: columns of launches, CTAs and spans, and data of charts.

Each column is cut into planes of bytes, the lowest bytes first: the planes of high bytes are nearly all
zeros, which deflate makes nothing of. All planes together are deflated (RFC 1951), and base64 is their text.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.scope_colours import site_colours
from profscope.analysis.spans.ctas import launch_durations
from profscope.analysis.spans.rows import Ints, grid_ctas
from profscope.schema import Tables
from profscope.traces.html.figures import count_text, number
from profscope.traces.html.kernels import Kernel
from profscope.traces.html.program import drawn_around
from profscope.traces.html.spans import Ctas, Sites, chosen_ctas, ctas_of, kept_launches, span_columns
from profscope.traces.tracks import drawn_name

__all__ = ["best_places", "pack", "page_facts", "shown_ctas"]

_OF_LAUNCHES: Final = (
    "idle-sms", "tail", "load-imbalance", "low-occupancy", "register-spills", "tiny-ctas", "too-many-warps",
)  # fmt: skip


def shown_ctas(tables: Tables, start: Ints, duration: Ints) -> tuple[Ctas, pd.DataFrame]:
    """The CTAs of the launches that the page has, and these launches: a CTA's `launch` is a row there."""
    kept = kept_launches(tables)
    row = np.cumsum(kept) - 1
    ctas = ctas_of(tables, start, duration)
    own = kept[ctas.launch]
    columns = {name: values[own] for name, values in vars(ctas).items()}
    return replace(ctas, **columns | {"launch": row[ctas.launch[own]]}), tables.launches[kept].reset_index(
        drop=True
    )


def best_places(
    kernel: Kernel, ctas: Ctas, launches: pd.DataFrame, sites: Sites, duration: Ints
) -> list[dict[str, Any]]:
    """By finding, where the timeline shows it: the CTA that spends the greatest part of its time at the line;
    for what is about whole launches the longest one. {} where there is none."""
    of_kernel = (launches["kernel"] == kernel.kernel) & (launches["variant"] == kernel.variant)
    own = np.flatnonzero(of_kernel.to_numpy()[ctas.launch])
    if not len(own):
        return [{} for _ in kernel.entry.findings]
    table = sites.table
    places = []
    for finding in kernel.entry.findings:
        if finding.finding in _OF_LAUNCHES:
            took = (launches["end_ns"] - launches["start_ns"]).where(of_kernel, -1)
            places.append({"level": "launch", "at": int(took.to_numpy().argmax()), "cta": -1})
            continue
        at = (
            (table["line"] == finding.line)
            & (table["file"] == finding.file)
            & (table["kernel"] == kernel.kernel)
        )
        inner = at & table["kind"].isin(("op", "scope"))
        spans = (inner if inner.any() else at).to_numpy()[sites.site]
        total = np.concatenate([[0], np.cumsum(np.where(spans, duration, 0))])
        spent = total[ctas.first[own] + ctas.rows[own]] - total[ctas.first[own]]
        best = int(own[np.argmax(spent / np.maximum(ctas.duration[own], 1))])
        places.append({"level": "cta", "at": best, "cta": int(ctas.cta[best])})
    return places


def page_facts(
    tables: Tables,
    kernels: list[Kernel],
    ctas: Ctas,
    launches: pd.DataFrame,
    sites: Sites,
    start: Ints,
    duration: Ints,
    wanted: list[int],
) -> tuple[dict[str, Any], str, str]:
    """The facts, JSON-able; the packed columns; and in words which part of the profile is in the page."""
    keys = {(kernel.kernel, kernel.variant): at for at, kernel in enumerate(kernels)}
    of_launch = [
        keys.get((kernel, variant), -1)
        for kernel, variant in zip(launches["kernel"], launches["variant"], strict=True)
    ]
    chosen = chosen_ctas(ctas, np.array(of_launch, np.int64)[ctas.launch] + 1, wanted)
    columns: dict[str, Any] = {
        name: getattr(ctas, name) for name in ("launch", "sm", "slot", "start", "duration")
    }
    columns = {f"cta_{name}": values for name, values in columns.items()}
    columns |= {"cta_number": ctas.cta, "chosen": np.diff(chosen, prepend=0)}
    spans = span_columns(tables, ctas, chosen, sites.site, start, duration)
    first_ns = int(launches["start_ns"].min()) if len(launches) else 0
    around, bars = drawn_around(tables, launches, first_ns)
    index, text = pack(columns | spans | bars)
    table = sites.table
    rate = _rate(tables)
    known = launch_durations(tables)[kept_launches(tables)].reset_index(drop=True)
    lasted = known.fillna((launches["end_ns"] - launches["start_ns"]) * rate)
    device = tables.metadata.get("device")
    facts = {
        "unit": tables.unit,
        "emulated": tables.emulated,
        "sms": device.get("sm_count") if isinstance(device, dict) else None,
        "columns": index,
        "launches": {
            "number": launches["launch"].tolist(),
            "name": launches["kernel"].astype("str").tolist(),
            "kernel": of_launch,
            "start": [number((ns - first_ns) * rate, 12) for ns in launches["start_ns"].tolist()],
            "duration": [number(max(each, 0), 12) for each in lasted.tolist()],
            "device": launches["device"].tolist(),
            "rank": launches["rank"].tolist(),
            "grid": grid_ctas(launches).astype(np.int64).tolist(),
        },
        "sites": {
            "scope": table["scope"].astype("str").tolist(),
            "narrow": list(map(drawn_name, table["scope"], table["kind"])),
            "kind": table["kind"].astype("str").tolist(),
            "file": table["file"].astype("str").tolist(),
            "line": table["line"].tolist(),
            "kernel": table["kernel"].astype("str").tolist(),
            "stage": sites.stages,
            "light": site_colours(table),
            "dark": site_colours(table, dark=True),
        },
        "around": around,
        "kernels": [_kernel(kernel, sites) for kernel in kernels],
        "spans": {"all": len(tables.df), "kept": int(spans["cta_spans"].sum())},
    }
    return facts, text, _selection(tables, ctas, chosen, int(spans["cta_spans"].sum()))


def _rate(tables: Tables) -> float:
    """What a ns is in the page's unit, between launches."""
    if not tables.emulated:
        return 1.0
    clocks = tables.launches["clock_ghz"].to_numpy()
    known = clocks[np.isfinite(clocks)]
    return float(np.median(known)) if len(known) else 1.0


def _kernel(kernel: Kernel, sites: Sites) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "histograms": sites.histograms.get((kernel.kernel, kernel.variant), []),
    }


def _selection(tables: Tables, ctas: Ctas, chosen: Ints, spans: int) -> str:
    """Which part of the profile the page has, in words."""
    if not len(tables.df):
        return "all of the profile; it has no single spans"
    if spans == len(tables.df):
        return f"all of the profile: {count_text(spans, 'span')}"
    left = len(tables.launches) - len(np.unique(ctas.launch))
    text = (
        f"{count_text(spans)} of {count_text(len(tables.df))} spans, those of {count_text(len(chosen))} of "
        f"{count_text(len(ctas), 'CTA')}: for each kernel its longest, median and shortest CTA, those that "
        "findings name, and whole SMs of the newest launches. Figures, source and histograms are of all"
    )
    return text + (
        f"; the timeline lacks the {count_text(left, 'oldest launch', 'oldest launches')}" if left > 0 else ""
    )


_LEVEL = 5
_KINDS = ("u1", "i1", "u2", "i2", "u4", "i4")


def pack(columns: Mapping[str, NDArray[Any]]) -> tuple[list[list[Any]], str]:
    """The name, dtype and length of each column, in order; and the text.

    Integers take the smallest of 1, 2 and 4 bytes that holds them, and float64 beyond; so do floats.
    """
    index: list[list[Any]] = []
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = []
    for name, values in columns.items():
        kind = _kind(values)
        data = np.ascontiguousarray(values, dtype=f"<{kind}")
        planes = data.view(np.uint8).reshape(len(data), data.itemsize).T
        parts.append(deflate.compress(planes.tobytes()))
        index.append([name, kind, len(data)])
    return index, base64.b64encode(b"".join(parts) + deflate.flush()).decode("ascii")


def _kind(values: NDArray[Any]) -> str:
    if values.dtype.kind == "f":
        return "f8"
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    fitting = (kind for kind in _KINDS if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return next(fitting, "f8")
