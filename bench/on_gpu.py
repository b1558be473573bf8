"""The command line of benches that need a GPU, and run small on the emulator to show that they run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch

__all__ = ["arguments"]


def arguments(name: str, about: str | None, argv: Sequence[str] | None) -> argparse.Namespace | None:
    """rows, a pattern of kernels, and tiny; None, and a line on standard error, if a GPU is needed.

    name: of the bench's module; about: its docstring.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only kernels that it matches")
    parser.add_argument("--tiny", action="store_true", help="small sizes; without a GPU on the emulator")
    options = parser.parse_args(argv)
    if options.tiny or torch.cuda.is_available():
        return options
    print(f"{name}: no GPU is active; --tiny shows that it runs", file=sys.stderr)
    return None
