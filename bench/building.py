"""How long the steps of a compiled model take while its instrumented binaries are built beside it.

A small GPT (6 blocks, forward, backward, AdamW), compiled before the session. Steps end with a
synchronisation. "wait" is the same with wait=True, and "bare" without a session, before and after.

    python -m bench.building
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import profscope

STEPS_AT_LEAST = 300
LIMIT_S = 14.0


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.ln_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.down(nn.functional.gelu(self.up(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, width: int = 256, depth: int = 6, words: int = 4096, length: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def stepping() -> Callable[[], None]:
    """One training step of the model, compiled."""
    torch.manual_seed(0)
    model = Gpt().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, 4096, (8, 128), device="cuda")
    loss_of = torch.compile(model)

    def step() -> None:
        loss_of(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    for _ in range(10):
        step()
    return step


def timed(step: Callable[[], None], until: Callable[[], bool]) -> list[float]:
    """Seconds of each step."""
    seconds: list[float] = []
    began = time.perf_counter()
    while (len(seconds) < STEPS_AT_LEAST or not until()) and time.perf_counter() - began < LIMIT_S:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def show(name: str, seconds: list[float], **more: Any) -> None:
    worst = ", ".join(f"{1e3 * each:.1f}" for each in sorted(seconds, reverse=True)[:5])
    median = 1e3 * statistics.median(seconds)
    last = 1e3 * statistics.median(seconds[-100:])
    print(f"{name:<24} {len(seconds):>6} {median:>8.2f} {last:>8.2f}   {worst}   {more or ''}", flush=True)


def in_session(step: Callable[[], None], name: str, **options: Any) -> None:
    with profscope.session(backend="gpu", **options) as prof:
        assert prof._running is not None
        kernels = prof._running.inductor._kernels

        def all_built() -> bool:
            return all(kernel.chosen is not None for kernel in kernels.values())

        seconds = timed(step, all_built)
        recorded = sum(kernel.own is not None for kernel in kernels.values())
        count = len(kernels)
    building = prof.metadata.get("building", {}).get("bare_launches", {})
    show(name, seconds, kernels=f"{recorded} of {count}", bare_launches=sum(building.values()))
    for note in prof.metadata["notes"]:
        if "bare" in note:
            print("   ", note[:300])


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        step = stepping()
        print(f"{'':<24} {'steps':>6} {'median':>8} {'last 100':>8}   longest (ms)")
        show("bare", timed(step, lambda: True))
        in_session(step, "beside", ctas=64)
        show("bare", timed(step, lambda: True))
        in_session(step, "beside, in the cache", ctas=64)
        in_session(step, "wait", ctas=32, wait=True)
        show("bare", timed(step, lambda: True))


if __name__ == "__main__":
    main()
