"""The examples that options of a session have."""

from __future__ import annotations

from typing import Any

from profscope.options import Options


def example(name: str) -> Any:
    """The value in an option's own example."""
    return eval(Options.__dataclass_fields__[name].metadata["example"].partition("=")[2])
