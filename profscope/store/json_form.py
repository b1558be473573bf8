"""Whether JSON has the form that its readers need: types, ranges and entries that may not lack.

A form is a type, a tuple of types, a range of integers, `[form]` for a list, `Row` for a list of so
many entries, a dict of forms by name for an object whose entries may lack or be null, or `Needs` for one of
which some may not. EACH is the name of all entries that are not named otherwise; these are never null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["ANY", "ANY_NUMBER", "EACH", "NUMBER", "Needs", "Row", "misfits"]

NUMBER: Final = (int, float)
ANY_NUMBER: Final = "number"  # NaN and the infinite ones, too
ANY: Final = object
EACH: Final = "*"
_MOST: Final = 1 << 63  # what 64 bits can hold


class Needs(NamedTuple):
    """An object. needed: entries that must be there; others: entries that may lack or be null."""

    needed: Mapping[str, Any]
    others: Mapping[str, Any] = {}


class Row(NamedTuple):
    """A list of so many entries, a form each."""

    forms: Sequence[Any]


def misfits(value: Any, form: Any, where: str) -> Iterator[str]:
    """What is of another form, in a few words each, such as "metadata['notes'] that is no list"."""
    if isinstance(form, dict):
        form = Needs({}, form)
    if isinstance(form, Needs):
        yield from _of_object(value, form, where)
    elif isinstance(form, list | Row):
        if not isinstance(value, list):
            yield f"{where} that is no list"
            return
        forms = form.forms if isinstance(form, Row) else form * len(value)
        if len(value) != len(forms):
            yield f"{where} that has {len(value)} entries, not {len(forms)}"
            return
        for at, (inner, inner_form) in enumerate(zip(value, forms, strict=True)):
            yield from misfits(inner, inner_form, f"{where}[{at}]")
    elif not _fits(value, form):
        yield f"{where} that is {value!r}"[:200]


def _of_object(value: Any, form: Needs, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} that is no object"
        return
    lacks = sorted(name for name in form.needed if value.get(name) is None)
    if lacks:
        yield f"{where} without {', '.join(lacks)}"
    forms = {**form.others, **form.needed}
    of_others = forms.pop(EACH, None)
    for name, inner in value.items():
        inner_form = forms.get(name, of_others)
        if inner_form is not None and (inner is not None or name not in forms):
            yield from misfits(inner, inner_form, f"{where}[{name!r}]")


def _fits(value: Any, form: Any) -> bool:
    if form is ANY:
        return True
    if form is ANY_NUMBER:
        return isinstance(value, float) or _fits(value, NUMBER)
    if isinstance(form, range):
        return type(value) is int and value in form
    if isinstance(value, bool):
        return form is bool
    if isinstance(value, int):
        return abs(value) < _MOST and isinstance(value, form)
    return isinstance(value, form) and not (isinstance(value, float) and not math.isfinite(value))
