"""The folder of baselines: traces by name, of `profscope diff --against` and of pytest's `kernel_gate`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from profscope.errors import OptionError, TraceError

__all__ = ["FOLDER", "baseline_names", "baseline_path", "saved_baseline"]

FOLDER: Final = Path(".profscope/baselines")
"""By default, in the current folder."""

_SUFFIX: Final = ".pftrace.gz"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")


def baseline_path(folder: Path, name: str) -> Path:
    """The path of the baseline of a name. Raises OptionError for what can be no name."""
    if not _NAME.fullmatch(name):
        raise OptionError(f"{name!r} is no name of a baseline: letters, digits and _ . = + - are allowed")
    return folder / f"{name}{_SUFFIX}"


def baseline_names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))


def saved_baseline(folder: Path, name: str) -> Path:
    """The path of one that there is. Raises TraceError if there is none, naming those that there are."""
    path = baseline_path(folder, name)
    if not path.exists():
        known = ", ".join(baseline_names(folder)) or "none"
        raise TraceError(f"there is no baseline {name!r} in {folder}; there are: {known}")
    return path
