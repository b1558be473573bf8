"""Thirteenth round, kernels of learning from rewards, of recommending and of retrieval, without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def group_advantages_kernel(reward_ptr, out_ptr, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """Rewards of the answers to each prompt as deviations from their mean (GRPO). Bound by DRAM."""
    group = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    reward = tl.load(reward_ptr + at)
    away = reward - (tl.sum(reward, 1) * (1.0 / GROUP))[:, None]
    scale = tl.rsqrt(tl.sum(away * away, 1) * (1.0 / GROUP) + 1e-6)
    tl.store(out_ptr + at, away * scale[:, None])


def _group_advantages(groups_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        groups, answers = (4 * groups_of_program, 16) if small else (1 << 22, 16)
        reward, out = random(groups, answers), empty(groups, answers)
        options = {"GROUP": answers, "ROWS": groups_of_program, "num_warps": num_warps}
        grid = (groups // groups_of_program,)
        return Launch(group_advantages_kernel, grid, (reward, out), (out,), options)

    return prepare


@triton.jit
def drawn_actions_kernel(
    value_ptr, noise_ptr, action_ptr, chance_ptr, coldness, ACTIONS: tl.constexpr, ROWS: tl.constexpr
):
    """Actions drawn by chances that grow with their values, which are small, and the logs of these chances.
    Bound by DRAM."""
    row, action = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, ACTIONS)
    at = row[:, None] * ACTIONS + action[None, :]
    score = tl.load(value_ptr + at) * coldness
    best = tl.argmax(score + tl.load(noise_ptr + at), 1)
    mass = tl.sum(tl.exp(score), 1)
    tl.store(action_ptr + row, best)
    tl.store(chance_ptr + row, tl.load(value_ptr + row * ACTIONS + best) * coldness - tl.log(mass))


def _drawn_actions(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, actions = (4 * rows_of_program, 64) if small else (1 << 20, 64)
        value = random(rows, actions)
        noise = -torch.log(-torch.log(torch.rand(rows, actions) * 0.999 + 5e-4))
        action, chance = empty(rows, dtype=torch.int32), empty(rows)
        options = {"ACTIONS": actions, "ROWS": rows_of_program, "num_warps": num_warps}
        args = (value, noise, action, chance, 2.0)
        return Launch(drawn_actions_kernel, (rows // rows_of_program,), args, (action, chance), options)

    return prepare


@triton.jit
def squashed_actions_kernel(
    mean_ptr, log_width_ptr, noise_ptr, action_ptr, chance_ptr, DIM: tl.constexpr, ROWS: tl.constexpr
):
    """Actions squashed by tanh, and the logs of their densities (soft actor-critic). Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    log_width, noise = tl.load(log_width_ptr + at), tl.load(noise_ptr + at)
    raw = tl.load(mean_ptr + at) + tl.exp2(log_width * 1.442695) * noise
    fade = tl.exp2(tl.abs(raw) * -2.88539)
    size = 2.0 / (1.0 + fade) - 1.0
    # the log of 1 - tanh(x)^2 = 4 fade / (1 + fade)^2
    shrink = 2.0 * (0.693147 - tl.abs(raw) - libdevice.fast_log2f(1.0 + fade) * 0.693147)
    tl.store(action_ptr + at, tl.where(raw < 0.0, -size, size))
    tl.store(chance_ptr + row, tl.sum(-0.5 * noise * noise - log_width - 0.918939 - shrink, 1))


def _squashed_actions(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (4 * rows_of_program, 32) if small else (1 << 20, 32)
        mean, log_width, noise = random(rows, dim), 0.3 * random(rows, dim) - 1.0, random(rows, dim)
        action, chance = empty(rows, dim), empty(rows)
        options = {"DIM": dim, "ROWS": rows_of_program, "num_warps": num_warps}
        args, grid = (mean, log_width, noise, action, chance), (rows // rows_of_program,)
        return Launch(squashed_actions_kernel, grid, args, (action, chance), options)

    return prepare


@triton.jit
def two_bins_kernel(value_ptr, out_ptr, low, per_step, BINS: tl.constexpr, ROWS: tl.constexpr):
    """Values, made smaller by a logarithm, as weights of the two nearest bins (DreamerV3). Bound by DRAM."""
    row, place = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BINS)
    value = tl.load(value_ptr + row)
    size = tl.log2(tl.abs(value) + 1.0) * 0.693147
    where = (tl.where(value < 0.0, -size, size) - low) * per_step
    where = tl.minimum(tl.maximum(where, 0.0), BINS - 1.0)
    weight = tl.maximum(1.0 - tl.abs(place.to(tl.float32)[None, :] - where[:, None]), 0.0)
    tl.store(out_ptr + row[:, None] * BINS + place[None, :], weight.to(tl.bfloat16))


def _two_bins(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, bins = (4 * rows_of_program, 256) if small else (1 << 20, 256)
        value, out = 100.0 * random(rows), empty(rows, bins, dtype=torch.bfloat16)
        options = {"BINS": bins, "ROWS": rows_of_program, "num_warps": num_warps}
        args = (value, out, -20.0, 6.375)
        return Launch(two_bins_kernel, (rows // rows_of_program,), args, (out,), options)

    return prepare


@triton.jit
def crossed_features_kernel(
    first_ptr, x_ptr, weight_ptr, bias_ptr, out_ptr, DIM: tl.constexpr, ROWS: tl.constexpr
):
    """Features crossed with the first ones (Deep & Cross). Bound by DRAM."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    weight = tl.load(weight_ptr + dim).to(tl.float32)
    bias = tl.load(bias_ptr + dim).to(tl.float32)
    at = row[:, None] * DIM + dim[None, :]
    first, x = tl.load(first_ptr + at).to(tl.float32), tl.load(x_ptr + at).to(tl.float32)
    share = tl.sum(x * weight[None, :], 1)
    tl.store(out_ptr + at, (first * share[:, None] + bias[None, :] + x).to(tl.bfloat16))


def _crossed_features(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (4 * rows_of_program, 1024) if small else (131072, 1024)
        first, x = (random(rows, dim, dtype=torch.bfloat16) for _ in range(2))
        weight, bias = 0.03 * random(dim, dtype=torch.bfloat16), random(dim, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        options = {"DIM": dim, "ROWS": rows_of_program, "num_warps": num_warps}
        args, grid = (first, x, weight, bias, out), (rows // rows_of_program,)
        return Launch(crossed_features_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def oblivious_trees_kernel(
    feature_ptr, question_ptr, leaf_ptr, out_ptr, rows, trees, DEPTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums of trees that ask one question a level, of features as bytes (CatBoost). Bound by L1 and issue."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tree in range(trees):
        leaf = tl.zeros((BLOCK,), dtype=tl.int32)
        for level in tl.static_range(DEPTH):
            question = tl.load(question_ptr + tree * DEPTH + level)
            feature = tl.load(feature_ptr + (question >> 8) * rows + row).to(tl.int32)
            leaf += (feature > (question & 255)).to(tl.int32) << level
        total += tl.load(leaf_ptr + tree * (1 << DEPTH) + leaf)
    tl.store(out_ptr + row, total)


def _oblivious_trees(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, trees = (4 * block, 16, 8) if small else (1 << 20, 128, 256)
        feature = integers(columns, rows, below=256, dtype=torch.uint8)
        question = integers(trees, 6, below=256 * columns)
        leaf, out = random(trees, 64), empty(rows)
        options = {"DEPTH": 6, "BLOCK": block, "num_warps": num_warps}
        args = (feature, question, leaf, out, rows, trees)
        return Launch(oblivious_trees_kernel, (rows // block,), args, (out,), options)

    return prepare


@triton.jit
def sampled_items_kernel(
    user_ptr, item_ptr, id_ptr, out_ptr, SAMPLES: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr
):
    """Scores of users with the items that each clicked or might have, out of a large table. Bound by DRAM,
    from where rows must be gathered."""
    pair, dim = tl.program_id(0) * ROWS * SAMPLES + tl.arange(0, ROWS * SAMPLES), tl.arange(0, DIM)
    item = tl.load(id_ptr + pair).to(tl.int64)
    row = tl.load(item_ptr + item[:, None] * DIM + dim[None, :]).to(tl.float32)
    user = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    own = tl.load(user_ptr + user[:, None] * DIM + dim[None, :]).to(tl.float32)
    score = tl.sum(tl.reshape(row, (ROWS, SAMPLES, DIM)) * own[:, None, :], 2)
    tl.store(out_ptr + user[:, None] * SAMPLES + tl.arange(0, SAMPLES)[None, :], score)


def _sampled_items(users_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        users, items, samples = (4 * users_of_program, 512, 16) if small else (131072, 1 << 22, 16)
        user, item = (random(each, 128, dtype=torch.bfloat16) for each in (users, items))
        number, out = integers(users, samples, below=items), empty(users, samples)
        options = {"SAMPLES": samples, "DIM": 128, "ROWS": users_of_program, "num_warps": num_warps}
        grid = (users // users_of_program,)
        return Launch(sampled_items_kernel, grid, (user, item, number, out), (out,), options)

    return prepare


@triton.jit
def signs_apart_kernel(x_ptr, query_ptr, out_ptr, WORDS: tl.constexpr, ROWS: tl.constexpr):
    """In how many signs, packed as bits, a query differs from each vector. Bound by DRAM."""
    row, word = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WORDS)
    query = tl.load(query_ptr + word)
    x = tl.load(x_ptr + row[:, None] * WORDS + word[None, :])
    tl.store(out_ptr + row, tl.sum(libdevice.popc(x ^ query[None, :]), 1))


def _signs_apart(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (4 * rows_of_program, 16) if small else (1 << 23, 16)
        x, query = (integers(each, words, below=2**31 - 1) for each in (rows, 1))
        out = empty(rows, dtype=torch.int32)
        options = {"WORDS": words, "ROWS": rows_of_program, "num_warps": num_warps}
        return Launch(signs_apart_kernel, (rows // rows_of_program,), (x, query, out), (out,), options)

    return prepare


@triton.jit
def summed_codewords_kernel(
    code_ptr, book_ptr, out_ptr, WORDS: tl.constexpr, LEVELS: tl.constexpr, DIM: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Vectors as sums of the words of eight books (residual quantisation). Bound by L2, where they lie."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    total = tl.zeros((ROWS, DIM), dtype=tl.float32)
    for level in tl.static_range(LEVELS):
        word = tl.load(code_ptr + row * LEVELS + level).to(tl.int32) + level * WORDS
        total += tl.load(book_ptr + word[:, None] * DIM + dim[None, :]).to(tl.float32)
    tl.store(out_ptr + row[:, None] * DIM + dim[None, :], total.to(tl.bfloat16))


def _summed_codewords(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words, dim = (4 * rows_of_program, 64, 256) if small else (1 << 19, 1024, 256)
        code = integers(rows, 8, below=words, dtype=torch.int16)
        book, out = random(8 * words, dim, dtype=torch.bfloat16), empty(rows, dim, dtype=torch.bfloat16)
        options = {"WORDS": words, "LEVELS": 8, "DIM": dim, "ROWS": rows_of_program, "num_warps": num_warps}
        grid = (rows // rows_of_program,)
        return Launch(summed_codewords_kernel, grid, (code, book, out), (out,), options)

    return prepare


@triton.jit
def batch_masses_kernel(
    text_ptr, image_ptr, out_ptr, images, scale, DIM: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Sums over all answers of a batch of how like they are to each question, in wide vectors of a language
    model (InfoNCE). Bound by tensor cores."""
    tiles = images // COLUMNS
    group = tl.program_id(0) // (GROUP * tiles)
    inner = tl.program_id(0) % (GROUP * tiles)
    row = (group * GROUP + inner % GROUP) * ROWS + tl.arange(0, ROWS)
    column, depth = inner // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    text_at = text_ptr + row[:, None] * DIM + depth[None, :]
    image_at = image_ptr + column[None, :] * DIM + depth[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, DIM, DEPTH):
        total = tl.dot(tl.load(text_at), tl.load(image_at), total)
        text_at += DEPTH
        image_at += DEPTH
    tl.atomic_add(out_ptr + row, tl.sum(tl.exp2(total * scale - scale), 1), sem="relaxed")


def _batch_masses(rows: int, columns: int, depth: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, images, dim = (256, 256, 128) if small else (8448, 8192, 4096)
        text, image = (
            torch.nn.functional.normalize(random(each, dim), dim=1).to(torch.bfloat16)
            for each in (texts, images)
        )
        out = zeros(texts)
        options = {"DIM": dim, "ROWS": rows, "COLUMNS": columns, "DEPTH": depth}
        options |= {"GROUP": 1 if small else 768 // rows, "num_warps": num_warps, "num_stages": num_stages}
        args, grid = (text, image, out, images, 14.4), ((texts // rows) * (images // columns),)
        return Launch(batch_masses_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def balanced_shares_kernel(
    x_ptr, column_scale_ptr, out_ptr, sum_ptr, EXPERTS: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr
):
    """A step of Sinkhorn that shares tokens among experts: rows sum to 1, columns are summed for the next
    step. Bound by DRAM."""
    row, expert = tl.arange(0, ROWS), tl.arange(0, EXPERTS)
    scale = tl.load(column_scale_ptr + expert)
    sums = tl.zeros((ROWS, EXPERTS), dtype=tl.float32)
    for step in range(STEPS):
        at = ((tl.program_id(0) * STEPS + step) * ROWS + row)[:, None] * EXPERTS + expert[None, :]
        share = tl.load(x_ptr + at) * scale[None, :]
        share = share * (1.0 / tl.sum(share, 1))[:, None]
        tl.store(out_ptr + at, share)
        sums += share
    tl.atomic_add(sum_ptr + expert, tl.sum(sums, 0), sem="relaxed")


def _balanced_shares(rows: int, steps: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, experts = (4 * rows * steps, 128) if small else (1 << 20, 128)
        x, scale = torch.rand(tokens, experts) + 0.1, torch.rand(experts) + 0.5
        out, sums = empty(tokens, experts), zeros(experts)
        options = {"EXPERTS": experts, "ROWS": rows, "STEPS": steps, "num_warps": num_warps}
        grid = (tokens // (rows * steps),)
        return Launch(balanced_shares_kernel, grid, (x, scale, out, sums), (out, sums), options)

    return prepare


@triton.jit
def seen_lines_kernel(hash_ptr, bit_ptr, words, BLOCK: tl.constexpr):
    """Bits of a filter set for the hashes of lines, to drop repeated ones. Bound by atomics at random places
    of DRAM, which must be."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(hash_ptr + at)
    place = (code >> 5) & (words - 1)
    tl.atomic_or(bit_ptr + place, tl.full((BLOCK,), 1, tl.int32) << (code & 31), sem="relaxed")


def _seen_lines(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        lines, words = (4 * block, 1024) if small else (1 << 25, 1 << 26)
        code, bit = integers(lines, below=2**31 - 1), zeros(words, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(seen_lines_kernel, (lines // block,), (code, bit, words), (bit,), options)

    return prepare


@triton.jit
def slow_network_kernel(slow_ptr, fast_ptr, copy_ptr, step, BLOCK: tl.constexpr):
    """A network that slowly follows another, and its copy in bfloat16 (a target network). Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slow = tl.load(slow_ptr + at)
    slow += step * (tl.load(fast_ptr + at).to(tl.float32) - slow)
    tl.store(slow_ptr + at, slow)
    tl.store(copy_ptr + at, slow.to(tl.bfloat16))


def _slow_network(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        weights = 4 * block if small else 1 << 27
        slow, fast = random(weights), random(weights, dtype=torch.bfloat16)
        copy = torch.empty_like(fast)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (slow, fast, copy, 0.005)
        return Launch(slow_network_kernel, (weights // block,), args, (slow, copy), options)

    return prepare


@triton.jit
def merged_words_kernel(word_ptr, table_ptr, rank_ptr, out_ptr, slots, BLOCK: tl.constexpr):
    """Ranks of the merges of neighbouring words, from a table of hashes with two places each (BPE). Bound by
    gathers out of L2."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.load(word_ptr + tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK))
    left, right = tl.split(tl.reshape(both, (BLOCK, 2)))
    pair = left * 65536 + right
    code = pair * -1640531527
    slot = (code ^ (code >> 15)) & (slots - 1)
    entry = tl.load(table_ptr + slot)
    there, next_one = entry.to(tl.int32), (entry >> 32).to(tl.int32)
    which = tl.where(there == pair, 2 * slot, 2 * slot + 1)
    found = (there == pair) | (next_one == pair)
    tl.store(out_ptr + at, tl.load(rank_ptr + which, mask=found, other=0x7FFFFFFF))


def _merged_words(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pairs, slots = (4 * block, 1024) if small else (1 << 25, 1 << 20)
        word = integers(2 * pairs, below=1024)
        merge = integers(slots, 2, below=1024)
        pair = merge[:, 0] * 65536 + merge[:, 1]
        code = pair * -1640531527
        slot = ((code ^ (code >> 15)) & (slots - 1)).long()
        table, rank = torch.full((2 * slots,), -1, dtype=torch.int32), integers(2 * slots, below=slots)
        table[2 * slot] = pair
        table[2 * slot + 1] = pair.flip(0)
        out = empty(pairs, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (word, table.view(torch.int64), rank, out, slots)
        return Launch(merged_words_kernel, (pairs // block,), args, (out,), options)

    return prepare


_good = faultless_of(13)

CASES = (
    _good("good advantages in groups", _group_advantages(64, 4)),
    _good("good draws of actions", _drawn_actions(16, 4)),
    _good("good squashed actions", _squashed_actions(32, 4)),
    _good("good weights of two bins", _two_bins(32, 8)),
    _good("good crossed features", _crossed_features(2, 4)),
    _good("good trees of one question a level", _oblivious_trees(512, 4)),
    _good("good scores of sampled items", _sampled_items(2, 4)),
    _good("good counts of other signs", _signs_apart(128, 4)),
    _good("good sums of codewords", _summed_codewords(2, 1)),
    _good("good masses of negatives of a batch", _batch_masses(128, 256, 64, 8, 3)),
    _good("good shares of experts", _balanced_shares(32, 4, 4)),
    _good("good filter of lines", _seen_lines(512, 4)),
    _good("good step of a slow network", _slow_network(512, 4)),
    _good("good ranks of merges", _merged_words(512, 4)),
)
