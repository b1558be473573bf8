"""What a pass is: a frozen dataclass with a `name`, options as its fields, and `apply(module, context)`.

A new pass is one file: subclass `Pass`, decorate with `@register`, import it in `passes/__init__.py`.
Passes talk to each other only through the module: those that choose what to record insert the small
`profscope` dialect (see `dialect.py`), and `lower-records` turns that into ordinary ops.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from instrument_passes.errors import PassError
from instrument_passes.ir import Module

__all__ = ["Pass", "PassContext", "passes", "register", "signature"]


@dataclass(frozen=True)
class PassContext:
    """What passes know beyond the module.

    triton: (major, minor) of the Triton that will compile the module. buffer: a loop whose trip count is
    static and whose records per warp are at most this many gets room for all of them; others get a ring.
    """

    triton: tuple[int, int] = (3, 7)
    buffer: int = 8192


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Subclasses set `name` and define `apply`; their fields are their options.

    Option fields are bool, int, str or tuple[str, ...] and have defaults.
    """

    name: ClassVar[str] = ""

    def apply(self, module: Module, context: PassContext) -> None:
        """Rewrite the module in place. Raises PassError naming the op and line when it cannot."""
        raise NotImplementedError


_REGISTRY: Final[dict[str, type[Pass]]] = {}


def register(cls: type[Pass]) -> type[Pass]:
    """Class decorator: makes a pass available by its name. Raises PassError if the name is taken."""
    if _REGISTRY.get(cls.name, cls) is not cls:
        modules = f"{_REGISTRY[cls.name].__module__} and {cls.__module__}"
        raise PassError(f"two passes are named {cls.name!r}: {modules}")
    _REGISTRY[cls.name] = cls
    return cls


def passes() -> dict[str, type[Pass]]:
    """All registered passes by name."""
    return dict(sorted(_REGISTRY.items()))


def signature(cls: type[Pass]) -> dict[str, tuple[Any, Any]]:
    """A pass's options: name (dashes for underscores) -> (type, default)."""
    types = typing.get_type_hints(cls)
    return {f.name.replace("_", "-"): (types[f.name], f.default) for f in dataclasses.fields(cls)}
