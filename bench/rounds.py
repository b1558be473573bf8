"""The options of commands that run variants in rounds, with bare runs between them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

__all__ = ["rounds_parser"]


def rounds_parser(
    document: str | None, variants: Iterable[str], *, rounds: int, steps: int, limit_s: float
) -> argparse.ArgumentParser:
    """document: of the command; the others: what the options are by default, and which variants there are."""
    names = list(variants)
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--limit-s", type=float, default=limit_s, help="begin no other round after that")
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    return parser
