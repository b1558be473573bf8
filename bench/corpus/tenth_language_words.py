"""Tenth round, faults over vocabularies: drawn words, losses' gradients, drafts, thresholds, hashes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def unmasked_word_kernel(
    logit_ptr, noise_ptr, score_ptr, word_ptr, sure_ptr, words, BLOCK: tl.constexpr, WIDE: tl.constexpr
):
    """A word for each masked place, drawn by exponential noise, and how sure it is (text diffusion)."""
    row, lane = tl.program_id(0).to(tl.int64) * words, tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -1e30, tl.float64 if WIDE else tl.float32)
    mass, chosen = tl.zeros_like(best), tl.zeros_like(best)
    word = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, words, BLOCK):
        inside = start + lane < words
        x = tl.load(logit_ptr + row + start + lane, mask=inside, other=-1e4).to(best.dtype)
        noise = tl.load(noise_ptr + row + start + lane, mask=inside, other=1.0).to(best.dtype)
        score = x - tl.log(noise)  # fault
        mass += tl.exp(x)  # fault
        better = score > best  # fault
        best, chosen = tl.where(better, score, best), tl.where(better, x, chosen)
        word = tl.where(better, start + lane, word)
    place = tl.argmax(best, 0)
    mine = lane == place
    tl.store(word_ptr + tl.program_id(0), tl.sum(tl.where(mine, word, 0), 0))
    tl.store(score_ptr + tl.program_id(0), tl.max(best, 0).to(tl.float32))
    sure = tl.exp(tl.sum(tl.where(mine, chosen, 0.0), 0)) / tl.sum(mass, 0)
    tl.store(sure_ptr + tl.program_id(0), sure.to(tl.float32))


def _unmasked_word(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (2, 6000) if small else (2048, 126464)
        logit = (3.0 * random(rows, words)).to(torch.bfloat16)
        noise = torch.rand(rows, words).mul_(-1.0).log1p_().neg_().clamp_(min=1e-7)
        score, word, sure = empty(rows), empty(rows, dtype=torch.int32), empty(rows)
        options = {"BLOCK": 1024, "WIDE": wide, "num_warps": 4}
        args = (logit, noise, score, word, sure, words)
        return Launch(unmasked_word_kernel, (rows,), args, (score, sure), options)

    return prepare


@triton.jit
def logit_gradient_kernel(logit_ptr, sum_ptr, label_ptr, grad_ptr, out_ptr, words, BLOCK: tl.constexpr):
    """Gradients of logits of GPT-2's 50257 words, from the log-sums that the loss has left."""
    row = tl.program_id(1)
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, inside = row.to(tl.int64) * words + word, word < words
    logit = tl.load(logit_ptr + at, mask=inside, other=-1e30).to(tl.float32)  # fault
    chance = tl.exp(logit - tl.load(sum_ptr + row))
    hit = tl.where(word == tl.load(label_ptr + row), 1.0, 0.0)
    grad = (chance - hit) * tl.load(grad_ptr + row)
    tl.store(out_ptr + at, grad.to(tl.bfloat16), mask=inside)  # fault


def _logit_gradient(words: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 2 if small else 8192
        logit = random(rows, 50304, dtype=torch.bfloat16)
        logit[:, 50257:] = -1e30
        sums = torch.stack([each.float().logsumexp(0) for each in logit])
        logit = logit[:, :words].contiguous()
        label, grad, out = integers(rows, below=50257), random(rows), torch.empty_like(logit)
        options = {"BLOCK": 4096, "num_warps": 8}
        args = (logit, sums, label, grad, out, words)
        grid = (triton.cdiv(words, 4096), rows)
        return Launch(logit_gradient_kernel, grid, args, (out[:, :50257],), options)

    return prepare


@triton.jit
def tempered_draft_kernel(chance_ptr, out_ptr, inverse, WORDS: tl.constexpr, FAST: tl.constexpr):
    """Chances of a draft model's few words at another temperature, before they are verified."""
    at = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    chance = tl.load(chance_ptr + at).to(tl.float32)
    if FAST:  # noqa: SIM108
        chance = tl.exp2(tl.log2(chance) * inverse)
    else:
        chance = libdevice.pow(chance, inverse)  # fault
    tl.store(out_ptr + at, (chance * (1.0 / tl.sum(chance, 0))).to(tl.bfloat16))


def _tempered_draft(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (4, 2048) if small else (32768, 8192)
        chance = torch.softmax(2.0 * random(rows, words), 1).to(torch.bfloat16)
        out = torch.empty_like(chance)
        options = {"WORDS": words, "FAST": fast, "num_warps": 8}
        return Launch(tempered_draft_kernel, (rows,), (chance, out, 1.0 / 0.7), (out,), options)

    return prepare


@triton.jit
def likeliest_kernel(logit_ptr, out_ptr, wanted, ROUNDS: tl.constexpr, WORDS: tl.constexpr):
    """The `wanted` likeliest of a row's words; others get no chance. The least of them by bisection."""
    at = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    logit = tl.load(logit_ptr + at)
    low, high = tl.min(logit, 0), tl.max(logit, 0)
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        enough = tl.sum((logit >= middle).to(tl.int32), 0) >= wanted  # fault
        low, high = tl.where(enough, middle, low), tl.where(enough, high, middle)
    tl.store(out_ptr + at, tl.where(logit >= low, logit, -100.0))


def _likeliest(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (3, 2048) if small else (16384, 4096)
        logit = random(rows, words)
        out = torch.empty_like(logit)
        options = {"ROUNDS": 8 if small else 24, "WORDS": words, "num_warps": warps}
        return Launch(likeliest_kernel, (rows,), (logit, out, 50), (out,), options)

    return prepare


@triton.jit
def ngram_rows_kernel(
    word_ptr, factor_ptr, prime_ptr, inverse_ptr, out_ptr, HEADS: tl.constexpr, TOKENS: tl.constexpr,
    INVERSES: tl.constexpr,
):  # fmt: skip
    """Rows in tables of primes' lengths for each token's last two and three words, by hashes (Engram).
    INVERSES: of the primes, 2 ** 64 / prime, were prepared."""
    token, head = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, HEADS)[None, :]
    third = tl.load(word_ptr + token).to(tl.uint64) * tl.load(factor_ptr + 2).to(tl.uint64)
    second = tl.load(word_ptr + token + 1).to(tl.uint64) * tl.load(factor_ptr + 1).to(tl.uint64)
    first = tl.load(word_ptr + token + 2).to(tl.uint64) * tl.load(factor_ptr).to(tl.uint64)
    pair = (first ^ second)[:, None]
    mixed = tl.where(head < HEADS // 2, pair, pair ^ third[:, None])
    prime = tl.load(prime_ptr + head).to(tl.uint64)
    if INVERSES:
        row = mixed - tl.umulhi(mixed, tl.load(inverse_ptr + head).to(tl.uint64)) * prime
        row = tl.where(row >= prime, row - prime, row)
    else:
        row = mixed % prime  # fault
    tl.store(out_ptr + token[:, None] * HEADS + head, row.to(tl.int32))


def _ngram_rows(inverses: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 512 if small else 1 << 23
        word, out = integers(tokens + 2, below=129280), empty(tokens, 16, dtype=torch.int32)
        factor = torch.tensor([0x9E3779B97F4A7C1, 0xC2B2AE3D27D4EB5, 0x165667B19E3779F])
        primes = [646403, 646411, 646421, 646423, 646433, 646453, 646519, 646523]
        primes += [646537, 646543, 646549, 646571, 646573, 646577, 646609, 646619]
        inverse = torch.tensor([(1 << 64) // each for each in primes])
        args = (word, factor, torch.tensor(primes), inverse, out)
        options = {"HEADS": 16, "TOKENS": 256, "INVERSES": inverses, "num_warps": 4}
        return Launch(ngram_rows_kernel, (tokens // 256,), args, (out,), options)

    return prepare


_fault = faults_of(10)


CASES = (
    _fault(
        "unmasked words drawn exactly",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _unmasked_word(True),
        _unmasked_word(False),
    ),
    _fault(
        "gradients of 50257 logits",
        ("unvectorized-access",),
        ("counts",),
        True,
        _logit_gradient(50257),
        _logit_gradient(50304),
    ),
    _fault(
        "draft's words at another temperature",
        ("slow-math",),
        ("counts",),
        True,
        _tempered_draft(False),
        _tempered_draft(True),
    ),
    _fault(
        "likeliest 50 words by 32 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _likeliest(32),
        _likeliest(4),
    ),
    _fault(
        "rows of words' hashes in 16 tables",
        ("index-arithmetic",),
        ("counts",),
        True,
        _ngram_rows(False),
        _ngram_rows(True),
    ),
)
