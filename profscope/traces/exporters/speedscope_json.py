"""`.speedscope.json`: stacks and their time, a profile for each kernel, for speedscope.app."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.exporters.collapsed import Frame, unit, weights

__all__ = ["pieces"]

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    numbers: dict[Frame, int] = {}
    kernels: dict[str, list[tuple[list[int], int]]] = {}
    for stack, weight in weights(tables).items():
        frames = [numbers.setdefault(frame, len(numbers)) for frame in stack]
        kernels.setdefault(stack[0].scope, []).append((frames, weight))
    document = {
        "$schema": SCHEMA,
        "exporter": "profscope",
        "shared": {"frames": [_frame(frame) for frame in numbers]},
        "profiles": [_profile(name, rows, unit(tables)) for name, rows in kernels.items()],
    }
    yield json.dumps(document).encode()


def _frame(frame: Frame) -> dict[str, Any]:
    place = {"file": frame.file, "line": frame.line} if frame.line else {}
    return {"name": frame.scope, **place}


def _profile(name: str, rows: list[tuple[list[int], int]], named: str) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds" if named == "ns" else "none",
        "startValue": 0,
        "endValue": sum(weight for _, weight in rows),
        "samples": [frames for frames, _ in rows],
        "weights": [weight for _, weight in rows],
    }
