"""Record a kernel of fla-core as the library launches it, and changed as its findings advise.

    python -m bench.library_recording --out FOLDER             # on a GPU
    python -m bench.library_recording --out FOLDER --dry-run   # on the emulator, small

The recurrent gated delta rule is a loop over time steps that uses at once what it loads. `before` is the
library's kernel; in `after` the loop is `tl.range(0, T, num_stages=3)`. Each profile has spans of some
CTAs, launches under the GPU's sampler, and bare ones by turns. The pages and `bench.pictures` show both.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

import profscope
from bench import kernels
from bench.libraries.calls import function
from bench.library_launches import Kernel, Launch, launch_of
from bench.timing import device_us, synchronize

__all__ = ["main"]

_KERNEL: Final = "fla.ops.gated_delta_rule.fused_recurrent.fused_recurrent_gated_delta_rule_fwd_kernel"
_CALL: Final = "fla.ops.gated_delta_rule.fused_recurrent.fused_recurrent_gated_delta_rule"
_LOOP: Final = "tl.range(0, T)"
_ROUNDS: Final = 9


def main(argv: Sequence[str] | None = None) -> int:
    """Record both; returns 1 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m bench.library_recording", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator where there is no GPU")
    parser.add_argument("--ctas", type=int, default=32, help="record every n-th")
    parser.add_argument("--launches", type=int, default=48)
    options = parser.parse_args(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("bench.library_recording: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    function(_CALL)  # fla-core asks Triton for the device when it is imported: before the emulator stands in
    with kernels.surroundings(), tempfile.TemporaryDirectory(prefix="changed-") as folder:
        before = launch_of(Kernel(_KERNEL, _call), "cpu" if options.dry_run else "cuda", options.dry_run)
        both = {"before": before, "after": replace(before, kernel=_changed(Path(folder)))}
        _time(both)
        for name, launch in both.items():
            _record(launch, options, options.out / f"{name}.pftrace.gz")
    return 0


def _call(device: str, small: bool) -> Callable[[], Any]:
    """16 heads of 128 over 128 steps of one sequence."""
    length, heads, width = (8, 1, 32) if small else (128, 16, 128)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, length, heads, width, device=device).bfloat16() for _ in range(3))
    beta, decay = torch.rand(1, length, heads, device=device), -torch.rand(1, length, heads, device=device)
    run = function(_CALL)
    return lambda: run(q=q, k=torch.nn.functional.normalize(k, dim=-1), v=v, beta=beta, g=decay)


def _changed(folder: Path) -> Any:
    """The kernel of a copy of the library's file, in which its loop starts loads ahead."""
    module, _, name = _KERNEL.rpartition(".")
    original = Path(str(importlib.import_module(module).__file__))
    text = original.read_text()
    if text.count(_LOOP) != 1:
        raise RuntimeError(f"{original} has another loop than {_LOOP}")
    copy = folder / original.name
    copy.write_text(text.replace(_LOOP, "tl.range(0, T, num_stages=3)"))
    spec = importlib.util.spec_from_file_location("changed_fused_recurrent", copy)
    assert spec is not None
    assert spec.loader is not None
    changed = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = changed
    spec.loader.exec_module(changed)
    return vars(changed)[name]


def _time(launches: dict[str, Launch]) -> None:
    """Print the times of bare launches, medians of interleaved rounds."""
    took_us: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(_ROUNDS):
        for name, launch in launches.items():
            took_us[name].append(device_us(launch, 5))
    for name, took in took_us.items():
        print(f"{name}, bare: {median(took):.1f} us ({min(took):.1f} to {max(took):.1f})")


def _record(launch: Launch, options: argparse.Namespace, path: Path) -> None:
    synchronize()
    with profscope.session(hardware=True, baseline=20, ctas=options.ctas, memory=1024) as prof:
        for _ in range(options.launches):
            launch()
    prof.save(path)
    print(path.name, f"{path.stat().st_size:,} bytes", prof, prof.verdict, sep="\n")


if __name__ == "__main__":
    raise SystemExit(main())
