"""Profile a fused softmax and a matrix product with a fault, check their results and save the trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import profscope
from profscope.errors import run_command

__all__ = ["main"]

GPU_SIZES = (8192, 4096, 2048, 128)
EMULATOR_SIZES = (1024, 1024, 512, 64)
"""Rows and columns of the softmax; side and block of the matrix product."""

_EPILOG = """\
It runs on the GPU where there is one, else on the emulator, with smaller inputs.
Then look at the trace:

    profscope view trace.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command("profscope.demo", lambda: _main(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m profscope.demo",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trace",
        type=Path,
        help="the file to write; its suffix says the format: .pftrace.gz, .json.gz, .parquet, .html, ...",
    )
    return parser


def _main(options: argparse.Namespace) -> int:
    session = profscope.session()  # says what is missing where Triton is
    import torch

    from profscope.demo.kernels import matmul, softmax

    gpu = torch.cuda.is_available()
    rows, cols, side, block = GPU_SIZES if gpu else EMULATOR_SIZES
    device = "cuda" if gpu else "cpu"
    torch.manual_seed(0)
    x = torch.randn(rows, cols, device=device)
    a, b = (torch.randn(side, side, device=device).half() for _ in range(2))
    with session as prof:
        weights = softmax(x, programs=128)
        c = matmul(a, b, block)
    torch.testing.assert_close(weights, torch.softmax(x, 1))
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-1)
    prof.save(options.trace)
    return 0


if __name__ == "__main__":
    sys.exit(main())
