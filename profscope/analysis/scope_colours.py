"""The colour of a scope by its work, the same in the terminal, in reports and in figures."""

from __future__ import annotations

import colorsys
import re
from typing import Final, NamedTuple, TypeAlias

import pandas as pd

__all__ = ["FAMILIES", "FRAMES", "INK", "IN_FLIGHT", "OTHERS", "Family", "frame_colour", "site_colours"]

Hsl: TypeAlias = "tuple[int, int, int]"
"""Hue in degrees, saturation and lightness in percent."""


class Family(NamedTuple):
    """Scopes that do alike. pattern: what their names hold; colours: of the first such scope of a kernel, of
    its second, and so on."""

    pattern: re.Pattern[str]
    colours: tuple[Hsl, ...]


def _family(pattern: str, *colours: Hsl) -> Family:
    return Family(re.compile(pattern), colours)


# The first that fits is taken. Searched for by machine: to whoever cannot see red, green or blue (Machado,
# Oliveira and Fernandes 2009) the first colours of any two families are at least 20 apart (CIE76 in CIELAB; 2
# can just be seen), any others at least 6, and black letters on all of them are read. Dark pages have the
# same: fills that bear white letters are hardly seen there.
FAMILIES: Final = (
    _family(
        r"wait|\bsync|barrier(?! (init|expect|arrive|inval))",
        (20, 79, 58),
        (16, 88, 76),
        (12, 67, 55),
        (28, 95, 60),
        (16, 43, 52),
        (40, 55, 58),
    ),
    _family(r"dot|mma|wgmma", (145, 67, 49), (141, 55, 67), (137, 43, 49), (133, 31, 46)),
    _family(r"async copy|tma|copy", (204, 87, 79), (220, 87, 73), (188, 87, 88), (212, 51, 73)),
    _family(
        r"load|gather",
        (208, 73, 55),
        (228, 73, 64),
        (200, 95, 68),
        (212, 37, 58),
        (196, 73, 52),
        (196, 40, 58),
    ),
    _family(r"store|scatter", (56, 83, 84), (52, 83, 66), (56, 47, 69), (76, 71, 69)),
    _family(r"atomic", (350, 63, 84), (2, 51, 69), (10, 27, 72), (342, 63, 66)),
    _family(r"reduce|sum|max|scan|exchange", (294, 17, 60), (298, 17, 75), (282, 17, 54), (278, 8, 66)),
    _family(r"convert|layout|trans", (39, 88, 53), (39, 76, 62), (27, 76, 44), (35, 76, 47)),
)
OTHERS: Final = Family(
    re.compile(""), ((252, 34, 60), (72, 34, 84), (108, 34, 64), (300, 34, 84), (0, 24, 56), (156, 34, 88))
)
IN_FLIGHT: Final = " in flight"
"""Behind the name of a scope whose asynchronous work it is."""
FRAMES: Final = {"kernel": 0, "loop": 1, "iteration": 2, "gap": 4}
_DRAIN: Final = "(drain)"
"""Ends the name of a wait behind a loop, which stands at the loop's line: the waits in it come first."""
INK: Final = "#10151f"
"""Of letters on these colours."""


def site_colours(sites: pd.DataFrame, among: pd.DataFrame | None = None, *, dark: bool = False) -> list[str]:
    """By site, the fill of its bars as "#rrggbb". Columns kernel, scope, kind and line are read.

    Scopes of one family take its colours in turn, by line; so each of a kernel has one of its own until they
    are used up, and neighbours never share one. among: all sites of the profile, where `sites` are some of
    them: colours are the same in every view then. dark: for a dark page, where kernels, loops and iterations
    are dark, too, and bear white letters.
    """
    numbers = _places_in_family(sites if among is None else among)
    colours = []
    for kernel, scope, kind, line in _rows(sites):
        if kind in FRAMES:
            colours.append(frame_colour(kind, dark=dark))
            continue
        shown = _family_of(scope).colours
        colours.append(_hex(*shown[numbers.get((kernel, scope, line), 0) % len(shown)]))
    return colours


def _places_in_family(sites: pd.DataFrame) -> dict[tuple[str, str, int], int]:
    """By kernel, scope and line: how many of the kernel's scopes of that family come before it."""
    known = {(kernel, line, scope) for kernel, scope, kind, line in _rows(sites) if kind not in FRAMES}
    taken: dict[tuple[str, Family], int] = {}
    numbers = {}
    for kernel, line, scope in sorted(known, key=lambda row: (row[2].endswith(_DRAIN), row)):
        of = (kernel, _family_of(scope))
        numbers[kernel, scope, line] = taken.get(of, 0)
        taken[of] = numbers[kernel, scope, line] + 1
    return numbers


def _rows(sites: pd.DataFrame) -> list[tuple[str, str, str, int]]:
    """Kernel, scope, kind and line; what is in flight has the name of what started it."""
    rows = sites[["kernel", "scope", "kind", "line"]].itertuples(index=False, name=None)
    return [
        (str(kernel), str(scope).removesuffix(IN_FLIGHT), str(kind), int(line))
        for kernel, scope, kind, line in rows
    ]


def _family_of(scope: str) -> Family:
    return next((each for each in FAMILIES if each.pattern.search(scope.lower())), OTHERS)


def frame_colour(kind: str, *, dark: bool = False) -> str:
    """The fill of a kernel, a loop, an iteration or a gap."""
    step = FRAMES[kind]
    return _hex(222, 12, 26 + 5 * step if dark else 90 - 4 * step)


def _hex(hue: float, saturation: float, light: float) -> str:
    parts = colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)
