"""How much of a slowdown the compiled code explains, and what other Tritons change in it.

    python -m bench.code_diff [--out FOLDER] [--experiments]
    python -m bench.code_diff --tritons .matrix/3.6.0 .venv .matrix/3.8.0 .matrix/3.9.0

The first records configurations of a matmul in sessions with evidence, saves them, and prints `profscope diff
--show code` of each pair with the part that is unexplained. Without a GPU the emulator runs small sizes. The
second compiles five kernels for cuda:90 with each Triton, and prints the table of docs/diff.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench import kernels
from bench.kernels import Workload
from profscope.__main__ import main as profscope_main
from profscope.profiles import Profile
from tests.kernels import corpus
from tests.support.made_up_spans import ROWS, made_up

__all__ = ["main"]

_LAUNCHES: Final = 8
_ON_GPU: Final = torch.cuda.is_available()
_KERNELS: Final = ("softmax", "layer_norm", "matmul", "matmul_tma", "attention")


def main(argv: Sequence[str] | None = None) -> int:
    """Print; returns 1 if a slowdown is not explained to 70 %."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.code_diff", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FOLDER", help="keep the traces here")
    parser.add_argument("--experiments", action="store_true", help="also leave lines out")
    parser.add_argument("--tritons", nargs="+", default=(), metavar="ENV", help="as compile-diff --triton")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.tritons:
            _print_table(options.tritons, Path(folder))
            return 0
        out = options.out or Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        with kernels.surroundings():
            shares = [_compared(title, a, b, out, options) for title, a, b in _pairs()]
    return int(any(share < 0.7 for share in shares))


def _pairs() -> Iterator[tuple[str, Workload, Workload]]:
    """The first of each is the faster one."""
    if not _ON_GPU:
        fast = kernels.matmul(64, (32, 32, 32), 4)
        yield "num_stages 3 and 1", fast, _with(fast, num_stages=1)
        return
    fast = kernels.matmul(4096, (128, 128, 64), 8)
    yield "num_stages 3 and 1", fast, _with(fast, num_stages=1)
    yield "num_warps 8 and 4", fast, _with(fast, num_warps=4)
    yield "tiles 128 x 128 and 64 x 64", fast, kernels.matmul(4096, (64, 64, 64), 8)


def _with(workload: Workload, **options: int) -> Workload:
    return replace(workload, options={**workload.options, **options})


def _compared(title: str, a: Workload, b: Workload, out: Path, options: argparse.Namespace) -> float:
    """Prints a pair; returns which part of its slowdown is explained."""
    files = []
    for side, workload in (("a", a), ("b", b)):
        file = out / f"{title.replace(' ', '-')}-{side}.pftrace.gz"
        _recorded(workload, experiments=options.experiments).save(file)
        files.append(str(file))
    print(f"\n== {title}", flush=True)
    profscope_main(["diff", *files, "--show", "code", "--top", "25", "--width", "150"])
    (told,) = profscope.diff(*files).code.attrs["explained"]
    share = float((told["explained"] or 0.0) / (told["percent"] or 1.0))
    print(f"{title}: {told['percent']:+.1f} %, {share:.0%} of it explained", flush=True)
    return share


def _recorded(workload: Workload, *, experiments: bool) -> Profile:
    device = "cuda" if _ON_GPU else "cpu"
    inputs = workload.inputs(device)
    more: dict[str, Any] = {"ctas": 64} if _ON_GPU else {"backend": "emulator"}
    witnesses = ["counts", "samples", "counters", *["experiments"] * experiments]
    with profscope.session(evidence=witnesses, **more) as session:
        for _ in range(4 * _LAUNCHES if _ON_GPU else 2):
            workload.launch(inputs)
    return session.profile


# What other Tritons change.


def _print_table(tritons: Sequence[str], folder: Path) -> None:
    """A column for each Triton and the one before it; in it the facts that differ, and at how many lines."""
    specs = {spec.name: spec for spec in corpus.specs() if spec.name in _KERNELS}
    rows, versions = [], dict.fromkeys(tritons, "")
    for name in _KERNELS:
        spec, cells = specs[name], []
        entry = {
            "variant": 0, "key": "", "builds": [], "constexprs": dict(spec.constexprs),
            "signature": {each: spec.signature.get(each, "constexpr") for each in spec.fn.arg_names},
            "specialisation": {each: [["tt.divisibility", 16]] for each in spec.aligned}, **spec.options,
        }  # fmt: skip
        trace = folder / f"{name}.json.gz"
        variants = {spec.fn.__name__: [entry]}
        made_up(ROWS, variants=variants).save(trace)
        file = f"{spec.fn.fn.__code__.co_filename}:{spec.fn.__name__}"
        for a, b in pairwise(tritons):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                words = ["--triton", a, "--triton", b, "--like", str(trace), "--format", "json"]
                if profscope_main(["compile-diff", file, *words]):
                    raise SystemExit(1)
            told = json.loads(said.getvalue())
            versions[a], versions[b] = told["triton_a"], told["triton_b"]
            counts = Counter(each["fact"] for each in told["changes"])
            cells.append(", ".join(f"{fact} ({n})" for fact, n in counts.items()) or "nothing")
        rows.append([name, *cells])
        sys.stderr.write(f"{rows[-1]}\n")
    heads = [f"{versions[a]} to {versions[b]}" for a, b in pairwise(tritons)]
    for row in (["kernel", *heads], ["---"] * (1 + len(heads)), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    sys.exit(main())
