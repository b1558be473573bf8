"""Thirteenth round, faults of learning from rewards and clicks: replay, returns, policies, rankings."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def observed_moments_kernel(
    x_ptr, sum_ptr, square_ptr, rows_of_program, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums and sums of squares of each part of what agents observed, to normalise it (VecNormalize)."""
    row, column = tl.arange(0, ROWS), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * rows_of_program
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    squares = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, rows_of_program, ROWS):
        x = tl.load(x_ptr + (first + start + row)[:, None] * DIM + column[None, :])
        total += x
        squares += x * x
    tl.atomic_add(sum_ptr + column, tl.sum(total, 0), sem="relaxed")
    tl.atomic_add(square_ptr + column, tl.sum(squares, 0), sem="relaxed")


def _observed_moments(chunks: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (256, 256) if small else (262144, 384)
        parts = min(chunks, 2) if small else chunks
        x, total, squares = random(rows, dim) + 1.0, zeros(dim), zeros(dim)
        options = {"DIM": dim, "ROWS": 32, "BLOCK": 128, "num_warps": 8}
        args, grid = (x, total, squares, rows // parts), (dim // 128, parts)
        return Launch(observed_moments_kernel, grid, args, (total, squares), options)

    return prepare


@triton.jit
def double_targets_kernel(
    online_ptr, slow_ptr, reward_ptr, discount_ptr, out_ptr, ACTIONS: tl.constexpr, ROWS: tl.constexpr
):
    """Targets of a double Q network: one net chooses the next action, a slower one says its worth."""
    row, action = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, ACTIONS)
    at = row[:, None] * ACTIONS + action[None, :]
    online, slow = tl.load(online_ptr + at), tl.load(slow_ptr + at)
    best = tl.argmax(online, 1)
    worth = tl.sum(tl.where(action[None, :] == best[:, None], slow, 0.0), 1)
    reward, discount = tl.load(reward_ptr + row), tl.load(discount_ptr + row)
    tl.store(out_ptr + row, reward + discount * worth)


def _double_targets(rows_of_program: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, actions = (16, 64) if small else (524288, 64)
        online, slow, reward = random(rows, actions), random(rows, actions), random(rows)
        discount, out = torch.rand(rows), empty(rows)
        options = {"ACTIONS": actions, "ROWS": rows_of_program, "num_warps": warps}
        args = (online, slow, reward, discount, out)
        return Launch(double_targets_kernel, (rows // rows_of_program,), args, (out,), options)

    return prepare


@triton.jit
def drawn_replays_kernel(
    tree_ptr, mass_ptr, out_ptr, priority_ptr, blocks, LEVELS: tl.constexpr, BLOCK: tl.constexpr
):
    """Replays drawn by their priorities, down a tree of sums (prioritised experience replay)."""
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        mass = tl.load(mass_ptr + at)
        node = tl.full((BLOCK,), 1, dtype=tl.int32)
        for _ in range(LEVELS):
            left = tl.load(tree_ptr + 2 * node)
            is_right = mass >= left
            mass = tl.where(is_right, mass - left, mass)
            node = 2 * node + is_right.to(tl.int32)
        tl.store(out_ptr + at, node - (1 << LEVELS))
        tl.store(priority_ptr + at, tl.load(tree_ptr + node))


def _drawn_replays(block: int, warps: int, programs: int | None) -> Prepare:
    def prepare(small: bool) -> Launch:
        levels, draws = (8, 512) if small else (24, 1 << 20)
        sums = [torch.rand(1 << levels) + 0.01]
        for _ in range(levels):
            sums.append(sums[-1].view(-1, 2).sum(1))
        tree = torch.cat([sums[-1], *sums[::-1]])
        mass = torch.rand(draws) * sums[-1] * 0.999
        out, priority = empty(draws, dtype=torch.int32), empty(draws)
        options = {"LEVELS": levels, "BLOCK": block, "num_warps": warps}
        args = (tree, mass, out, priority, draws // block)
        grid = (draws // block if programs is None else 4 if small else programs,)
        return Launch(drawn_replays_kernel, grid, args, (out, priority), options)

    return prepare


@triton.jit
def mixed_returns_kernel(
    reward_ptr, discount_ptr, value_ptr, out_ptr, steps, agents, mix, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Lambda returns of many agents, backwards over time. ROWS: as a row for each agent."""
    agent = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    last = (steps - 1) * agents + agent
    result = tl.load(value_ptr + last)
    for back in tl.range(0, steps, num_stages=5):
        at = last - back * agents
        reward, discount = tl.load(reward_ptr + at), tl.load(discount_ptr + at)
        value = tl.load(value_ptr + at)
        result = reward + discount * (value + mix * (result - value))
        if ROWS:
            tl.store(out_ptr + agent * steps + (steps - 1 - back), result)  # fault
        else:
            tl.store(out_ptr + at, result)


def _mixed_returns(rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, agents = (32, 512) if small else (256, 135168)
        reward, value = random(steps, agents), random(steps, agents)
        discount = torch.rand(steps, agents)
        out = empty(agents, steps) if rows else empty(steps, agents)
        options = {"BLOCK": 256, "ROWS": rows, "num_warps": 4}
        args = (reward, discount, value, out, steps, agents, 0.95)
        results = (out.t() if rows else out,)
        return Launch(mixed_returns_kernel, (agents // 256,), args, results, options)

    return prepare


@triton.jit
def policy_gradients_kernel(
    new_ptr, old_ptr, reference_ptr, gain_ptr, out_ptr, sum_ptr, clip, weight, STEPS: tl.constexpr,
    BLOCK: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """Gradients of a clipped policy loss that punishes drift, and sums of loss, drift, and clipped tokens."""
    losses = tl.zeros((BLOCK,), dtype=tl.float32)
    drifts = tl.zeros((BLOCK,), dtype=tl.float32)
    clips = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(STEPS):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        new, gain = tl.load(new_ptr + at), tl.load(gain_ptr + at)
        ratio = tl.exp(new - tl.load(old_ptr + at))
        away = tl.load(reference_ptr + at) - new
        drift = tl.exp(away) - away - 1.0
        bound = tl.minimum(tl.maximum(ratio, 1.0 - clip), 1.0 + clip)
        is_clipped = ratio * gain > bound * gain
        loss = weight * drift - tl.where(is_clipped, bound * gain, ratio * gain)
        slope = weight * (1.0 - tl.exp(away)) - tl.where(is_clipped, 0.0, ratio * gain)
        tl.store(out_ptr + at, slope)
        if EACH:
            tl.atomic_add(sum_ptr, tl.sum(loss, 0))  # fault
            tl.atomic_add(sum_ptr + 1, tl.sum(drift, 0))  # fault
            tl.atomic_add(sum_ptr + 2, tl.sum(is_clipped.to(tl.float32), 0))  # fault
        else:
            losses += loss
            drifts += drift
            clips += is_clipped.to(tl.float32)
    if not EACH:
        tl.atomic_add(sum_ptr, tl.sum(losses, 0), sem="relaxed")
        tl.atomic_add(sum_ptr + 1, tl.sum(drifts, 0), sem="relaxed")
        tl.atomic_add(sum_ptr + 2, tl.sum(clips, 0), sem="relaxed")


def _policy_gradients(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, steps, block = (8192, 4, 512) if small else (1 << 25, 16, 512)
        new, old, reference = (0.1 * random(tokens) - 1.0 for _ in range(3))
        gain, out, sums = random(tokens), empty(tokens), zeros(3)
        options = {"STEPS": steps, "BLOCK": block, "EACH": each, "num_warps": 4}
        args = (new, old, reference, gain, out, sums, 0.2, 0.05)
        return Launch(policy_gradients_kernel, (tokens // (steps * block),), args, (out, sums), options)

    return prepare


@triton.jit
def confident_bounds_kernel(
    mean_ptr, pulls_ptr, out_ptr, log_rounds, BLOCK: tl.constexpr, EXACT: tl.constexpr
):
    """The highest mean reward of each arm that its pulls still allow (KL-UCB), by a step of Newton."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mean, pulls = tl.load(mean_ptr + at), tl.load(pulls_ptr + at)
    allowed = log_rounds / pulls
    if EXACT:
        mean, allowed = mean.to(tl.float64), allowed.to(tl.float64)  # fault
    rest = 1.0 - mean
    if EXACT:
        own = mean * tl.log(mean) + rest * tl.log(rest)  # fault
    else:
        own = mean * libdevice.fast_logf(mean) + rest * libdevice.fast_logf(rest)
    bound = tl.minimum(mean + tl.sqrt(0.5 * allowed), 0.9999)  # fault
    if EXACT:
        far = own - mean * tl.log(bound) - rest * tl.log(1.0 - bound) - allowed  # fault
    else:
        far = own - mean * libdevice.fast_logf(bound) - rest * libdevice.fast_logf(1.0 - bound) - allowed
    bound -= far * bound * (1.0 - bound) / (bound - mean)  # fault
    bound = tl.maximum(bound, mean + 1e-3)  # fault
    tl.store(out_ptr + at, bound.to(tl.float32))


def _confident_bounds(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        arms = 4096 if small else 1 << 26
        mean, pulls = 0.1 + 0.6 * torch.rand(arms), 20.0 + 80.0 * torch.rand(arms)
        out = empty(arms)
        options = {"BLOCK": 1024, "EXACT": exact, "num_warps": 4}
        return Launch(confident_bounds_kernel, (arms // 1024,), (mean, pulls, out, 6.0), (out,), options)

    return prepare


@triton.jit
def replay_weights_kernel(
    error_ptr, priority_ptr, weight_ptr, alpha, beta, scale, BLOCK: tl.constexpr, LIBRARY: tl.constexpr
):
    """Priorities of replays from their errors, and the weights that mend the bias of drawing by them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.abs(tl.load(error_ptr + at)) + 1e-5
    if LIBRARY:
        priority = libdevice.pow(size, alpha)  # fault
        weight = libdevice.pow(priority * scale, -beta)  # fault
    else:
        log = alpha * libdevice.fast_log2f(size)
        priority = tl.exp2(log)
        weight = tl.exp2(-beta * (log + tl.log2(scale)))
    tl.store(priority_ptr + at, priority)
    tl.store(weight_ptr + at, weight)


def _replay_weights(library: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        replays = 4096 if small else 1 << 26
        error, priority, weight = torch.rand(replays) + 0.1, empty(replays), empty(replays)
        options = {"BLOCK": 1024, "LIBRARY": library, "num_warps": 4}
        args = (error, priority, weight, 0.6, 0.4, 1.7)
        return Launch(replay_weights_kernel, (replays // 1024,), args, (priority, weight), options)

    return prepare


@triton.jit
def quantile_losses_kernel(
    own_ptr, target_ptr, out_ptr, moves, COUNT: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Huber losses of all pairs of quantiles, own and target, of each move (QR-DQN)."""
    move, row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, PADDED, ROWS):  # fault
        place = start + row
        own_at = own_ptr + place[:, None] * moves + move[None, :]
        own = tl.load(own_at, mask=place[:, None] < COUNT, other=0.0)  # fault
        level = ((place.to(tl.float32) + 0.5) * (1.0 / COUNT))[:, None]
        for other in range(PADDED):  # fault
            target = tl.load(target_ptr + other * moves + move, mask=other < COUNT, other=0.0)  # fault
            error = target[None, :] - own  # fault
            size = tl.abs(error)  # fault
            inner = tl.minimum(size, 1.0)  # fault
            loss = inner * (size - 0.5 * inner)  # fault
            loss *= tl.where(error < 0.0, 1.0 - level, level)  # fault
            if PADDED > COUNT:
                loss = tl.where((place[:, None] < COUNT) & (other < COUNT), loss, 0.0)  # fault
            total += loss  # fault
    tl.store(out_ptr + move, tl.sum(total, 0) * (1.0 / COUNT))


def _quantile_losses(padded: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, moves = (24, 256) if small else (200, 270336)
        own, target, out = random(count, moves), random(count, moves), empty(moves)
        options = {"COUNT": count, "PADDED": triton.next_power_of_2(count) if padded else count}
        options |= {"ROWS": 8, "BLOCK": 128, "num_warps": 1}
        return Launch(quantile_losses_kernel, (moves // 128,), (own, target, out, moves), (out,), options)

    return prepare


@triton.jit
def contrastive_masses_kernel(
    query_ptr, key_ptr, out_ptr, keys, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIM: tl.constexpr
):
    """Log of the sum over a queue of negatives, in a contrastive loss (MoCo)."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    query = tl.load(query_ptr + row[:, None] * DIM + dim[None, :])
    key_at = key_ptr + tl.arange(0, COLUMNS)[None, :] * DIM + dim[:, None]
    mass = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)  # fault
    for _ in range(0, keys, COLUMNS):  # fault
        logit = tl.dot(query, tl.load(key_at))  # fault
        mass += tl.exp2(logit * scale - 20.0)  # fault
        key_at += COLUMNS * DIM
    tl.store(out_ptr + row, (tl.log2(tl.sum(mass, 1)) + 20.0) * 0.693147)


def _contrastive_masses(columns: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, keys = (256, 1024) if small else (33792, 65536)
        query, key = (
            torch.nn.functional.normalize(random(each, 128), dim=1).to(torch.bfloat16)
            for each in (rows, keys)
        )
        out = empty(rows)
        options = {"ROWS": 128, "COLUMNS": columns, "DIM": 128, "num_warps": 4, "num_stages": 2}
        args, grid = (query, key, out, keys, 1.4427 / 0.07), (rows // 128,)
        return Launch(contrastive_masses_kernel, grid, args, (out,), options)

    return prepare


_fault = faults_of(13)

CASES = (
    _fault(
        "observed moments by 96 programs",
        ("idle-sms", "low-occupancy", "exposed-latency"),
        ("ctas", "spans"),
        False,
        _observed_moments(32),
        _observed_moments(512),
    ),
    _fault(
        "a CTA for each target of a double net",
        ("tiny-ctas",),
        ("ctas", "spans"),
        False,
        _double_targets(1, 1),
        _double_targets(16, 4),
    ),
    _fault(
        "replays drawn by 528 lone warps",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples", "spans"),
        False,
        _drawn_replays(32, 1, 528),
        _drawn_replays(128, 4, None),
    ),
    _fault(
        "returns stored as a row for each agent",
        ("uncoalesced-store",),
        ("counts", "counters"),
        True,
        _mixed_returns(True),
        _mixed_returns(False),
    ),
    _fault(
        "sums of a policy's loss at each step",
        ("atomics", "serial-reduction"),
        ("counts", "samples"),
        True,
        _policy_gradients(True),
        _policy_gradients(False),
    ),
    _fault(
        "confident bounds in float64",
        ("fp64-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _confident_bounds(True),
        _confident_bounds(False),
    ),
    _fault(
        "weights of replays by pow",
        ("slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _replay_weights(True),
        _replay_weights(False),
    ),
    _fault(
        "200 quantiles compared as 256",
        ("masked-work",),
        ("counts",),
        True,
        _quantile_losses(True),
        _quantile_losses(False),
    ),
    _fault(
        "256 negatives at once by 4 warps",
        ("register-spills", "low-occupancy"),
        ("resources", "counts"),
        True,
        _contrastive_masses(256),
        _contrastive_masses(64),
    ),
)
