"""Whether a dataclass that was read from a file holds what its fields are declared to hold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

__all__ = ["wrong_field"]

_MOST: Final = 1 << 63  # what 64 bits can hold


def wrong_field(value: Any) -> str | None:
    """The first field of another type than declared, as `Span.line='x'`; None if all are right.

    Types that are known: int of 64 bits, bool, str, dict, tuples of one type, unions, dataclasses and Any.
    """
    kind: type = type(value)
    for name, declared in _declared(kind).items():
        found = getattr(value, name)
        inside = found if isinstance(found, tuple) else (found,)
        within = next((wrong for each in inside if is_dataclass(each) and (wrong := wrong_field(each))), None)
        if within is not None:
            return within
        if not _fits(found, declared):
            return f"{kind.__name__}.{name}={found!r}"[:200]
    return None


@cache
def _declared(kind: Hashable) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}  # type: ignore[arg-type]


def _fits(value: object, declared: Any) -> bool:
    if isinstance(declared, UnionType):
        return any(_fits(value, each) for each in get_args(declared))
    kind = get_origin(declared) or declared
    if kind is tuple:
        return isinstance(value, tuple) and all(_fits(each, get_args(declared)[0]) for each in value)
    if kind is int:
        return type(value) is int and abs(value) < _MOST
    return kind is Any or isinstance(value, kind)
