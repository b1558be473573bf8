"""Kernels with a known fault, and mended: does the top finding name it, and what does mending bring?

    python -m bench.planted                    # on a GPU
    python -m bench.planted --dry-run          # on the emulator, small, those that it can show
    python -m bench.planted --save FOLDER      # and keep the profiles

A pair's row: the top finding of the faulty kernel, whether cause and line are right, the gain it states, what
the mended kernel really takes less (both bare, medians of interleaved rounds), and the factor between the
two: of the times that are left, predicted over real. `mended`: the findings that the mended kernel has
left.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch

import profscope
from bench import kernels, planted_kernels
from bench.planted_kernels import (
    atomics_kernel,
    attention_kernel,
    late_warp_kernel,
    layer_norm_kernel,
    matmul_kernel,
    matmul_ws_kernel,
    one_pass_kernel,
    rescaling_kernel,
    spills_kernel,
    strided_kernel,
    swizzled,
    tiles_kernel,
    transpose_kernel,
    unswizzled,
    waves_kernel,
)
from bench.timing import device_us, why
from profscope.profiles import Profile

__all__ = ["PAIRS", "Pair", "main", "marked_lines", "profile_of"]

# Every class of ops, so that each line's time is its own.
_CLASSES: Final = "load;store;atomic;async_copy;wait;mma;barrier;reduce;layout;local;call;math;elementwise"
_ALL_OPS: Final = ["kernel-span", "loop-spans", "iteration-spans", f"op-spans{{classes={_CLASSES}}}"]
_EMULATED_SMS: Final = 16

Launch = Callable[[], Any]
Prepare = Callable[[str, bool], Launch]
"""What to launch, on a device; whether small."""


@dataclass(frozen=True)
class Pair:
    """A faulty kernel and its mended twin.

    name: that of the finding, or begins with it. emulated: whether the emulator can show it. save: options of
    the session whose profile is kept.
    """

    name: str
    finding: str
    faulty: Prepare
    mended: Prepare
    instrument: Any = "default"
    emulated: bool = True
    save: tuple[tuple[str, Any], ...] = ()


def marked_lines(finding: str) -> list[int]:
    """The lines of the kernels that a finding may name."""
    text = inspect.getsource(planted_kernels).splitlines()
    return [at for at, line in enumerate(text, 1) if re.search(rf"# fault: {finding}\b", line)]


def profile_of(launch: Launch, instrument: Any, launches: int = 2, **options: Any) -> Profile:
    """A profile of some launches, after one that nobody records."""
    launch()
    with profscope.session(instrument=instrument, **options) as prof:
        for _ in range(launches):
            launch()
    return prof.profile


def _sms(device: str) -> int:
    return torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else _EMULATED_SMS


def _random(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)


def _matmul(stages: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        size, k, block, warps = (256, 256, 64, 4) if small else (2048, 2048, 128, 8)
        block_k = 32 if small else 64
        a = _random(device, size, k, dtype=torch.float16)
        b = _random(device, k, size, dtype=torch.float16)
        c = torch.empty(size, size, device=device, dtype=torch.float16)
        tiles = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block_k}
        grid = (size // block, size // block)
        return lambda: matmul_kernel[grid](a, b, c, k, size, **tiles, num_warps=warps, num_stages=stages)

    return prepare


def _matmul_ws(buffers: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        m = n = k = 2048
        a = _random(device, m, k, dtype=torch.float16)
        b = _random(device, n, k, dtype=torch.float16)
        c = torch.empty(m, n, device=device, dtype=torch.float16)
        tiles = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BUFFERS": buffers}
        grid = (m // 128, n // 128)
        return lambda: matmul_ws_kernel[grid](a, b, c, m, n, k, **tiles, num_warps=4)

    return prepare


def _attention(stages: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        length, heads, head = (128, 1, 64) if small else (4096, 8, 64)
        block_m = 64 if small else 128
        q, k, v = (_random(device, heads, length, head, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        tiles = {"BLOCK_M": block_m, "BLOCK_N": 64, "HEAD": head}
        grid = (length // block_m, heads)
        options = {"num_warps": 4 if small else 8, "num_stages": stages}
        return lambda: attention_kernel[grid](q, k, v, out, length, **tiles, **options)

    return prepare


def _layer_norm(passes: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        rows, columns = (16, 1024) if small else (4096, 8192)
        x = _random(device, rows, columns, dtype=torch.float16)
        y = torch.empty_like(x)
        if passes > 1:
            return lambda: layer_norm_kernel[(rows,)](x, y, columns, 1e-5, BLOCK=256 if small else 1024)
        return lambda: one_pass_kernel[(rows,)](x, y, columns, 1e-5, BLOCK=columns, num_warps=8)

    return prepare


def _waves(programs_per_slot: float, waves: float, slots_used: float = 1.0) -> Prepare:
    """As many steps in all, whatever the grid. A CTA of 32 warps and more than 32 registers fills an SM.

    slots_used: on the emulator, where registers do not matter and two CTAs fit on an SM.
    """

    def prepare(device: str, small: bool) -> Launch:
        block, slots = (1024, 2 * _sms(device)) if small else (32768, _sms(device))
        slots = int(slots * (slots_used if small else 1.0))
        programs = max(1, int(slots * programs_per_slot))
        steps = int(slots * waves * (200 if small else 400)) // programs
        x = _random(device, block)
        out = torch.empty(programs * block, device=device)
        return lambda: waves_kernel[(programs,)](x, out, steps, BLOCK=block, num_warps=32)

    return prepare


def _tiles(skewed: bool) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, rounds = _sms(device), 4
        long, short = (100, 10) if small else (4000, 400)
        one_in = 8
        lengths = torch.full((rounds, programs), short, dtype=torch.int32)
        lengths[:, ::one_in] = long
        if not skewed:
            lengths[:] = int(lengths.float().mean())
        lengths = lengths.to(device)
        block = 256 if small else 4096
        x = _random(device, block)
        out = torch.empty(rounds * programs * block, device=device)
        return lambda: tiles_kernel[(programs,)](x, lengths, out, rounds * programs, BLOCK=block)

    return prepare


def _spills(registers: int | None) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        x, y = _random(device, 8192), _random(device, 8192)
        programs = 4 * _sms(device)
        out = torch.empty(programs * 8192, device=device)
        options = {} if registers is None else {"maxnreg": registers}
        return lambda: spills_kernel[(programs,)](x, y, out, 200, BLOCK=8192, num_warps=4, **options)

    return prepare


def _strided(stride: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, steps = (8, 4) if small else (8 * _sms(device), 16)
        x = torch.ones(programs * steps * 1024 * stride, device=device)
        out = torch.empty(programs * 1024, device=device)
        return lambda: strided_kernel[(programs,)](x, out, steps, STRIDE=stride, BLOCK=1024)

    return prepare


def _atomics(each: bool) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, steps = (16, 24) if small else (4 * _sms(device), 64)
        x = _random(device, steps * 256)
        counter = torch.zeros(1, device=device)
        out = torch.empty(programs, device=device)
        return lambda: atomics_kernel[(programs,)](x, counter, out, steps, EACH=each, BLOCK=256)

    return prepare


def _late_warp(late: bool) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, rounds = _sms(device), 4 if small else 16
        turns = torch.full((4, 32), 100, dtype=torch.int32)
        turns[3] = 1000
        if not late:
            turns[:] = int(turns.float().mean())
        turns = turns.to(device)
        x = _random(device, 128)
        out = torch.empty(programs, device=device)
        return lambda: late_warp_kernel[(programs,)](x, turns, out, rounds, BLOCK=128)

    return prepare


def _rescaling(every: int) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, steps, block = (16, 12, 256) if small else (_sms(device), 400, 4096)
        x = _random(device, block)
        out = torch.empty(programs * block, device=device)
        return lambda: rescaling_kernel[(programs,)](x, out, steps, EVERY=every, BLOCK=block)

    return prepare


def _transpose(conflicts: bool) -> Prepare:
    def prepare(device: str, small: bool) -> Launch:
        programs, rounds = (4, 4) if small else (4 * _sms(device), 64)
        x = _random(device, 64, 64)
        out = torch.empty(programs * 64 * 64, device=device)
        shared = unswizzled() if conflicts else swizzled()
        return lambda: transpose_kernel[(programs,)](x, out, rounds, SIZE=64, SHARED=shared, num_warps=4)

    return prepare


_FEW: Final = (("ctas", 128),)
PAIRS: Final = (
    Pair("exposed-load", "exposed-load", _matmul(1), _matmul(3), "heavy", save=_FEW),
    Pair("redundant-load", "redundant-load", _layer_norm(3), _layer_norm(1), save=(("ctas", 1024),)),
    Pair("tail", "tail", _waves(1.07, 1.07), _waves(1.0, 1.07)),
    Pair("idle-sms", "idle-sms", _waves(0.25, 1.0, 0.5), _waves(1.0, 1.0, 0.5)),
    Pair("load-imbalance", "load-imbalance", _tiles(True), _tiles(False)),
    Pair("atomics", "atomics", _atomics(True), _atomics(False), save=_FEW),
    Pair("late-warp", "late-warp", _late_warp(True), _late_warp(False), _ALL_OPS),
    Pair("bimodal-spans", "bimodal-spans", _rescaling(2), _rescaling(1 << 20), "heavy", save=_FEW),
    Pair(
        "uncoalesced-load", "uncoalesced-load", _strided(16), _strided(1), emulated=False, save=_FEW
    ),
    Pair(
        "bank-conflict", "bank-conflict", _transpose(True), _transpose(False), "heavy", False, _FEW
    ),
    Pair("spills", "spills", _spills(40), _spills(None), "heavy", False, _FEW),
    Pair(
        "serial-stage", "serial-stage", _attention(7), _attention(3), _ALL_OPS, False,
        _FEW,
    ),
    Pair(
        "starving-partition", "starving-partition", _matmul_ws(1), _matmul_ws(3), "heavy", False, _FEW
    ),
)  # fmt: skip
_HEADINGS: Final = ("pair", "top finding", "line", "cause", "predicted", "real", "factor", "mended")


def _bare_us(launches: dict[str, Launch], rounds: int, small: bool, device: str) -> dict[str, list[float]]:
    """By name, times of bare launches; on the emulator, of launches with a kernel span."""
    if device == "cpu":
        profiles = {name: profile_of(launch, ["kernel-span"], 1) for name, launch in launches.items()}
        return {
            name: [
                float(end - start) / 1e3 for start, end in profile.launches[["start_ns", "end_ns"]].to_numpy()
            ]
            for name, profile in profiles.items()
        }
    took_us: dict[str, list[float]] = {name: [] for name in launches}
    for launch in launches.values():
        launch()
    for _ in range(rounds):
        for name, launch in launches.items():
            took_us[name].append(device_us(launch, 1 if small else 20))
    return took_us


def _row(pair: Pair, options: argparse.Namespace, device: str) -> list[str]:
    """The row of one pair; writes its profiles where they are to be kept."""
    small = options.dry_run
    launches = {"faulty": pair.faulty(device, small), "mended": pair.mended(device, small)}
    took_us = _bare_us(launches, options.rounds, small, device)
    real = 1 - median(took_us["mended"]) / median(took_us["faulty"])
    findings = {}
    for name, launch in launches.items():
        if options.save:
            file = re.sub(r"\W+", "-", pair.name)
            kept = profile_of(launch, pair.instrument, launches=1, **dict(pair.save))
            kept.save(options.save / f"{file}-{name}.json.gz")
        if not options.only_save:
            findings[name] = profile_of(launch, pair.instrument).findings()
    times = " / ".join(f"{median(each):.1f}" for each in took_us.values())
    if not findings:
        return [pair.name, "", "", "", "", f"{100 * real:.0f} %", "", f"{times} us"]
    print(findings["faulty"].to_string(max_colwidth=140), findings["faulty"].attrs, sep="\n")
    top = findings["faulty"].head(1).to_dict("records")
    if not top:
        return [pair.name, "none", "", "", "", f"{100 * real:.0f} %", "", ""]
    (row,) = top
    return [
        pair.name,
        row["finding"],
        "right" if row["line"] in marked_lines(pair.finding) else f"wrong: {row['line']}",
        "right" if row["finding"] == pair.finding else "wrong",
        f"{row['gain_pct']:.0f} %",
        f"{100 * real:.0f} % ({times} us)",
        f"{row['gain_pct'] / 100 / real:.2f}" if real > 0 else "-",
        ", ".join(findings["mended"]["finding"]) or "-",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the table; 1 where a pair failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="small, on the emulator where there is no GPU")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each bare time")
    parser.add_argument("--save", type=Path, help="a folder for the profiles, a few of their CTAs")
    parser.add_argument("--only-save", action="store_true", help="ask for no findings")
    parser.add_argument("--pairs", default="", metavar="REGEX", help="only those whose name it matches")
    options = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.planted: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    rows, failed = [list(_HEADINGS)], 0
    with kernels.surroundings():
        for pair in PAIRS:
            if not re.search(options.pairs, pair.name) or (device == "cpu" and not pair.emulated):
                continue
            try:
                rows.append(_row(pair, options, device))
            except Exception as error:  # noqa: BLE001  the others' figures still count
                traceback.print_exc()
                rows.append([pair.name, why(error)[:60], *[""] * (len(_HEADINGS) - 2)])
                failed += 1
            print(" | ".join(rows[-1]), flush=True)
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
