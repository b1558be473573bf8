"""Colours of scopes: told apart by everybody, and letters on them are read."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.scope_colours import FAMILIES, colour_of

Floats = NDArray[np.float64]

# What somebody sees who lacks one kind of cone, of linear RGB (Machado, Oliveira and Fernandes 2009).
SEEN = {
    "all": np.eye(3),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
EXAMPLES = ("async wait", "dot", "async copy", "load", "store", "atomic add", "reduce", "convert layout")


def linear(colour: str) -> Floats:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Floats) -> Floats:
    """CIELAB of linear RGB, at D65."""
    xyz = XYZ @ rgb / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    """As WCAG 2 has it: 1 to 21."""
    light, dark = sorted((float(XYZ[1] @ linear(each)) for each in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def of_family(name: str) -> list[str]:
    """The colours that scopes of one family have, on whatever lines."""
    return sorted({colour_of(name, "op", line) for line in range(40)})


def test_families_are_told_apart_by_everybody() -> None:
    middles = [of_family(name) for name in EXAMPLES]
    assert len(middles) == len(FAMILIES)
    for name, seen in SEEN.items():
        for one, other in combinations(middles, 2):
            far = [lab(np.clip(seen @ linear(each[len(each) // 2]), 0, 1)) for each in (one, other)]
            assert np.linalg.norm(far[0] - far[1]) > 19, (name, one, other)


def test_letters_on_every_colour_are_read_and_bars_are_seen_on_a_dark_page() -> None:
    """Contrasts that WCAG's level AA wants, of letters and of parts of a picture."""
    names: list[Any] = [*EXAMPLES, "elementwise", "exp", "my own scope", "call helper"]
    for name in names:
        for colour in of_family(name):
            assert contrast(colour, "#10151f") >= 4.5, (name, colour)
            assert contrast(colour, "#14171d") >= 3, (name, colour)
            assert colour in {colour_of(name, "op", line, dark=True) for line in range(40)}
    for dark, ink in ((False, "#10151f"), (True, "#ffffff")):
        for kind in ("kernel", "loop", "iteration", "gap"):
            assert contrast(colour_of("k", kind, 1, dark=dark), ink) >= 4.5


def test_a_scope_and_what_it_has_in_flight_have_one_colour() -> None:
    assert colour_of("async copy a in flight", "async", 7) == colour_of("async copy a", "op", 7)
    assert len(of_family("load")) > 1
