"""Whether spans and the hardware's samples agree on where a kernel's time goes, line by line.

    python -m bench.agreement [--rows REGEX] [--lines 8] [--json FILE]

Each kernel runs in a session that samples. Printed are the distances of the witnesses (docs/source-view.md),
with the line where they differ most, and the lines that take most of the time. --dry-run takes small sizes
and, without a GPU, the emulator, which has no samples.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

import profscope
from bench import kernels
from bench.about import about
from bench.kernels import Workload
from bench.timing import synchronize, why
from profscope.evidence.samples import LAUNCHES

__all__ = ["main"]

_LAUNCHES: Final = 4  # beyond those that are sampled
_MEMORY_MIB: Final = 1024
_DISTANCES: Final = ("first", "second", "distance", "noise", "lines", "line", "difference", "elsewhere")
_LINES: Final = (
    "line", "source", "self_share", "share_samples", "share_samples_recorded", "stalls",
    "waits_for",
)  # fmt: skip


def workloads(*, small: bool) -> Iterator[Workload]:
    """Each with hundreds of thousands of spans a launch: all CTAs record, for all are sampled."""
    if small:
        yield from (kernels.layer_norm(8, 512), kernels.matmul(128, (64, 64, 32), 4))
        return
    yield kernels.attention(16, 2048)
    yield kernels.layer_norm(2048, 4096)
    yield kernels.matmul(2048, (128, 256, 64), 8)
    yield kernels.matmul_tma(2048, (128, 256, 64), 8, programs=132)
    yield kernels.matmul_ws(2048, (128, 128, 64), 4)


def recorded(workload: Workload, level: str, device: str) -> profscope.Profile:
    """The profile of some launches, the first of them with cold caches."""
    inputs = workload.inputs(device)
    workload.launch(inputs)
    synchronize()
    options: dict[str, Any] = {"instrument": level, "memory": _MEMORY_MIB}
    if device == "cuda":
        options["hardware"] = ["samples"]
    with profscope.session(**options) as prof:
        for _ in range(LAUNCHES + _LAUNCHES):
            workload.launch(inputs)
    return prof.profile


def shown(profile: profscope.Profile, most: int) -> str:
    """The tables of one profile as text."""
    lines, distances = profile.lines(), profile.timeline.distances()
    texts = [f"  not measured: {text}" for text in lines.attrs["not_measured"]]
    texts += [f"  note: {text}" for text in profile.metadata["notes"]]
    with pd.option_context("display.width", 250, "display.max_columns", 30, "display.max_colwidth", 60):
        if len(distances):
            told = distances[[name for name in _DISTANCES if name in distances]]
            texts.append(told.round(4).to_string(index=False))
        own = lines[[name for name in _LINES if name in lines]]
        texts.append(own.head(most).round(4).to_string(index=False))
    return "\n".join(texts)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a kernel could not be measured."""
    options = _arguments(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.agreement: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    failed = 0
    rows: list[dict[str, Any]] = []
    with kernels.surroundings():
        for workload in workloads(small=options.dry_run):
            name = f"{workload.name}, {options.level}"
            if options.rows not in name:
                continue
            try:
                profile = recorded(workload, options.level, device)
                print(f"\n{name}\n{shown(profile, options.lines)}", flush=True)
                apart = profile.timeline.distances().astype(object).to_dict("records")
                rows += [{"kernel": name, **row} for row in apart]
                if options.save:
                    kept = profscope.Profile(
                        launches=profile.launches, metadata=profile.metadata, samples=profile.samples
                    )
                    kept.save(options.save / f"{workload.fn.__name__}.json.gz")
            except Exception as error:  # noqa: BLE001  the other kernels still count
                failed += 1
                print(f"\n{name}\n  {why(error)}", flush=True)
    if options.json:
        facts = about(dry_run=options.dry_run)
        options.json.write_text(json.dumps({"about": facts, "rows": rows}, indent=1, default=str))
    return int(failed > 0)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.agreement",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rows", default="", metavar="TEXT", help="only what has it in its name")
    parser.add_argument("--level", default="heavy", help="what is recorded (default heavy)")
    parser.add_argument("--lines", type=int, default=8, help="that are shown of each kernel")
    parser.add_argument("--json", type=Path, help="where the distances go")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="where the samples go, as traces")
    parser.add_argument("--dry-run", action="store_true", help="small sizes; without a GPU on the emulator")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
