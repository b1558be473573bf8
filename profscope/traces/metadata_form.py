"""Which form the entries of a profile's metadata have that analyses read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from profscope.analysis.launch_shape import LATER_FIGURES, SHAPE_FIGURES
from profscope.traces.only import SUMS_OF_RANK

__all__ = ["misshapen"]

_NUMBER: Final = (int, float)
_ANY: Final = object
_EACH: Final = "*"
"""The key of what all entries of a dict are."""

_BINARY: Final = {"kernel": str, "variant": int, "binary": str}
_SHAPE: Final = {"variant": int, **dict.fromkeys((*SHAPE_FIGURES, *LATER_FIGURES), _NUMBER)}
_FORM: Final[dict[str, Any]] = {
    "tool": str,
    "backend": str,
    "device": {"name": str, "arch": str, "sm_count": int},
    "options": {},
    "notes": [_ANY],
    "clock": {"read_cycles": _NUMBER, "row_cycles": _NUMBER, "basis": str},
    "kernels": {_EACH: {"measure": str, "recorded": {}, "work": [{}], "shapes": [_SHAPE]}},
    "variants": {_EACH: [{"variant": int, "key": str, "builds": [{}]}]},
    "sources": [{"file": str, "line": int, "name": str, "text": str}],
    "code": [{"kernel": str, "variant": int}],
    "job": {"rank": int, "world_size": int, "id": str, "began_unix_ns": int, "clock": [_ANY]},
    "ranks": [{"rank": int}],
    SUMS_OF_RANK: int,
    "host_clock": {"devices": {_EACH: [{"timer_ns": int, "unix_ns": int, "error_ns": _NUMBER}]}},
    "sampler": {"binaries": [_BINARY]},
    "baseline": {"kernels": {_EACH: [{"variant": int}]}},
    "ncu": {"kernels": [{"kernel": str}]},
    "sampling": {"kernels": {_EACH: {}}},
    "keeping": {"kernels": {_EACH: {}}},
    "part": {},
}
_NEEDED: Final = {
    "sources": frozenset({"file", "line", "name", "text"}),
    "ranks": frozenset({"rank"}),
    "shapes": frozenset({"variant", *SHAPE_FIGURES}),
}


def misshapen(metadata: dict[str, Any]) -> Iterator[str]:
    """What is of another form, in a few words each. Entries may lack, and be None."""
    yield from _misfits(metadata, _FORM, "metadata")


def _misfits(value: Any, form: Any, where: str, needed: frozenset[str] = frozenset()) -> Iterator[str]:
    if isinstance(form, dict):
        if not isinstance(value, dict):
            yield f"{where} that is no object"
            return
        if not needed <= value.keys():
            yield f"{where} without {', '.join(sorted(needed - value.keys()))}"
        for name, inner in value.items():
            of = form.get(name, form.get(_EACH))
            if of is not None and inner is not None:
                yield from _misfits(inner, of, f"{where}[{name!r}]", _NEEDED.get(name, frozenset()))
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield f"{where} that is no list"
            return
        for at, inner in enumerate(value):
            yield from _misfits(inner, form[0], f"{where}[{at}]", needed)
    elif not isinstance(value, form):
        yield f"{where} that is {value!r}"[:200]
