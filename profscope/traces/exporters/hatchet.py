"""`.hatchet`: the kernels and their scopes as a tree that proton-viewer shows.

    proton-viewer -m time/us,count trace.hatchet

Each frame has what warps spent in it and in no frame inside it; proton-viewer adds up what is inside.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import PurePath
from typing import Any

from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.exporters.collapsed import Frame, unit, weights_and_counts

__all__ = ["pieces"]


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes: the tree, and what is known of the devices."""
    named = unit(tables)
    metric = "time (ns)" if named == "ns" else named
    root = _node("ROOT", {"count": 0, metric: 0})
    nodes: dict[tuple[Frame, ...], dict[str, Any]] = {(): root}
    for stack, weight in weights_and_counts(tables).items():
        nodes[stack] = _node(_name(stack[-1]), {"count": weight.spans, metric: weight.own})
        nodes[stack[:-1]]["children"].append(nodes[stack])
    yield json.dumps([root, _devices(tables)]).encode()


def _node(name: str, metrics: dict[str, Any]) -> dict[str, Any]:
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": []}


def _name(frame: Frame) -> str:
    return f"{frame.scope} ({PurePath(frame.file).name}:{frame.line})" if frame.line else frame.scope


def _devices(tables: Tables) -> dict[str, Any]:
    """As Proton has them: by kind and number."""
    device = tables.metadata.get("device") or {}
    about = {
        "arch": str(device.get("arch") or "").removeprefix("sm_"),
        "num_sms": device.get("sm_count") or 0,
    }
    return {"CUDA": {str(number): about for number in sorted(set(tables.launches["device"].tolist()))}}
