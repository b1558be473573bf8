"""Questions that not every installation has, and tables that not every profile has."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from profscope.schema import Tables

__all__ = ["function_of", "has_samples"]


def function_of(module: str, name: str) -> Any:
    """The function of a module of this room; None where there is no such module."""
    path = f"profscope.analysis.{module}"
    if importlib.util.find_spec(path) is None:
        return None
    return vars(importlib.import_module(path)).get(name)


def has_samples(tables: Tables) -> bool:
    """Whether there are any of the hardware's sampler."""
    return len(getattr(tables, "samples", ())) > 0
