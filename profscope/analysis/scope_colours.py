"""One colour for what a scope does, the same in reports and in figures."""

from __future__ import annotations

import colorsys
import re
from typing import Final, NamedTuple

import pandas as pd

__all__ = ["FAMILIES", "FRAMES", "IN_FLIGHT", "Family", "colour_of", "site_colours"]


class Family(NamedTuple):
    """Scopes that do alike. pattern: what their names hold; colour: hue in degrees, saturation and lightness
    in percent."""

    pattern: re.Pattern[str]
    colour: tuple[int, int, int]


def _family(pattern: str, *colour: int) -> Family:
    hue, saturation, light = colour
    return Family(re.compile(pattern), (hue, saturation, light))


# The first that fits is taken. Searched for by machine: to whoever cannot see red, green or blue (Machado,
# Oliveira and Fernandes 2009) any two are at least 20 apart (CIE76 in CIELAB), and black letters on them are
# read. Dark pages have the same: fills that bear white letters are hardly seen there.
FAMILIES: Final = (
    _family(r"wait|barrier|\bsync", 20, 79, 58),
    _family(r"dot|mma|wgmma", 145, 67, 49),
    _family(r"async copy|tma|copy", 204, 87, 79),
    _family(r"load|gather", 208, 73, 55),
    _family(r"store|scatter", 56, 83, 84),
    _family(r"atomic", 350, 63, 84),
    _family(r"reduce|sum|max|scan|exchange", 294, 17, 60),
    _family(r"convert|layout|trans", 39, 88, 53),
)
IN_FLIGHT: Final = " in flight"
"""Behind the name of a scope whose asynchronous work it is."""
FRAMES: Final = {"kernel": 0, "loop": 1, "iteration": 2, "gap": 4}
_STEPS: Final = (-4, -2, 0, 2, 4)  # of lightness: neighbours of one family differ


def site_colours(sites: pd.DataFrame, *, dark: bool = False) -> list[str]:
    """By site, the fill of its bars as "#rrggbb"; columns scope, kind and line are read.

    dark: for a dark page, where kernels, loops and iterations are dark, too, and bear white letters.
    """
    rows = sites[["scope", "kind", "line"]].itertuples(index=False, name=None)
    return [colour_of(str(scope), str(kind), int(line), dark=dark) for scope, kind, line in rows]


def colour_of(scope: str, kind: str, line: int, *, dark: bool = False) -> str:
    """The fill of one site's bars as "#rrggbb"."""
    if kind in FRAMES:
        step = FRAMES[kind]
        return _hex(222, 12, 26 + 5 * step if dark else 90 - 4 * step)
    scope = scope.removesuffix(IN_FLIGHT)
    family = next((each for each in FAMILIES if each.pattern.search(scope.lower())), None)
    shift = _STEPS[_hash(f"{scope}{line}") % len(_STEPS)]
    if family is None:
        return _hex(_hash(scope) % 360, 22, 76 + shift)
    hue, saturation, light = family.colour
    return _hex(hue, saturation, light + shift)


def _hash(text: str) -> int:
    """The same in every process."""
    value = 7
    for char in text:
        value = (value * 31 + ord(char)) & 0xFFFFFFFF
    return value


def _hex(hue: float, saturation: float, light: float) -> str:
    parts = colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
