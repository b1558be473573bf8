"""Step time of a small GPT under torch.compile, bare and in sessions, in turn.

    python -m bench.model [--batch 8] [--rounds 5] [--steps 30] [--only NAME ...] [--profile NAME]
        [--soak 10000]

The model is compiled before the first session. Each round runs every variant once, with bare runs on either
side of it; a figure is the median over rounds of the mean step, and its ratio that of each round to its bare
runs.
--profile: what Python does in the launching thread during the steps of this variant, and before them while
the session builds or loads its binaries.
--soak: so many steps in one session that keeps sums of every launch: memory, the end, and whether its summary
says what that of a few steps with spans says.
"""

from __future__ import annotations

import contextlib
import cProfile
import gc
import os
import pstats
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

import profscope
from bench.rounds import rounds_parser

__all__ = ["GPT", "VARIANTS", "compiled_step", "main"]

VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "never (every=10^6)": lambda: _session(instrument="light", ctas=64, every=10**6),
    "light, ctas=64, every=100": lambda: _session(instrument="light", ctas=64, every=100),
    "light, ctas=64, every=10": lambda: _session(instrument="light", ctas=64, every=10),
    "light, ctas=64": lambda: _session(instrument="light", ctas=64),
    "sums, every=100": lambda: _session(keep="sums", every=100),
    "sums": lambda: _session(keep="sums"),
    "sums, light": lambda: _session(keep="sums", instrument="light"),
    "sums, ctas=64": lambda: _session(keep="sums", ctas=64),
}
_WARM_UP: Final = 8  # steps in each session, which build its binaries


def _session(**options: Any) -> AbstractContextManager[Any]:
    """A session whose launches wait for their binaries, so that what is timed is recorded."""
    return profscope.session(wait=True, **options)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class GPT(nn.Module):
    """tokens: int64, shape (batch, length); returns the mean loss of predicting each next one."""

    def __init__(
        self, blocks: int = 6, width: int = 384, heads: int = 6, words: int = 8192, length: int = 256
    ) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        guess = self.head(self.norm(x))[:, :-1]
        return functional.cross_entropy(guess.flatten(0, 1).float(), tokens[:, 1:].flatten())


def _steps(step: Callable[[], None], count: int) -> float:
    """Mean ms of a step."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / count


def main() -> None:
    parser = rounds_parser(__doc__, VARIANTS, rounds=5, steps=30, limit_s=400.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--profile", nargs="*", choices=VARIANTS, default=[])
    parser.add_argument("--soak", type=int, default=0)
    asked = parser.parse_args()
    started = time.monotonic()
    step = compiled_step(asked.batch)
    times: dict[str, list[float]] = {name: [] for name in ("bare", *asked.only)}
    ratios: dict[str, list[float]] = {name: [] for name in asked.only}
    for turn in range(asked.rounds):
        if time.monotonic() - started > asked.limit_s:
            break
        before = _steps(step, asked.steps)
        for name in asked.only:
            begin = time.monotonic()
            with VARIANTS[name]() as prof:
                _steps(step, _WARM_UP)
                warm_s = time.monotonic() - begin
                took = _steps(step, asked.steps)
                begin = time.monotonic()
            end_s = time.monotonic() - begin
            after = _steps(step, asked.steps)
            times["bare"].append(after)
            times[name].append(took)
            ratios[name].append(2 * took / (before + after))
            before = after
            said = f"round {turn} {name}: {took:.3f} ms a step, {ratios[name][-1]:.3f} of bare; first steps"
            print(f"{said} {warm_s:.1f} s, end {end_s:.2f} s{_kept(prof)}", flush=True)
            del prof
            gc.collect()
    print(f"{'':28}{'ms a step':>10} {'of bare':>8}   least to most, {len(times['bare'])} bare runs")
    for name, figures in [each for each in times.items() if each[1]]:
        of_bare = f"{statistics.median(ratios[name]):8.3f}" if name in ratios else f"{'1':>8}"
        print(
            f"{name:28}{statistics.median(figures):10.3f} {of_bare}   "
            f"{min(figures):.3f} to {max(figures):.3f}"
        )
    for name in asked.profile:
        _profile(name, step, asked.steps)
    if asked.soak:
        _soak(step, asked.soak, asked.limit_s - time.monotonic() + started)


def compiled_step(batch: int) -> Callable[[], None]:
    """A step of the GPT, compiled; prints how long that took. What sessions around it would warn of is what
    the benches that use it time, so it is not said."""
    for category in (profscope.EmptyProfileWarning, profscope.DistrustWarning):
        warnings.simplefilter("ignore", category)
    begin = time.monotonic()
    torch.manual_seed(0)
    model = GPT().to("cuda", torch.bfloat16)
    tokens = torch.randint(0, 8192, (batch, 256), device="cuda")
    compiled = torch.compile(model)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(tokens).backward()

    _steps(step, 10)
    print(f"GPT, batch {batch}: compiled in {time.monotonic() - begin:.1f} s", flush=True)
    return step


def _kept(prof: profscope.Session) -> str:
    """How many launches were recorded and left out, without reading them."""
    metadata, notes = prof._parts().so_far()
    turns = metadata.get("sampling", {}).get("kernels", {}).values()
    recorded = sum(prof._parts().recorder.recorded().values())
    left = sum(counts["launches"] - counts["recorded"] for counts in turns)
    bare = [note for note in notes if "ran bare" in note or "unrecorded" in note]
    return f"; {recorded} recorded, {left} left out" + "".join(f"\n    {note}" for note in bare[:4])


def _profile(name: str, step: Callable[[], None], steps: int) -> None:
    with VARIANTS[name]():
        for what, count in (("first", _WARM_UP), ("later", steps)):
            profiler = cProfile.Profile()
            profiler.enable()
            _steps(step, count)
            profiler.disable()
            print(f"{name}: {count} {what} steps")
            order = "cumulative" if what == "first" else "tottime"
            pstats.Stats(profiler).sort_stats(order).print_stats(40)


def _soak(step: Callable[[], None], steps: int, limit_s: float) -> None:
    """Steps with sums of every launch, as many as the time allows."""
    with _session(keep="spans") as few:
        _steps(step, 2)
    begin = time.monotonic()
    resident_mb: list[float] = []
    longest_ms = 0.0
    with _session(keep="sums") as prof:
        _steps(step, _WARM_UP)
        before, done = os.times(), 0
        while done < steps and time.monotonic() - begin < limit_s:
            for _ in range(100):
                start = time.perf_counter()
                step()
                longest_ms = max(longest_ms, (time.perf_counter() - start) * 1e3)
            done += 100
            resident_mb.append(_resident_mb())
        torch.cuda.synchronize()
        took_s, after = time.monotonic() - begin, os.times()
        begin = time.monotonic()
    end_s = time.monotonic() - begin
    own_s = after.user + after.system - before.user - before.system
    print(
        f"{done} steps with sums in {took_s:.1f} s, the longest {longest_ms:.1f} ms; this process had "
        f"{own_s:.1f} s of CPU time; the end took {end_s:.2f} s"
    )
    shown = " ".join(f"{each:.0f}" for each in resident_mb[:: max(1, len(resident_mb) // 12)])
    rose_mb = max(resident_mb) - resident_mb[0]
    print(f"resident, with what folds, MB: {shown}; rose by {rose_mb:.0f} after 100 steps")
    print(f"{len(prof.launches)} launches in the tables; notes:")
    for note in prof.metadata["notes"]:
        print(f"    {note[:200]}")
    _compare(prof, few)


def _compare(sums: profscope.Session, spans: profscope.Session) -> None:
    """Of each scope: how often it ran in a launch, and its share of a kernel's time; of kernels, their time.

    Two binaries of each kernel are compared, and warps wait elsewhere in them (docs/sums.md): so shares may
    differ, and counts may not.
    """
    keys = ["kernel", "variant", "kind", "scope", "line", "call_path"]
    tables = []
    for prof in (sums, spans):
        table = prof.summary()
        by = [key for key in keys if key in table]
        table = table.assign(
            count=table["count"] / table["launches"], total_ns=table["total_ns"] / table["launches"]
        )
        of_kernel = table[table["kind"] == "kernel"].groupby(["kernel", "variant"])["total_ns"].sum()
        own = table[["kernel", "variant"]].merge(
            of_kernel.rename("own"), on=["kernel", "variant"], how="left"
        )
        table["share"] = table["total_ns"] / own["own"].to_numpy()
        tables.append(table.groupby(by, dropna=False, observed=True)[["count", "total_ns", "share"]].sum())
    both = tables[0].join(tables[1], lsuffix="_sums", rsuffix="_spans", how="outer")
    missing = both.isna().any(axis=1)
    other = ~missing & ((both["count_sums"] / both["count_spans"] - 1).abs() > 1e-9)
    kernels = both.index.get_level_values("kind") == "kernel"
    ratio = (both["total_ns_sums"] / both["total_ns_spans"])[kernels & ~missing]
    points = 100 * (both["share_sums"] - both["share_spans"]).abs()[~kernels & ~missing]
    print(
        f"{len(both)} scopes by sums and by spans; in one of them alone: {missing.sum()}; other counts "
        f"in a launch: {other.sum()}"
    )
    print(f"time of a kernel by sums over that by spans: {ratio.describe().round(3).to_dict()}")
    print(f"points between the shares of a scope: {points.describe().round(2).to_dict()}")
    if missing.any() or other.any():
        print(both[missing | other].head(12).to_string())


def _resident_mb() -> float:
    """Of this process and the ones that fold for it."""
    mine = [Path("/proc/self")]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1]) == os.getpid()
            if ours and b"folding_process" in (process / "cmdline").read_bytes():
                mine.append(process)
    return sum(int((process / "statm").read_text().split()[1]) for process in mine) * 4096 / 1e6


if __name__ == "__main__":
    main()
