"""The kernels that the corpus had at commit 1a7651aa, as cases of today's: `git worktree add DIR 1a7651aa`.

The repository keeps 72 of them; the others are there for whoever wants cases that the rules' authors have not
looked at.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import bench.corpus
from bench.corpus.case import Case
from bench.corpus.cases import CASES

__all__ = ["drawn", "earlier_cases"]

_CASE: Final = "bench.corpus.case"  # the module whose names the earlier kernels are written in
_LEAST_GAIN: Final = 0.1  # that fixing a fault must have saved for it to be drawn
_FAULTS: Final = 60
_GOOD: Final = 24


def earlier_cases(checkout: Path) -> dict[str, Case]:
    """All cases of a checkout of that commit, by name. Raises FileNotFoundError if it has none."""
    folder = checkout / "bench" / "corpus"
    modules = sorted(path.stem for path in folder.glob("*.py") if "\nCASES" in path.read_text())
    if not modules:
        raise FileNotFoundError(f"{folder} has no kernels of the corpus; is it a checkout of 1a7651aa?")
    today = sys.modules[_CASE]
    bench.corpus.__path__.append(str(folder))
    sys.modules[_CASE] = _module(_CASE, folder / "case.py")
    try:
        found = [import_module(f"bench.corpus.{name}").CASES for name in modules if name != "cases"]
    finally:
        sys.modules[_CASE] = today
        bench.corpus.__path__.remove(str(folder))
    return {case.name: _as_today(case) for cases in found for case in cases}


def drawn(checkout: Path, seeds: Sequence[int]) -> list[str]:
    """Names of 60 faults and of 24 kernels without one, drawn by the last seed.

    Those that the repository has, and those that the seeds before have drawn, are left out; so are faults
    whose repair saved less than 10 % in that commit's recordings.
    """
    rows: list[dict[str, Any]] = json.loads(
        (checkout / "bench" / "corpus" / "recordings" / "times.json").read_text()
    )["rows"]
    names: list[str] = []
    seen = set(CASES)
    for seed in seeds:
        chance = random.Random(seed)
        left = [row for row in rows if row["name"] not in seen]
        faults = sorted(row["name"] for row in left if row["causes"] and row.get("gain", 0.0) >= _LEAST_GAIN)
        good = sorted(row["name"] for row in left if not row["causes"])
        names = [*chance.sample(faults, _FAULTS), *chance.sample(good, _GOOD)]
        seen.update(names)
    return names


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for it
    spec.loader.exec_module(module)
    return module


def _as_today(case: Any) -> Case:
    return Case(case.name, case.causes, case.prepare, case.mended, case.emulator, case.least)
