"""Second round, faults of the launch: how work is shared among SMs, CTAs and warps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES", "cached_heads"]


@triton.jit
def attention_state_kernel(
    k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, SPLIT: tl.constexpr, STEP: tl.constexpr
):
    """The state of linear attention, the sum of k v^T over all tokens of a head."""
    dims, tokens = tl.arange(0, DIM), tl.arange(0, STEP)
    base = tl.program_id(0) * length * DIM
    share = length // SPLIT
    first = tl.program_id(1) * share
    acc = tl.zeros((DIM, DIM), dtype=tl.float32)
    for start in range(first, first + share, STEP):
        offs = base + (start + tokens)[:, None] * DIM + dims[None, :]
        acc = tl.dot(tl.trans(tl.load(k_ptr + offs)), tl.load(v_ptr + offs), acc)
    out = out_ptr + tl.program_id(0) * DIM * DIM + dims[:, None] * DIM + dims[None, :]
    if SPLIT == 1:
        tl.store(out, acc)
    else:
        tl.atomic_add(out, acc, sem="relaxed")


def _attention_state(split: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 1024) if small else (12, 32768)
        k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(2))
        out = zeros(heads, 128, 128)
        options = {"DIM": 128, "SPLIT": split, "STEP": 64, "num_warps": 8, "num_stages": 3}
        return Launch(attention_state_kernel, (heads, split), (k, v, out, length), (out,), options)

    return prepare


@triton.jit
def routed_tokens_kernel(
    x_ptr, out_ptr, tokens, per_program, EXPERTS: tl.constexpr, TOKENS: tl.constexpr, TOP: tl.constexpr
):
    """Router of a mixture of experts: the sum of the exponentials of each token's best scores."""
    experts = tl.arange(0, EXPERTS)
    first = tl.program_id(0) * per_program
    for start in range(first, tl.minimum(first + per_program, tokens), TOKENS):
        token = start + tl.arange(0, TOKENS)
        x = tl.load(x_ptr + token[:, None] * EXPERTS + experts[None, :])
        total = tl.zeros((TOKENS,), dtype=tl.float32)
        for _ in range(TOP):
            best = tl.max(x, 1)
            total += tl.exp(best)
            x = tl.where(x == best[:, None], float("-inf"), x)
        tl.store(out_ptr + token, total)


def _routed_tokens(per_program: int) -> Prepare:
    """Of registers and warps there is room for 528 programs on 132 SMs."""

    def prepare(small: bool) -> Launch:
        each = 64 if small else per_program
        tokens = 4 * 64 if small else 560 * 2048
        x, out = random(tokens, 32), empty(tokens)
        options = {"EXPERTS": 32, "TOKENS": 64, "TOP": 16, "num_warps": 16, "maxnreg": 32}
        grid = (triton.cdiv(tokens, each),)
        return Launch(routed_tokens_kernel, grid, (x, out, tokens, each), (out,), options)

    return prepare


@triton.jit
def expert_product_kernel(
    x_ptr, w_ptr, begin_ptr, out_ptr, N, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Tokens, sorted by expert, times the expert's weights: a program for an expert and some columns."""
    expert = tl.program_id(1)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    for first in range(tl.load(begin_ptr + expert), tl.load(begin_ptr + expert + 1), BLOCK_M):  # fault
        offs_m = first + tl.arange(0, BLOCK_M)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
            w = tl.load(w_ptr + expert * K * N + (k + offs_k)[:, None] * N + offs_n[None, :])
            acc = tl.dot(x, w, acc)
        tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


@triton.jit
def expert_blocks_kernel(
    x_ptr, w_ptr, expert_ptr, out_ptr, N, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """As expert_product_kernel: a program for a block of tokens, whoever their expert is."""
    expert = tl.load(expert_ptr + tl.program_id(1))
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        w = tl.load(w_ptr + expert * K * N + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _experts(by_block: bool) -> Prepare:
    """One expert of eight gets eight times the tokens of the others."""

    def prepare(small: bool) -> Launch:
        experts, n, k, least = (4, 128, 64, 1) if small else (32, 2048, 1024, 3)
        blocks = torch.full((experts,), least, dtype=torch.int64, device="cpu")
        blocks[:: min(experts, 8)] *= 8
        begins = torch.zeros(experts + 1, dtype=torch.int32, device="cpu")
        begins[1:] = torch.cumsum(blocks * 128, 0)
        tokens = int(begins[-1])
        x = random(tokens, k, dtype=torch.float16)
        w = random(experts, k, n, dtype=torch.float16)
        out = empty(tokens, n, dtype=torch.float16)
        options = {"K": k, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        if by_block:
            owner = torch.repeat_interleave(torch.arange(experts, dtype=torch.int32, device="cpu"), blocks)
            args = (x, w, owner.to(x.device), out, n)
            return Launch(expert_blocks_kernel, (n // 128, tokens // 128), args, (out,), options)
        args = (x, w, begins.to(x.device), out, n)
        return Launch(expert_product_kernel, (n // 128, experts), args, (out,), options)

    return prepare


@triton.jit
def cached_heads_kernel(
    k_ptr, v_ptr, slot_ptr, kc_ptr, vc_ptr, HEADS: tl.constexpr, DIM: tl.constexpr, EACH: tl.constexpr
):
    """Writes new keys and values to their slots of a paged cache; a program takes some heads of a token."""
    token = tl.program_id(0)
    slot = tl.load(slot_ptr + token).to(tl.int64)
    lanes = tl.program_id(1) * EACH * DIM + tl.arange(0, EACH * DIM)
    source, target = token * HEADS * DIM + lanes, slot * HEADS * DIM + lanes
    tl.store(kc_ptr + target, tl.load(k_ptr + source))
    tl.store(vc_ptr + target, tl.load(v_ptr + source))


def cached_heads(each: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 4 if small else 1 << 14
        k, v = (random(tokens, 32, 64, dtype=torch.bfloat16) for _ in range(2))
        slots = torch.randperm(tokens).int()
        k_cache, v_cache = zeros(*k.shape, dtype=k.dtype), zeros(*v.shape, dtype=v.dtype)
        options = {"HEADS": 32, "DIM": 64, "EACH": each, "num_warps": warps}
        args = (k, v, slots, k_cache, v_cache)
        return Launch(cached_heads_kernel, (tokens, 32 // each), args, (k_cache, v_cache), options)

    return prepare


@triton.jit
def forest_kernel(
    x_ptr, feature_ptr, threshold_ptr, leaf_ptr, out_ptr, n, TREES: tl.constexpr, DEPTH: tl.constexpr,
    FEATURES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean of decision trees: at each node a feature decides whether to go left or right."""
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        sample = start + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for tree in range(TREES):
            node = tl.zeros((BLOCK,), dtype=tl.int32)
            for _ in range(DEPTH):
                at = tree * (1 << DEPTH) + node
                x = tl.load(x_ptr + sample * FEATURES + tl.load(feature_ptr + at))
                node = 2 * node + 1 + (x > tl.load(threshold_ptr + at)).to(tl.int32)
            total += tl.load(leaf_ptr + tree * (1 << DEPTH) + node - (1 << DEPTH) + 1)
        tl.store(out_ptr + sample, total / TREES)


def _forest(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, trees, depth = (1024, 2, 3) if small else (132 * 4096, 8, 8)
        x = random(n, 16)
        nodes = trees << depth
        feature, threshold = integers(nodes, below=16), random(nodes)
        leaf, out = torch.rand(nodes), empty(n)
        options = {"TREES": trees, "DEPTH": depth, "FEATURES": 16, "BLOCK": 128, "num_warps": 4}
        grid = (programs // 132 if small else programs,)
        return Launch(forest_kernel, grid, (x, feature, threshold, leaf, out, n), (out,), options)

    return prepare


@triton.jit
def top_experts_kernel(
    x_ptr, weight_ptr, index_ptr, EXPERTS: tl.constexpr, TOKENS: tl.constexpr, TOP: tl.constexpr
):
    """The best experts of some tokens, and their weights."""
    token, experts = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    x = tl.load(x_ptr + token[:, None] * EXPERTS + experts[None, :])
    for i in tl.static_range(TOP):
        best = tl.max(x, 1)
        at = tl.argmax(x, 1)
        tl.store(weight_ptr + token * TOP + i, tl.sigmoid(best))
        tl.store(index_ptr + token * TOP + i, at)
        x = tl.where(experts[None, :] == at[:, None], float("-inf"), x)


def _top_experts(warps: int, tokens: int = 1 << 18, top: int = 8) -> Prepare:
    """The best experts of tokens, 16 tokens a program."""

    def prepare(small: bool) -> Launch:
        count = 32 if small else tokens
        x = random(count, 64)
        weight, index = empty(count, top), empty(count, top, dtype=torch.int32)
        options = {"EXPERTS": 64, "TOKENS": 16, "TOP": top, "num_warps": warps}
        return Launch(top_experts_kernel, (count // 16,), (x, weight, index), (weight, index), options)

    return prepare


@triton.jit
def padded_rows_kernel(
    x_ptr, w_ptr, length_ptr, out_ptr, capacity, N, K: tl.constexpr, SKIP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Experts of equal capacity: the rows behind an expert's last token are padding, and give zeros."""
    expert = tl.program_id(2)
    length = tl.load(length_ptr + expert)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    depth = tl.where(tl.program_id(1) * BLOCK_M < length, K, 0) if SKIP else K
    rows = (expert * capacity + offs_m)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, depth, BLOCK_K):  # fault
        x = tl.load(
            x_ptr + rows * K + (k + offs_k)[None, :], mask=offs_m[:, None] < length, other=0.0
        )  # fault
        w = tl.load(w_ptr + expert * K * N + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(x, w, acc)  # fault
    tl.store(out_ptr + rows * N + offs_n[None, :], acc.to(tl.float16))


def _padded_rows(skip: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, capacity, n, k = (2, 256, 128, 64) if small else (32, 1024, 2048, 1024)
        lengths = torch.full((experts,), capacity // 4, dtype=torch.int32, device="cpu")
        lengths[::4] = capacity // 2
        x = random(experts, capacity, k, dtype=torch.float16)
        w = random(experts, k, n, dtype=torch.float16)
        out = empty(experts, capacity, n, dtype=torch.float16)
        options = {"K": k, "SKIP": skip, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, w, lengths.to(x.device), out, capacity, n)
        return Launch(padded_rows_kernel, (n // 128, capacity // 128, experts), args, (out,), options)

    return prepare


@triton.jit
def walk_kernel(table_ptr, index_ptr, out_ptr, steps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Adds entries of a table step by step; what counts of a step follows from the sum of the last one.

    Entries behind the first 32 are others for each program.
    """
    lanes = tl.arange(0, BLOCK)
    share = 1.0
    for step in range(steps):
        at = tl.load(index_ptr + step * BLOCK + lanes)
        at = tl.where(at < 32, at, (at + tl.program_id(0) * 1048608) % ROWS)
        x = tl.load(table_ptr + at)  # fault
        share = 1.0 / (1.0 + share * tl.sum(x, 0))  # fault
    tl.store(out_ptr + tl.program_id(0), share)


def _walk(together: bool) -> Prepare:
    """Entries that only memory has: of one warp in each step, or (together) of all in one step of eight."""

    def prepare(small: bool) -> Launch:
        programs, steps, rows = (2, 8, 1 << 12) if small else (528, 256, 1 << 26)
        step, warp = torch.arange(steps)[:, None, None], torch.arange(8)[None, :, None]
        cold = step % 8 == 0 if together else step % 8 == warp
        far = torch.randint(1, rows // 32, (steps, 8, 32), dtype=torch.int32) * 32
        index = torch.where(cold, far, torch.arange(32, dtype=torch.int32)).contiguous()
        table, out = torch.full((rows,), 0.01), empty(programs)
        options = {"ROWS": rows, "BLOCK": 256, "num_warps": 8}
        return Launch(walk_kernel, (programs,), (table, index, out, steps), (out,), options)

    return prepare


@triton.jit
def divisor_kernel(a_ptr, b_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Greatest common divisors by Euclid; each step's sum is mixed into the next one's."""
    lanes = tl.arange(0, BLOCK)
    state = 0.0
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + lanes
        a, b = tl.load(a_ptr + offs), tl.load(b_ptr + offs)
        divisor = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .u32 x, y, r;
            mov.u32 x, $1; mov.u32 y, $2;
            again:
            rem.u32 r, x, y; mov.u32 x, y; mov.u32 y, r;
            setp.ne.u32 p, y, 0;
            @p bra again;
            mov.u32 $0, x; }""",
            "=r,r,r", [a, b], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        state = 0.5 * state + tl.sum(divisor.to(tl.float32), 0)  # fault
    tl.store(out_ptr + tl.program_id(0), state)


def _divisors(together: bool) -> Prepare:
    """Pairs that take 40 divisions: of one warp in each step, or (together) of all in one step of four."""

    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (1056, 64)
        step, warp = torch.arange(steps)[:, None, None], torch.arange(4)[None, :, None]
        late = step % 4 == 0 if together else step % 4 == warp
        pair = (165580141, 102334155)  # neighbours in Fibonacci's sequence
        a, b = (
            torch.where(late, long, short).to(torch.int32).expand(steps, 4, 32).repeat(programs, 1, 1)
            for long, short in zip(pair, (7, 1), strict=True)
        )
        out = empty(programs)
        args = (a.contiguous(), b.contiguous(), out, steps)
        return Launch(divisor_kernel, (programs,), args, (out,), {"BLOCK": 128, "num_warps": 4})

    return prepare


CASES = (
    Case(
        "state of twelve heads",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _attention_state(1),
        _attention_state(16),
        round=2,
    ),
    Case(
        "routing in 1.06 waves",
        ("tail",),
        ("ctas",),
        False,
        _routed_tokens(2048),
        _routed_tokens(128),
        round=2,
    ),
    Case(
        "experts of unequal fame",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _experts(False),
        _experts(True),
        round=2,
    ),
    Case(
        "paged cache by single heads",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        cached_heads(1, 1),
        cached_heads(32, 4),
        round=2,
    ),
    Case(
        "forest by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _forest(132),
        _forest(132 * 16),
        round=2,
    ),
    Case(
        "top experts by 32 warps",
        ("too-many-warps",),
        ("counts", "resources"),
        True,
        _top_experts(32),
        _top_experts(4),
        round=2,
    ),
    Case(
        "capacity multiplied in full",
        ("masked-work",),
        ("spans", "counts"),
        True,
        _padded_rows(False),
        _padded_rows(True),
        round=2,
    ),
    Case(
        "one warp in far memory",
        ("late-warp", "exposed-latency"),
        ("spans", "samples"),
        False,
        _walk(False),
        _walk(True),
        round=2,
    ),
    Case(
        "one warp of long divisions",
        ("late-warp",),
        ("spans", "samples"),
        False,
        _divisors(False),
        _divisors(True),
        round=2,
    ),
)
