"""What commands share that run steps of a model in rounds, with bare runs between them."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable

import torch

__all__ = ["rounds_parser", "steps_ms"]


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


def steps_ms(step: Callable[[], None], count: int) -> list[float]:
    """ms of each step, what the GPU has still to do at the end with the last."""
    torch.cuda.synchronize()
    at = [time.perf_counter()]
    for _ in range(count):
        step()
        at.append(time.perf_counter())
    torch.cuda.synchronize()
    at[-1] = time.perf_counter()
    return [(end - begin) * 1e3 for begin, end in itertools.pairwise(at)]
