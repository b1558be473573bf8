"""Profiles for tests: random valid ones (hypothesis) and a big regular one."""

from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from profscope.profiles import Profile
from profscope.schema import launches_frame, spans_frame

ODD_NAMES = [
    "</script>",
    'a "quoted" \\ name',
    "new\nline\ttab",
    "é 中文",
    "\U0001f600",
    "",
    " ",
    "\x00\x1f",
    "k" * 200,
    "C:\\",
]
NAMES = st.sampled_from(["load", "dot", "loop L23", *ODD_NAMES]) | st.text(max_size=8)
INNER_KINDS = st.sampled_from(["loop", "iteration", "op", "scope"])


def profile_metadata(backend: str = "gpu", **more: Any) -> dict[str, Any]:
    """The metadata a session writes."""
    return {
        "tool": "profscope",
        "profscope": "0.1.0",
        "backend": backend,
        "device": {"name": "NVIDIA H200", "arch": "sm_90", "sm_count": 132},
        "triton": "3.7.1",
        "torch": "2.13.0",
        "python": "3.11.7",
        "options": {"instrument": "default", "memory": 256},
        "notes": [],
        "kernels": {},
    } | more


def launch_table(launches: list[int], kernels: list[str], **columns: Any) -> Any:
    """A table of launches; what `columns` leaves out is plausible and constant."""
    count = len(launches)
    constant = {"grid_x": 4, "grid_y": 1, "grid_z": 1, "num_ctas": 1, "num_warps": 4, "ctas": 4, "device": 0}
    constant |= {"stream": 7, "backend": "gpu", "records": 100, "dropped": 0, "profile_bytes": 4096}
    constant |= {"start_ns": 0, "end_ns": 0, "clock_ghz": 1.98, "ns_uncertainty": 32.0}
    filled = {name: [value] * count for name, value in constant.items()}
    return launches_frame(filled | {"launch": launches, "kernel": kernels} | columns)


@st.composite
def profiles(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES, max_actions: int = 12) -> Profile:
    """Valid profiles of a few launches: nested spans, async spans that overlap, marks, zero-length spans.

    Spans come from a walk of "open", "close", "mark" and "async" steps per warp, some cycles (often 0) apart.
    """
    base_ns = draw(st.sampled_from([0, 1_700_000_000_000_000_000, 2**60]))
    rate = draw(st.sampled_from([(1, 1), (1000, 1980), (1000, 1755), (3, 2)]))
    # Drawn once and used by turns: most of the time it takes to make up a profile goes into drawing.
    sites = draw(st.lists(SITES, min_size=1, max_size=4))
    scopes = draw(st.lists(names, min_size=1, max_size=6))
    steps = st.tuples(STEPS, st.integers(0, 40), st.sampled_from(scopes))
    rows: list[dict[str, Any]] = []
    launches: list[tuple[int, str, int]] = []
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        number += draw(st.integers(0, 2))
        kernel = draw(names)
        launches.append((number, kernel, draw(st.integers(0, 1))))
        for cta in sorted(draw(st.sets(st.integers(0, 50), max_size=3))):
            sm, start = draw(st.integers(0, 2)), draw(st.integers(0, 300))
            for warp in range(draw(st.integers(1, 2))):
                walk = draw(st.lists(steps, max_size=max_actions))
                place = {"kernel": kernel, "launch": number, "cta": cta, "sm": sm, "warp": warp}
                _walk(draw, rows, place, start, walk, sites)
        number += 1
    offset = draw(st.integers(0, 2**62))
    for row in rows:
        start, end = row["start_cycle"], row["start_cycle"] + row["duration_cycles"]
        row["start_ns"] = base_ns + start * rate[0] // rate[1]
        row["duration_ns"] = base_ns + end * rate[0] // rate[1] - row["start_ns"]
        row["start_cycle"] = start + offset
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else None
    table = launch_table(
        [number for number, _, _ in launches],
        [kernel for _, kernel, _ in launches],
        device=[device for _, _, device in launches],
        clock_ghz=[draw(st.floats(0.1, 4.0) | st.just(float("nan"))) for _ in launches],
        start_ns=[base_ns] * len(launches),
    )
    notes = draw(st.lists(names, max_size=2))
    return Profile(spans_frame(columns), table, profile_metadata(notes=notes))


STEPS = st.sampled_from(["open", "open", "close", "close", "mark", "async"])
SITES = st.fixed_dictionaries(
    {
        "file": NAMES,
        "line": st.integers(0, 10**6),
        "call_path": st.just("") | NAMES,
        "iteration": st.integers(-1, 20_000),
    }
)


def _walk(
    draw: st.DrawFn,
    rows: list[dict[str, Any]],
    place: dict[str, Any],
    cycle: int,
    walk: list[tuple[str, int, str]],
    sites: list[dict[str, Any]],
) -> None:
    def add(scope: str, kind: str, duration: int = 0) -> None:
        site = sites[len(rows) % len(sites)]
        depth = {"depth": len(stack), "parent": stack[-1] if stack else -1}
        time = {"start_cycle": cycle, "duration_cycles": duration}
        rows.append(place | {"scope": scope, "kind": kind} | site | depth | time | {"wait": -1})

    def close() -> None:
        row = rows[stack.pop()]
        row["duration_cycles"] = cycle - row["start_cycle"]

    stack: list[int] = []
    first = len(rows)
    add(place["kernel"], "kernel")
    stack.append(len(rows) - 1)
    for step, wait, name in walk:
        cycle += wait
        if step == "open":
            add(name, draw(INNER_KINDS))
            stack.append(len(rows) - 1)
        elif step == "mark":
            add(name, "mark")
        elif step == "async":
            add(name, "async", draw(st.integers(0, 100)))
        elif len(stack) > 1:
            close()
    cycle += draw(st.integers(0, 40))
    while stack:
        close()
    for row in rows[first:]:
        if row["kind"] == "async" and draw(st.booleans()):
            _end_with(draw, rows, first, row)


def _end_with(draw: st.DrawFn, rows: list[dict[str, Any]], first: int, row: dict[str, Any]) -> None:
    """Let an async span end with some span of its warp that ends after it began."""
    ends = {
        at: span["start_cycle"] + span["duration_cycles"]
        for at, span in enumerate(rows[first:], first)
        if span["kind"] not in ("async", "mark")
    }
    row["wait"] = draw(st.sampled_from([at for at, end in ends.items() if end >= row["start_cycle"]]))
    row["duration_cycles"] = ends[row["wait"]] - row["start_cycle"]


OPS = (("load A", 40, 23), ("load B", 35, 24), ("wait", 250, 26), ("dot", 180, 27))


def regular_profile(
    launches: int = 2, ctas: int = 8, warps: int = 4, iterations: int = 6, sms: int = 4, seed: int = 0
) -> Profile:
    """A tiled matmul's profile: launches x ctas x warps x (3 + 5 x iterations) spans, with jitter.

    Two CTAs run on an SM at once. Cycles run at 1.98 GHz; each SM's counter has its own origin.
    """
    random = np.random.default_rng(seed)
    # The warp's story as records in time order: (span, base gap in cycles); a span's first is its start.
    names, lines, kinds, steps, depths, gaps, record_span = [], [], [], [], [], [], []

    def start(name: str, kind: str, line: int, iteration: int, depth: int, gap: int) -> int:
        for column, value in (
            (names, name),
            (kinds, kind),
            (lines, line),
            (steps, iteration),
            (depths, depth),
        ):
            column.append(value)
        record(len(names) - 1, gap)
        return len(names) - 1

    def record(span: int, gap: int) -> None:
        record_span.append(span)
        gaps.append(gap)

    root = start("matmul_kernel", "kernel", 10, -1, 0, 0)
    loop = start("loop L22", "loop", 22, -1, 1, 120)
    for step in range(iterations):
        iteration = start("iteration", "iteration", 22, step, 2, 4)
        for name, cycles, line in OPS:
            record(start(name, "op", line, step, 3, 3), cycles)
        record(iteration, 3)
    record(loop, 3)
    record(start("store", "op", 40, -1, 1, 3), 320)
    record(root, 20)

    count = launches * ctas * warps
    gap = np.array(gaps, np.float64)
    noise = (
        random.standard_normal((count, len(gap)), np.float32) * gap * 0.12
        + random.random((count, len(gap)), np.float32) * 3
    )
    cycle = np.cumsum(np.maximum(gap + noise, 0).astype(np.int64), axis=1)
    length = int(cycle[:, -1].max()) + 2000
    cta = np.arange(count) // warps % ctas
    launch = np.arange(count) // (warps * ctas)
    sm = cta % sms
    wave = cta // (2 * sms)
    waves = -(-ctas // (2 * sms))
    begin = (launch * (waves * length + 5000) + wave * length) + random.integers(
        0, 1500, launches * ctas
    ).repeat(warps)
    cycle += (begin + random.integers(0, 60, count))[:, None]
    spans = len(names)
    first = np.array([record_span.index(span) for span in range(spans)])
    last = np.array([len(record_span) - 1 - record_span[::-1].index(span) for span in range(spans)])
    start_cycle, end_cycle = cycle[:, first].ravel(), cycle[:, last].ravel()
    base_ns = 1_700_000_000_000_000_000
    start_ns, end_ns = base_ns + start_cycle * 1000 // 1980, base_ns + end_cycle * 1000 // 1980
    parents = np.array([-1, 0, *([0] * (spans - 2))])
    for span in range(2, spans):
        parents[span] = max(at for at in range(span) if depths[at] == depths[span] - 1)
    row = np.arange(count)[:, None] * spans
    warp_columns = {"launch": launch, "cta": cta, "sm": sm, "warp": np.arange(count) % warps}
    columns: dict[str, Any] = {name: np.repeat(values, spans) for name, values in warp_columns.items()}
    columns |= {
        "line": np.tile(lines, count),
        "iteration": np.tile(steps, count),
        "depth": np.tile(depths, count),
    }
    columns |= {"parent": np.where(parents >= 0, parents + row, -1).ravel()}
    columns |= {
        "start_cycle": start_cycle + np.repeat(sm * 1_000_003, spans),
        "duration_cycles": end_cycle - start_cycle,
    }
    columns |= {"start_ns": start_ns, "duration_ns": end_ns - start_ns}
    for name, values in (("scope", names), ("kind", kinds)):
        distinct = sorted(set(values))
        codes = np.array([distinct.index(value) for value in values], np.int16)
        columns[name] = pd_categorical(np.tile(codes, count), distinct)
    columns["kernel"] = pd_categorical(np.zeros(count * spans, np.int8), ["matmul_kernel"])
    columns["file"] = pd_categorical(np.zeros(count * spans, np.int8), ["/src/kernels/matmul.py"])
    ends = end_ns.reshape(launches, -1).max(axis=1)
    starts = start_ns.reshape(launches, -1).min(axis=1)
    table = launch_table(
        list(range(launches)),
        ["matmul_kernel"] * launches,
        grid_x=[ctas] * launches,
        ctas=[ctas] * launches,
        num_warps=[warps] * launches,
        records=[2 * ctas * warps * spans] * launches,
        start_ns=starts,
        end_ns=ends,
    )
    return Profile(spans_frame(columns), table, profile_metadata())


def payloads(df: Any, rows: Any, integers: list[int], floats: list[float]) -> tuple[Any, Any]:
    """Two columns of values, Int32 and float64, that these rows carry and no others."""
    small, large = pd.array([None] * len(df), "Int32"), np.full(len(df), np.nan)
    small[rows] = np.array(integers)
    large[rows] = floats
    return small, large


def pd_categorical(codes: Any, values: list[str]) -> Any:
    return pd.Categorical.from_codes(codes, categories=pd.Index(values, dtype="str"))
