"""The installed versions of packages and tools that profscope can use, found without importing them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from profscope.errors import ProfscopeError, SessionError

__all__ = ["EXTRAS", "missing", "require", "version"]

EXTRAS: Final = {
    "triton": ("triton", "torch"),
    "parquet": ("pyarrow",),
    "plot": ("matplotlib",),
    "completion": ("shtab",),
    "mcp": ("mcp",),
    "remote": ("upath",),
}
"""By extra of the distribution (see pyproject.toml), the modules that a user needs of it."""


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def require(extra: str, what: str, error: type[ProfscopeError] = SessionError) -> None:
    """Raise an error if a module of an extra is not installed. It names `what` needs it, and the command to
    install it."""
    modules = missing(extra)
    if modules:
        raise error(f"{what} needs {' and '.join(modules)}: pip install 'profscope[{extra}]'")


def version(module: str) -> str | None:
    """A module's version as its distribution has it; "" if that is not known, None if it is not installed."""
    from importlib import metadata

    if find_spec(module) is None:
        return None
    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return ""
