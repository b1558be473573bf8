"""Sectors and wavefronts over the ideal, by line: the emulator's and a GPU's, of the corpus' memory cases.

    python -m bench.access_patterns          needs no GPU

The GPU's are those of the recordings in `bench/corpus`, at full size, with its own code for the access; the
emulator runs the cases small, and compiles for sm_80. So lines whose strides depend on the size may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import profscope
from bench.corpus import addressing, eighth_images, second_memory, seventh_memory, shared, sixth_memory
from bench.corpus.cases import CASES
from bench.diagnose import EMULATED, RECORDINGS, cases, emulated_profile
from profscope.profiles import Profile

__all__ = ["main"]

_ROOMS: Final = (addressing, shared, second_memory, sixth_memory, seventh_memory, eighth_images)
_COLUMNS: Final = ("sectors_over_ideal", "wavefronts_over_ideal")
_NEAR: Final = 0.02


def main() -> None:
    """Print each line that both know, and how many are equal."""
    files = {row["name"]: row["file"] for row in cases()}
    equal = different = 0
    for name in (case.name for room in _ROOMS for case in room.CASES):
        if name not in files or CASES[name].least > EMULATED:
            continue
        on_gpu = profscope.load(RECORDINGS / files[name])
        for column, line, gpu, emulator in _compared(on_gpu, emulated_profile(name)):
            is_equal = abs(gpu - emulator) <= _NEAR * max(gpu, emulator)
            equal, different = equal + is_equal, different + (not is_equal)
            print(f"{'' if is_equal else 'OTHER':6}{name:40}{line:5}  {column:24}{gpu:8.2f}{emulator:8.2f}")
    print(f"{equal} of {equal + different} are equal within {100 * _NEAR:.0f} %")


def _compared(gpu: Profile, emulator: Profile) -> Iterator[tuple[str, int, float, float]]:
    """Column, line, and what both say."""
    for column in _COLUMNS:
        known = []
        for profile in (gpu, emulator):
            lines = profile.lines()
            of_lines = lines.dropna(subset=[column]) if column in lines else lines[:0].assign(**{column: 0.0})
            known.append(
                {int(line): float(most) for line, most in of_lines.groupby("line")[column].max().items()}
            )
        for line in sorted(known[0].keys() & known[1].keys()):
            yield column, line, known[0][line], known[1][line]


if __name__ == "__main__":
    main()
