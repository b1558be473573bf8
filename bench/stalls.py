"""Stall samples against kernels whose stalls are known beforehand, and what sampling costs.

    python -m bench.stalls [--cases REGEX] [--json FILE] [--tiny]

For each kernel: the reason that most of its waiting warps give, its share of all samples of waiting warps,
and the line that is blamed, beside what is expected. Then what sampled launches of a matmul take more than
others, and what others take beside them. Needs an NVIDIA GPU whose sampler may be used; with --tiny it runs
without one, on the emulator, to show that it runs.
"""

from __future__ import annotations

import argparse
import json
import linecache
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pandas as pd
import torch

import profscope
from bench import kernels, stall_kernels
from bench.about import about
from bench.cold import chase_kernel, timed_chase_kernel
from bench.timing import device_us, synchronize
from profscope.binaries.blame import blame
from profscope.evidence.samples import LAUNCHES
from profscope.evidence.subject import SampledLaunch

__all__ = ["Case", "Verdict", "cases", "judged", "main", "sampled"]

_STEPS: Final = {"L1": 20_000, "L2": 20_000, "DRAM": 800_000}  # the latter: twice what fits into an L2
_NO_WAIT: Final = ("selected", "not_selected")  # warps that issue, or could
_PER_CTA: Final = 2048  # elements of the output that a CTA may write


@dataclass(frozen=True)
class Case:
    """launch: of one kernel. reasons: one of which is expected; text: of the line that is to be blamed;
    share: of the waiting warps' samples, at least."""

    name: str
    launch: Callable[[], Any]
    reasons: tuple[str, ...]
    text: str
    share: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """share: the reason's, of the samples of waiting warps. shares: the three largest. line: what is blamed
    for most of the reason's samples."""

    name: str
    expected: str
    reason: str
    share: float
    line: str
    right: bool
    samples: int
    dropped: int
    period_log2: int
    shares: dict[str, float]


def judged(case: Case, launches: Sequence[SampledLaunch]) -> Verdict:
    """What the samples of a case's bare launches say. Raises RuntimeError where there are none."""
    bare = [each for each in launches if each.binary == "bare" and each.taken]
    if not bare:
        raise RuntimeError("no samples")
    of_all = pd.concat(_stalls(each) for each in bare)
    waiting = of_all[~of_all["stall"].isin(_NO_WAIT)]
    by_reason = (
        waiting.groupby("stall")["samples"].sum().sort_values(ascending=False) / waiting["samples"].sum()
    )
    reason = str(by_reason.index[0])
    compiled = SimpleNamespace(asm={"cubin": bare[0].cubin, "ptx": bare[0].ptx})
    sass = profscope.instructions(compiled)
    charged = blame(sass, of_all.groupby(["pc", "stall"], as_index=False)["samples"].sum())
    of_reason = charged[charged["stall"] == reason].merge(sass, left_on="blamed_pc", right_on="pc")
    of_lines = of_reason.groupby(["file", "line"], observed=True)["samples"].sum()
    file, line = of_lines.idxmax()
    text = linecache.getline(file, line).strip()
    share = float(by_reason.iloc[0])
    return Verdict(
        name=case.name,
        expected=" or ".join(case.reasons),
        reason=reason,
        share=share,
        line=f"{Path(file).name}:{line} {text}",
        right=reason in case.reasons and case.text in text and share >= case.share,
        samples=sum(each.taken for each in bare),
        dropped=sum(each.dropped for each in bare),
        period_log2=bare[-1].period_log2,
        shares={str(name): round(float(value), 3) for name, value in by_reason.head(3).items()},
    )


def _stalls(launch: SampledLaunch) -> pd.DataFrame:
    """pc, stall, samples of a launch."""
    names = np.array(launch.reasons)
    return pd.DataFrame(
        {
            "pc": launch.rows["pc"].astype(np.int64),
            "stall": names[launch.rows["reason"]],
            "samples": launch.rows["samples"].astype(np.int64),
        }
    )


def cases(device: str, *, tiny: bool) -> list[Case]:
    """The kernels of the table. tiny: for the emulator."""
    sms = 1 if tiny else torch.cuda.get_device_properties(0).multi_processor_count
    rounds = 2 if tiny else 2000
    out = torch.zeros(sms * _PER_CTA * 2, device=device)
    whole = torch.zeros(sms * _PER_CTA, dtype=torch.int32, device=device)
    tile = torch.zeros(64 * 64, device=device)
    block = 16 if tiny else 128
    halves = torch.zeros(block * 64, dtype=torch.float16, device=device)
    tiles = torch.zeros(sms * block * block, device=device)

    def wide(kernel: Any, warps: int, *args: Any, **constexprs: Any) -> Callable[[], Any]:
        return lambda: kernel[(sms,)](*args, **constexprs, num_warps=warps)

    chased = [
        Case(
            f"pointer chase in {where}",
            _chase(device, 16 if tiny else kib, 64 if tiny else _STEPS[where]),
            ("long_scoreboard",),
            "tl.load(next_ptr + at)",
            share,
        )
        # In L1 a step takes 42 cycles, of which 15 are fixed latencies: at most 69 % (docs/benchmarks.md).
        for where, kib, share in (("L1", 16, 0.62), ("L2", 4096, 0.95), ("DRAM", 1 << 20, 0.95))
    ]
    return [
        *chased,
        Case(
            "one warp late at a barrier",
            wide(stall_kernels.late_kernel, 4, whole, rounds, 500, WARPS=4),
            ("barrier",),
            "# blamed",
        ),
        Case(
            "bank-conflicted transpose",
            lambda: stall_kernels.transpose_kernel[(1,)](tile, tile, rounds, N=64, num_warps=4),
            ("short_scoreboard", "mio_throttle"),
            "# blamed",
        ),
        Case(
            "exponentials",
            wide(stall_kernels.exp_kernel, 8, out, rounds, BLOCK=_PER_CTA),
            ("math_pipe_throttle", "wait"),
            "# blamed",
        ),
        Case(
            "FMA chain",
            wide(stall_kernels.fma_kernel, 4, out, rounds, 0.5, BLOCK=128),
            ("wait", "math_pipe_throttle"),
            "# blamed",
        ),
        Case(
            "code beyond the caches for it",
            wide(stall_kernels.thrash_kernel, 4, out, max(rounds // 20, 1), BLOCK=128),
            ("no_instructions",),
            "# blamed",
        ),
        Case(
            "dots on tiles in place",
            wide(stall_kernels.dots_kernel, 4, halves, halves, tiles, rounds, BLOCK=block, K=64),
            ("barrier",),  # as Hopper calls a wait for wgmma
            "# blamed",
        ),
        *(_matmul(device, stages, tiny=tiny) for stages in (1, 4)),
    ]


def _chase(device: str, kib: int, steps: int) -> Callable[[], Any]:
    """One warp through so much memory, one pointer a line of 128 bytes, in random order."""
    count = kib * 1024 // 128
    order = np.random.default_rng(0).permutation(count)
    chain = np.zeros(count * 32, np.int32)
    chain[order * 32] = np.roll(order, -1) * 32
    pointers = torch.from_numpy(chain).to(device)
    out, cycles = (
        torch.zeros(1, dtype=torch.int32, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
    )

    def launch() -> Any:
        return chase_kernel[(1,)](pointers, out, steps, num_warps=1)

    def cycles_a_step() -> float:
        timed_chase_kernel[(1,)](pointers, out, cycles, steps, num_warps=1)
        timed_chase_kernel[(1,)](pointers, out, cycles, steps, num_warps=1)
        return float(cycles.item() / steps)

    launch.cycles = cycles_a_step  # type: ignore[attr-defined]
    return launch


def _matmul(device: str, stages: int, *, tiny: bool) -> Case:
    size, tile, warps = (128, (64, 64, 32), 4) if tiny else (4096, (128, 256, 64), 8)
    if stages == 1:  # each CTA waits for its own copies, and so more fit onto an SM
        tile, warps = (tile[0], min(tile[1], 128), tile[2]), 4
    plain = kernels.matmul(size, tile, warps)
    workload = replace(plain, options={**plain.options, "num_stages": stages})
    inputs = workload.inputs(device)
    waits = (
        ("long_scoreboard", "barrier", "short_scoreboard")
        if stages == 1
        else ("barrier", "warpgroup_arrive", "gmma")
    )
    text = "tl.load" if stages == 1 else "tl.dot"
    return Case(f"matmul, {stages} stage{'s' * (stages > 1)}", lambda: workload.launch(inputs), waits, text)


def sampled(case: Case) -> tuple[list[SampledLaunch], list[str]]:
    """Samples of some launches of a case, and the session's notes."""
    with profscope.session(hardware=["samples"], instrument="light") as prof:
        for _ in range(LAUNCHES + 2):
            case.launch()
    assert prof._running is not None
    return prof._running.observing.samples(), prof.metadata["notes"]


def costs(device: str, *, tiny: bool) -> dict[str, float]:
    """What sampling costs: times of launches of a matmul of about 200 us."""
    workload = kernels.matmul(128, (64, 64, 32), 4) if tiny else kernels.matmul(4096, (128, 128, 64), 4)
    inputs = workload.inputs(device)
    many = 2 if tiny else 20

    def ms() -> float:
        synchronize()
        begun = time.perf_counter()
        workload.launch(inputs)
        synchronize()
        return 1e3 * (time.perf_counter() - begun)

    workload.launch(inputs)
    figures = {"bare launch, ms": statistics.median(ms() for _ in range(many))}
    with profscope.session(instrument="light"):
        for _ in range(2):  # the second waits once for what the first has shown
            workload.launch(inputs)
        figures["recorded launch, ms"] = statistics.median(ms() for _ in range(many))
        figures["recorded launch, us on the device"] = device_us(lambda: workload.launch(inputs), many)
    for which in ("first", "second"):
        with profscope.session(instrument="light", hardware=["samples"]):
            workload.launch(inputs)
            figures[f"{which} session, first sampled launch, ms"] = ms()
            figures[f"{which} session, sampled launch, ms"] = statistics.median(
                ms() for _ in range(LAUNCHES - 1)
            )
            figures[f"{which} session, later launch, ms"] = statistics.median(ms() for _ in range(many))
            figures[f"{which} session, later launch, us on the device"] = device_us(
                lambda: workload.launch(inputs), many
            )
            begun = time.perf_counter()
        figures[f"{which} session, its end, ms"] = 1e3 * (time.perf_counter() - begun)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a figure is missing or not as expected."""
    options = _arguments(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.tiny:
        print("python -m bench.stalls needs an NVIDIA GPU; --tiny runs without one", file=sys.stderr)
        return 2
    verdicts, failed = [], 0
    with kernels.surroundings():
        for case in cases(device, tiny=options.tiny):
            if not re.search(options.cases, case.name):
                continue
            try:
                launches, notes = sampled(case)
                verdict = judged(case, launches)
            except Exception as error:  # noqa: BLE001  the others' figures still count
                failed += 1
                print(
                    f"{case.name}: {type(error).__name__}: {error}",
                    *[f"    {note}" for note in notes],
                    sep="\n",
                )
                continue
            verdicts.append(verdict)
            failed += not verdict.right
            print(_line(verdict), flush=True)
            if hasattr(case.launch, "cycles"):
                print(f"    cycles a step: {case.launch.cycles():.0f}", flush=True)
        figures = costs(device, tiny=options.tiny) if re.search(options.cases, "costs") else {}
    for name, value in figures.items():
        print(f"{name:50} {value:10.3f}")
    if options.json is not None:
        document = {"about": about(), "stalls": [asdict(each) for each in verdicts], "costs": figures}
        options.json.write_text(json.dumps(document, indent=1))
    return int(failed > 0)


def _line(verdict: Verdict) -> str:
    word = "right" if verdict.right else "WRONG"
    return (
        f"{word}  {verdict.name}: {100 * verdict.share:.1f} % {verdict.reason} "
        f"(expected {verdict.expected}), blamed: {verdict.line}\n"
        f"    {verdict.samples} samples, {verdict.dropped} dropped, one each 2^{verdict.period_log2} cycles; "
        f"{verdict.shares}"
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.stalls", description=__doc__)
    parser.add_argument("--cases", default="", metavar="REGEX", help="only these, and 'costs'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--tiny", action="store_true", help="small, for a dry run on the emulator")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
