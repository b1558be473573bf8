"""Kernels of libraries that nobody here wrote: what the findings say of them, and what the advice brings.

    python -m bench.advice --out DIR [--kernels REGEX] [--rounds N]     # on a GPU
    python -m bench.advice --out DIR --dry-run                          # on the emulator, small

Of each kernel one launch is taken out of a call of its library, and launched again: recorded, for its
findings; bare, for its time; and bare with what the findings advise (`changes` in `bench.advised_kernels`),
all in interleaved rounds. A change must give the same results. The last line is the geometric mean of the
gains of kernels with a finding that promises more than 10 %; without a change that saves time a kernel counts
as 1.0. DIR gets `advice.json`, and profiles of each kernel and of its quickest change. Libraries that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any, Final

import torch

import profscope
from bench import kernels
from bench.about import about
from bench.advised_kernels import KERNELS
from bench.libraries.calls import is_installed
from bench.library_launches import Kernel, Launch, launch_of
from bench.timing import device_us, why
from profscope.analysis.cause import between_text, gain_text
from profscope.profiles import Profile

__all__ = ["main"]

_ONE_IN: Final = 1024  # CTAs records, of each grid at least eight
_EVERY: Final = 4  # of the launches that are not observed one in so many is recorded
_LAUNCHES: Final = 24  # those observed leave some for the records
_SHOWN: Final = 3  # findings
_LEAST_GAIN_PCT: Final = 10.0  # of a finding, for the kernel to count
_WITHIN: Final = 0.02  # of the largest result, as of half precision


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a kernel failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.advice", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for advice.json")
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator if there is no GPU")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each time")
    parser.add_argument("--kernels", metavar="REGEX", default="", help="those whose name it matches")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("bench.advice: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    chosen, failed = _imported(options.kernels)
    with torch.compiler.set_stance("force_eager"), kernels.surroundings():
        for kernel in chosen:
            try:
                rows.append(_looked_at(kernel, options))
            except Exception:  # noqa: BLE001  the others' figures still count
                traceback.print_exc()
                failed.append(kernel.name)
                continue
            print("\n".join(_text(rows[-1])), flush=True)
            found = {"about": about(dry_run=options.dry_run), "rows": rows, "failed": failed}
            (options.out / "advice.json").write_text(json.dumps(found, indent=1))
    gains = [gain for gain in map(_gain, rows) if gain is not None]
    if gains:
        print(f"{geometric_mean(gains):.2f} times as fast, the geometric mean of {len(gains)} of {len(rows)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return int(bool(failed))


def _imported(names: str) -> tuple[list[Kernel], list[str]]:
    """The kernels that are meant and installed, and those that cannot be imported.

    Libraries ask Triton for its device when they are imported: that is before the emulator stands in.
    """
    found, failed = [], []
    for kernel in KERNELS:
        if not re.search(names, kernel.name) or not is_installed(kernel.at.partition(".")[0]):
            continue
        try:
            importlib.import_module(kernel.at.rpartition(".")[0])
        except Exception:  # noqa: BLE001  the others' figures still count
            traceback.print_exc()
            failed.append(kernel.name)
        else:
            found.append(kernel)
    return found, failed


def _looked_at(kernel: Kernel, options: argparse.Namespace) -> dict[str, Any]:
    """A kernel's time and findings, and what each change takes off its time."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    launch, name = launch_of(kernel, device, options.dry_run), kernel.name.partition(" ")[2]
    findings = _recorded(launch, options, f"{name}.pftrace.gz").findings()
    changes = {title: change(launch) for title, change in kernel.changes.items()}
    times, failed = _times({"": launch} | changes, options)
    bare_us = median(times[""])
    if ran := changes.keys() - failed:
        best = min(ran, key=lambda change: median(times[change]))
        _recorded(changes[best], options, f"{name}-changed.pftrace.gz")
    return {
        "name": kernel.name,
        "bare_us": bare_us,
        "quartiles_us": _quartiles(times[""]),
        "findings": json.loads(findings.head(_SHOWN).to_json(orient="records")),
        "other": [*findings.attrs["clean"].values(), *findings.attrs["not_measured"]],
        "changes": [
            {"name": title, "failed": failed[title]}
            if title in failed
            else {
                "name": title,
                "us": median(times[title]),
                "quartiles_us": _quartiles(times[title]),
                "saved_pct": 100 * (1 - median(times[title]) / bare_us),
                "same_results": _same_results(launch, change),
            }
            for title, change in changes.items()
        ],
    }


def _recorded(launch: Launch, options: argparse.Namespace, file: str) -> Profile:
    with profscope.session(ctas=_ONE_IN, every=_EVERY, evidence=torch.cuda.is_available()) as prof:
        for _ in range(1 if options.dry_run else _LAUNCHES):
            launch()
    prof.save(options.out / file)
    return prof.profile


def _times(
    launches: Mapping[str, Launch], options: argparse.Namespace
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """us of each launch in interleaved rounds, of which the first one compiles; and why some failed."""
    times: dict[str, list[float]] = {name: [] for name in launches}
    failed: dict[str, str] = {}
    for turn in range(options.rounds + 1):
        for name in [name for name in launches if name not in failed]:
            try:
                took = device_us(launches[name], 1 if options.dry_run or not turn else 5)
            except Exception as error:  # what is tried may not fit; the others still count
                if not name:
                    raise
                failed[name] = why(error)
                continue
            if turn:
                times[name].append(took)
    return times, failed


def _quartiles(times: list[float]) -> list[float]:
    return [quantiles(times, n=4)[at] for at in (0, 2)] if len(times) > 1 else times * 2


def _same_results(launch: Launch, change: Launch) -> bool:
    """Whether a launch and its change leave the same in all tensors, up to rounding."""
    before = [each.detach().clone() for each in launch.tensors]
    found = []
    for run in (launch, change):
        for tensor, value in zip(launch.tensors, before, strict=True):
            tensor.detach().copy_(value)
        run()
        found.append([torch.nan_to_num(each.detach().double()) for each in launch.tensors])
    return all((a - b).abs().max() <= _WITHIN * a.abs().max() for a, b in zip(*found, strict=True))


def _text(row: Mapping[str, Any]) -> Iterator[str]:
    low, high = row["quartiles_us"]
    yield f"== {row['name']}: {row['bare_us']:.1f} us bare ({low:.1f} to {high:.1f})"
    for each in row["findings"]:
        expected, *bounds = (
            math.nan if each[name] is None else each[name]
            for name in ("gain_pct", "gain_low_pct", "gain_high_pct")
        )
        at = f"{Path(each['file']).name}:{each['line']}" if each["file"] else "the launch"
        known = ", ".join(filter(None, (between_text(*bounds), each["confidence"])))
        yield f"   {gain_text(expected)} {each['finding']} at {at} ({known})"
        yield f"           {each['evidence']}"
        yield f"           {each['advice']}"
    yield from (f"   {text}" for text in row["other"])
    for each in row["changes"]:
        if "failed" in each:
            yield f"   {each['name']}: {each['failed']}"
            continue
        low, high = each["quartiles_us"]
        same = "" if each["same_results"] else ", OTHER RESULTS"
        saved = f"saved {each['saved_pct']:.0f} %"
        yield f"   {each['name']}: {each['us']:.1f} us ({low:.1f} to {high:.1f}), {saved}{same}"


def _gain(row: Mapping[str, Any]) -> float | None:
    """How many times faster the best change is; None if no finding promises enough."""
    if not any((each["gain_pct"] or 0.0) > _LEAST_GAIN_PCT for each in row["findings"]):
        return None
    right = [each["us"] for each in row["changes"] if each.get("same_results")]
    return max(1.0, row["bare_us"] / min(right)) if right else 1.0


if __name__ == "__main__":
    sys.exit(main())
