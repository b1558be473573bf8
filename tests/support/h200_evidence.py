"""Evidence that an H200 gave, and Nsight Compute's figures of the same kernels there.

tests/data/evidence/h200.json.gz: `python -m bench.evidence --json` (Triton 3.6.0, torch 2.11.0). Two of the
kernels have the counts of each instruction, and the binary.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from profscope.evidence.subject import CountedLaunch, CounterValues, Subject

with gzip.open(Path(__file__).parents[1] / "data/evidence/h200.json.gz", "rt") as _file:
    KERNELS: dict[str, dict[str, Any]] = json.load(_file)["kernels"]


def number(kernel: str, key: str) -> int:
    return int(key or 0)


def subject(name: str, **changed: Any) -> Subject:
    entry = KERNELS[name]
    cubin = gzip.decompress(base64.b64decode(entry["cubin"])) if "cubin" in entry else b""
    fields = {"kernel": name, "key": "", "shape": (), "function": entry.get("function", "")}
    return Subject(**fields | {"cubin": cubin, "ptx": entry.get("ptx", "")} | changed)


def counted(name: str, **changed: Any) -> CountedLaunch:
    entry = KERNELS[name]
    counts = {column: np.array(values, np.int64) for column, values in entry["counts"].items()}
    return CountedLaunch(subject(name, **changed), np.array(entry["pcs"], np.int64), counts)


def values(name: str, **changed: Any) -> CounterValues:
    return CounterValues(subject(name, **changed), KERNELS[name]["counters"], KERNELS[name]["launches"])
