"""Record what docs/evidence.md shows: small kernels, and the evidence that the hardware gives of them.

    python -m bench.evidence_pages --out FOLDER [--only NAME ...]      on an NVIDIA GPU
    python -m bench.evidence_pages --out FOLDER --dry-run              small, on the emulator

FOLDER gets one trace for each kernel, with few spans.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch

import profscope
from bench.evidence_kernels import CASES, Launch, Prepare, matmul
from bench.kernels import surroundings
from bench.libraries.calls import function, is_installed
from bench.timing import synchronize

__all__ = ["PAGES", "main"]

_LAUNCHES: Final = 40
_EVERY: Final = 8  # of the launches that are not observed
_CTAS: Final = [0, 1, 2]  # record spans
_SECONDS: Final = 20.0
_SETTLED_S: Final = 0.2  # in which a session measures clocks and the cost of records
_LIBRARY: Final = "library-attention"


def _library_attention(small: bool) -> Launch:
    """fla-core's softmax attention, causal."""
    run = function("fla.ops.attn.parallel_attn")
    batch, length, heads = (1, 128, 2) if small else (4, 4096, 16)
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, length, heads, 64).bfloat16() for _ in range(3))
    return lambda: run(q, k, v)


PAGES: Final[dict[str, Prepare]] = {
    "gather": CASES["gather"],
    "scatter": CASES["scatter"],
    "division": CASES["64-bit division"],
    "float64": CASES["float64"],
    "float32-dot": CASES["float32 dot"],
    "matmul-grouped": matmul(8192),
    "matmul-ungrouped": CASES["matmul, ungrouped"],
    "column": CASES["transpose, unswizzled"],
    "column-swizzled": CASES["transpose, swizzled"],
    "attention": CASES["attention"],
    _LIBRARY: _library_attention,
}
"""By name of the trace: what prepares its kernel."""


def record(launch: Launch, path: Path) -> profscope.Session:
    """Launches in a session, saved. The first launch outside it tunes a kernel that tunes itself."""
    launch()
    synchronize()
    hardware = {"seconds": _SECONDS} if torch.cuda.is_available() else False
    with profscope.session(instrument="light", hardware=hardware, ctas=_CTAS, every=_EVERY) as prof:
        launch()
        synchronize()
        if hardware:
            time.sleep(_SETTLED_S)
            for _ in range(_LAUNCHES - 1):
                launch()
            synchronize()
    prof.save(path)
    return prof


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a kernel failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=PAGES, default=list(PAGES))
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("bench.evidence_pages: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    failed = []
    if is_installed("fla"):
        function("fla.ops.attn.parallel_attn")  # it asks Triton for the device before the emulator stands in
    with surroundings():
        for name in options.only:
            if name == _LIBRARY and not is_installed("fla"):
                print(f"{name}: fla-core is not installed, left out")
                continue
            try:
                begun = time.monotonic()
                path = options.out / f"{name}.pftrace.gz"
                with torch.device("cpu" if options.dry_run else "cuda"):
                    launch = PAGES[name](options.dry_run)
                prof = record(launch, path)
                print(
                    f"{name}: {path.stat().st_size:,} bytes, {len(prof.launches)} launches, {len(prof.df)} "
                    f"spans, {len(prof.counts)} counts, {len(prof.counters)} counters, "
                    f"{time.monotonic() - begun:.1f} s; {prof.limits().attrs.get('bound')}; "
                    f"{prof.metadata.get('hardware', {}).get('not_measured', [])}",
                    flush=True,
                )
            except Exception:  # noqa: BLE001  one kernel must not cost the others
                failed.append(name)
                print(f"{name}: {traceback.format_exc(limit=-3)[-1500:]}", flush=True)
    print("failed:", failed or "none")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
