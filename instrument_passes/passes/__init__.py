"""Passes: frozen dataclasses with a `name`, options as their fields, and `apply(module, context)`.

A new pass is one file in this folder, with a subclass of `Pass` that is decorated with `@register`; nothing
else needs to name it. Passes talk to each other only through the module: those that choose what to record
insert the small `profscope` dialect (see `dialect.py`), and `lower-records` turns that into ordinary ops.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from profscope.instrument_passes.discovery import import_all
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.functions import Function
from profscope.instrument_passes.ir import Module

__all__ = [
    "ALLOCATES",
    "CHOOSES",
    "LOWERS",
    "TRITONS",
    "Pass",
    "PassContext",
    "passes",
    "register",
    "signature",
    "spelled",
    "summary",
]


TRITONS: Final = ((3, 6), (3, 7), (3, 8), (3, 9))  # (major, minor) of those that profscope knows


@dataclass(frozen=True)
class PassContext:
    """triton: (major, minor) of the Triton that will compile the module. functions: those that the module
    was made of; without them call paths lack names.
    """

    triton: tuple[int, int] = (3, 7)
    functions: tuple[Function, ...] = ()


CHOOSES: Final = 0
LOWERS: Final = 1
ALLOCATES: Final = 2


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Subclasses set `name` and define `apply`; their fields are their options.

    Option fields are bool, int, str or tuple[str, ...] and have defaults. The docstring becomes the pass's
    row in docs/passes.md. Its first paragraph describes the pass in one sentence, for `profscope opt --list`;
    a paragraph that begins with an option's name and a colon explains that option.

    `rank` is the place in a pipeline: passes that CHOOSE records come before those that LOWER them, and these
    before those that ALLOCATE the memory for them.
    """

    name: ClassVar[str] = ""
    rank: ClassVar[int] = CHOOSES

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
    """All passes by name: those of this folder, and those that plugins have registered so far.

    Raises PipelineError naming a file of this folder that cannot be imported.
    """
    import_all(__package__)
    return dict(sorted(_REGISTRY.items()))


def signature(cls: type[Pass]) -> dict[str, tuple[Any, Any]]:
    """A pass's options: name (dashes for underscores) -> (type, default)."""
    types = typing.get_type_hints(cls)
    return {f.name.replace("_", "-"): (types[f.name], f.default) for f in dataclasses.fields(cls)}


def spelled(value: Any) -> str:
    """The value of an option as a pipeline spells it: "true", "load;store"."""
    if isinstance(value, tuple):
        return ";".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def summary(cls: type[Pass]) -> list[str]:
    """The paragraphs of a pass's docstring, each on one line; empty if it has none."""
    text = inspect.cleandoc(cls.__doc__ or "")
    if text.startswith(f"{cls.__name__}("):  # what dataclasses write where there is none
        return []
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
