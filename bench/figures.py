"""The pictures of docs/views.md, of two launches that an H200 ran (tests/data/plotting).

    python -m bench.figures docs/pictures

`matmul.pftrace.gz` is a small pipelined matrix product at `instrument="heavy"`; of `waves.pftrace.gz`, 141
CTAs for 132 SMs, the spans of whole warps are kept. It needs matplotlib.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import profscope

__all__ = ["draw", "main"]

_RECORDINGS: Final = Path(__file__).parents[1] / "tests" / "data" / "plotting"
_PICTURES: Final = (
    ("matmul", "timeline"),
    ("matmul", "roofline"),
    ("waves", "heatmap"),
    ("waves", "waves"),
)
_DPI: Final = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Draw them."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("folder", type=Path)
    draw(parser.parse_args(argv).folder)
    return 0


def draw(folder: Path, only: str = "") -> None:
    """Draw those whose name has `only` in it into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for recording, what in _PICTURES:
        path = folder / f"plot-{what}.png"
        if only not in path.stem:
            continue
        prof = profscope.load(_RECORDINGS / f"{recording}.pftrace.gz")
        figure = getattr(prof.plot, what)()
        # Without the version in it, the file is the same whenever the figure is.
        figure.savefig(path, dpi=_DPI, metadata={"Software": None})
        print(path.name, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
