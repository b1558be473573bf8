"""Colours of scopes: told apart by everybody, and letters on them are read."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from profscope.analysis.scope_colours import FAMILIES, FRAMES, INK, OTHERS, Family, frame_colour, site_colours
from profscope.analysis.spans.rows import sites
from tests.support.captured import captured

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


def colours(*sites: tuple[str, int], kind: str = "op", dark: bool = False) -> list[str]:
    """Of scopes of one kernel, each with its line."""
    rows = [("k", scope, kind, line) for scope, line in sites]
    return site_colours(pd.DataFrame(rows, columns=["kernel", "scope", "kind", "line"]), dark=dark)


def of_family(name: str) -> list[str]:
    """All that the scopes of one family have, the first one's first."""
    return list(dict.fromkeys(colours(*((name, line) for line in range(12)))))


def of_colours(family: Family) -> set[str]:
    """As "#rrggbb"."""
    example = dict(zip((*FAMILIES, OTHERS), (*EXAMPLES, "exp"), strict=True))[family]
    return set(of_family(example))


def apart(one: str, other: str) -> float:
    """The distance of two colours to whoever can tell them least."""
    return min(
        float(
            np.linalg.norm(np.subtract(*(lab(np.clip(seen @ linear(each), 0, 1)) for each in (one, other))))
        )
        for seen in SEEN.values()
    )


def test_any_two_colours_are_told_apart_by_everybody() -> None:
    """A distance of 2 can just be seen."""
    known = [colour for name in (*EXAMPLES, "exp") for colour in of_family(name)]
    assert len(known) == sum(len(each.colours) for each in (*FAMILIES, OTHERS))
    assert min(apart(one, other) for one, other in combinations(known, 2)) > 6


def test_letters_on_every_colour_are_read_and_bars_are_seen_on_a_dark_page() -> None:
    """Contrasts that WCAG's level AA wants, of letters and of parts of a picture."""
    for name in (*EXAMPLES, "exp"):
        assert colours((name, 1), (name, 2), dark=True) == of_family(name)[:2]
        for colour in of_family(name):
            assert contrast(colour, INK) >= 4.5, (name, colour)
            assert contrast(colour, "#14171d") >= 3, (name, colour)
    for dark, ink in ((False, INK), (True, "#ffffff")):
        for kind in ("kernel", "loop", "iteration", "gap"):
            assert contrast(frame_colour(kind, dark=dark), ink) >= 4.5


@pytest.mark.parametrize("name", ["attention-heavy-0", "matmul_ws-heavy-0", "matmul_tma-heavy-0"])
def test_each_scope_that_an_h200_recorded_has_a_colour_of_its_own(name: str) -> None:
    """Up to as many as its family has; and from then on neighbours differ."""
    known = sites(captured(name).df)[1]
    seen = {}
    for row, colour in zip(known.itertuples(), site_colours(known), strict=True):
        if row.kind not in FRAMES:
            seen[int(str(row.line)), str(row.scope).removesuffix(" in flight")] = colour
    ordered = [seen[place] for place in sorted(seen, key=lambda each: (each[1].endswith("(drain)"), each))]
    assert len(ordered) > 4
    assert all(one != other for one, other in pairwise(ordered))
    for family in (*FAMILIES, OTHERS):
        own = [colour for colour in ordered if colour in of_colours(family)]
        assert len(set(own)) == min(len(own), len(family.colours))
