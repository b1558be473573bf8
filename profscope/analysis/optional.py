"""Questions that not every installation has."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

__all__ = ["function_of"]


def function_of(module: str, name: str) -> Any:
    """The function of a module of this room; None where there is no such module."""
    path = f"profscope.analysis.{module}"
    if importlib.util.find_spec(path) is None:
        return None
    return vars(importlib.import_module(path)).get(name)
