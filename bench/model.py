"""Step time of a small GPT under torch.compile, bare and in sessions, in turn.

    python -m bench.model [--batch 8] [--rounds 5] [--steps 300] [--only NAME ...] [--profile NAME]

The model is compiled before the first session. Each round runs every variant once, with bare runs on either
side of it; a figure is the median over rounds of the mean step, and its ratio that of each round to its bare
runs. The first 30 steps of a session, in which it builds binaries and measures costs, have a ratio of their
own.
--profile: what Python does in the launching thread during the steps of this variant, and before them while
the session builds or loads its binaries.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

import profscope
from bench.rounds import rounds_parser

__all__ = ["GPT", "VARIANTS", "compiled_step", "main", "steps_ms", "until_built"]

VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "never (every=10^6)": lambda: profscope.session(ctas=64, every=10**6),
    "ctas=64, every=100": lambda: profscope.session(ctas=64, every=100),
    "ctas=64": lambda: profscope.session(ctas=64),
    "ctas=64, overhead_pct=1": lambda: profscope.session(ctas=64, overhead_pct=1),
}
_FIRST: Final = 30  # steps from opening a session on, in which binaries are built and costs measured
_BUILT_S: Final = 40.0  # for no longer are binaries waited for


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


def steps_ms(step: Callable[[], None], count: int) -> float:
    """Mean ms of a step."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / count


def main() -> None:
    parser = rounds_parser(__doc__, VARIANTS, rounds=5, steps=300, limit_s=400.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--profile", nargs="*", choices=VARIANTS, default=[])
    asked = parser.parse_args()
    started = time.monotonic()
    step = compiled_step(asked.batch)
    times: dict[str, list[float]] = {name: [] for name in ("bare", *asked.only)}
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in asked.only}
    for turn in range(asked.rounds):
        if time.monotonic() - started > asked.limit_s:
            break
        before = steps_ms(step, asked.steps)
        for name in asked.only:
            with VARIANTS[name]() as prof:
                first = steps_ms(step, _FIRST)
                until_built(step, prof)
                took = steps_ms(step, asked.steps)
                begin = time.monotonic()
            end_s = time.monotonic() - begin
            after = steps_ms(step, asked.steps)
            bare = (before + after) / 2
            times["bare"].append(after)
            times[name].append(took)
            ratios[name].append((first / bare, took / bare))
            before = after
            said = f"round {turn} {name}: {took:.3f} ms a step, {took / bare:.3f} of bare; "
            said += f"first {_FIRST} steps {first / bare:.3f}, end {end_s:.2f} s{_kept(prof)}"
            print(said, flush=True)
            del prof
            gc.collect()
    heads = f"first {_FIRST}", f"{asked.steps} later", "least to most of bare"
    print(f"{'':28}{'ms a step':>10} {heads[0]:>9} {heads[1]:>10}   {heads[2]}")
    for name, figures in [each for each in times.items() if each[1]]:
        print(f"{name:28}{statistics.median(figures):10.3f} {_ratios(ratios.get(name, []))}")
    for name in asked.profile:
        _profile(name, step, asked.steps)


def _ratios(found: list[tuple[float, float]]) -> str:
    """Medians over rounds of the ratios to bare: of the first steps, of the others, with least and most."""
    if not found:
        return ""
    first, later = (statistics.median(each) for each in zip(*found, strict=True))
    spread = [each for _, each in found]
    return f"{first:9.3f} {later:10.3f}   {min(spread):.3f} to {max(spread):.3f}"


def until_built(step: Callable[[], None], prof: profscope.Session) -> None:
    """Run steps until none of their launches waits for its recorded binary."""
    left_bare, deadline = prof._parts().inductor.left_bare, time.monotonic() + _BUILT_S
    before = -1
    while sum(left_bare.values()) != before and time.monotonic() < deadline:
        before = sum(left_bare.values())
        steps_ms(step, 10)


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

    steps_ms(step, 10)
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
        for what, count in (("first", _FIRST), ("later", steps)):
            profiler = cProfile.Profile()
            profiler.enable()
            steps_ms(step, count)
            profiler.disable()
            print(f"{name}: {count} {what} steps")
            order = "cumulative" if what == "first" else "tottime"
            pstats.Stats(profiler).sort_stats(order).print_stats(40)


if __name__ == "__main__":
    main()
