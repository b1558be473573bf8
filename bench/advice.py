"""Kernels of libraries that nobody here wrote: what the findings say of them, and what the advice brings.

    python -m bench.advice [--kernels REGEX] [--rounds N] [--level heavy]     # on a GPU
    python -m bench.advice --dry-run                                          # on the emulator, small

Of each kernel one launch is taken out of a call of its library, and launched again: recorded, for its
findings; bare, for its time; and bare with what the findings advise to try, all in interleaved rounds.
Libraries that are not installed are left out. `saved` is what a change really takes off the launch's time.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
from collections.abc import Sequence
from statistics import median

import torch

import profscope
from bench import kernels
from bench.advised_kernels import KERNELS
from bench.libraries.calls import is_installed
from bench.library_launches import Kernel, launch_of
from bench.timing import device_us, why

__all__ = ["main"]


def _show(kernel: Kernel, options: argparse.Namespace, device: str) -> None:
    """Print a kernel's findings, its time, and what each change takes off it."""
    launch = launch_of(kernel, device, options.dry_run)
    with profscope.session(instrument=options.level, memory=2048, hardware=device == "cuda") as prof:
        for _ in range(1 if options.dry_run else 24):  # those observed leave some for the records
            launch()
    findings = prof.findings()
    for row in findings.to_dict("records"):
        print(f"{row['gain_pct']:5.1f} % {row['finding']} line {row['line']} ({row['confidence']})")
        print(f"        {row['evidence']}")
    print("       ", *findings.attrs["clean"].values(), *findings.attrs["not_measured"], sep="\n        ")
    tried = {"as it is": launch} | {name: change(launch) for name, change in kernel.changes.items()}
    took_us: dict[str, list[float]] = {name: [] for name in tried}
    for turn in range(options.rounds + 1):
        for name, each in list(tried.items()):
            try:
                took = device_us(each, 1 if options.dry_run or not turn else 5)
            except Exception as error:  # noqa: BLE001  what is tried may not fit; the others still count
                print(f"        {name}: {why(error)[:160]}")
                del tried[name], took_us[name]
                continue
            if turn:  # the first one compiles
                took_us[name].append(took)
    for name, took in took_us.items():
        if not took:
            continue
        before = median(took_us["as it is"])
        saved = 100 * (1 - median(took) / before)
        print(
            f"        {name}: {median(took):.1f} us ({min(took):.1f} to {max(took):.1f}), saved {saved:.0f} %"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 where a kernel failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.advice", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator where there is no GPU")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each time; 0 compiles")
    parser.add_argument("--level", default="heavy", help="what is recorded")
    parser.add_argument("--kernels", default="", metavar="REGEX", help="only those whose name it matches")
    options = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.advice: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    failed = 0
    with kernels.surroundings():
        for kernel in KERNELS:
            library = kernel.at.partition(".")[0]
            if not re.search(options.kernels, kernel.name) or not is_installed(library):
                continue
            print(f"== {kernel.name}", flush=True)
            try:
                _show(kernel, options, device)
            except Exception:  # noqa: BLE001  the others' figures still count
                traceback.print_exc()
                failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
