"""What the end of a session takes on the host, with no GPU: launches of a captured kernel, replayed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from bench.replay import replay
from bench.table import Cell, Row
from profscope.decoding.assemble import assemble
from profscope.decoding.decode import decode
from profscope.profiles import Profile, load

__all__ = ["replayed_end"]

T = TypeVar("T")
_CAPTURE: Final = Path(__file__).resolve().parent.parent / "tests" / "data" / "matmul-heavy-0.npz"
_ITERATIONS: Final = 64


def replayed_end(launches: int, ctas: int) -> list[Row]:
    """From buffers on the host to a table and to a trace, without and with the asynchronous work."""
    cores = len(os.sched_getaffinity(0))
    title = (
        f"end of a session on {cores} cores: {launches} heavy launches of a matmul of {ctas} CTAs, replayed"
    )
    found = {
        "spans of ops": _end(launches, ctas, transactions=False),
        "and in-flight spans": _end(launches, ctas, transactions=True),
    }
    return [
        Row(title, line, "", {name: Cell((figures[line],)) for name, figures in found.items()})
        for line in next(iter(found.values()))
    ]


def _end(launches: int, ctas: int, *, transactions: bool) -> dict[str, float]:
    raw = replay(_CAPTURE, launches, ctas, _ITERATIONS, transactions=transactions)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        decode_s, decoded = _timed(lambda: list(pool.map(lambda r: decode(r.records, r.manifest), raw)))
    records = sum(launch.records for launch in decoded)
    del decoded
    table_s, profile = _timed(lambda: Profile.of(assemble(raw, {"backend": "gpu"})))
    spans = len(profile.df)
    figures = {
        "spans, M": spans / 1e6,
        "buffers to columns, M records/s": records / decode_s / 1e6,
        "buffers to a DataFrame, s": table_s,
    }
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".pftrace", ".pftrace.gz", ".json", ".json.gz"):
            path = Path(folder) / f"trace{suffix}"
            figures[f"DataFrame to {suffix}, s"], _ = _timed(partial(profile.save, path))
            figures[f"{suffix}, bytes per span"] = path.stat().st_size / spans
            if suffix.endswith(".gz"):
                figures[f"{suffix} to a DataFrame, s"], loaded = _timed(partial(load, path))
                if not loaded.df.equals(profile.df):
                    raise AssertionError(f"the {suffix} does not load back as it was saved")
            path.unlink()
    return figures


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
