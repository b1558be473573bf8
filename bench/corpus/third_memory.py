"""Third round, faults of memory: what is fetched, how often, in what pieces, how long before its use."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def materialised_rows_kernel(
    column_ptr, row_ptr, out_ptr, rows, COLUMNS: tl.constexpr, TURNED: tl.constexpr, BLOCK: tl.constexpr
):
    """Rows that a filter chose, put together from the columns of a table."""
    chosen = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, COLUMNS)
    row = tl.load(row_ptr + chosen)
    if TURNED:
        found = tl.trans(tl.load(column_ptr + columns[:, None] * rows + row[None, :]))
    else:
        found = tl.load(column_ptr + columns[None, :] * rows + row[:, None])  # fault
    tl.store(out_ptr + chosen[:, None] * COLUMNS + columns[None, :], found)


def _materialised_rows(turned: bool) -> Prepare:
    """Rows in ascending order, about two of three."""

    def prepare(small: bool) -> Launch:
        count, columns = (64, 128) if small else (1 << 18, 128)
        rows = count * 3 // 2
        table = random(columns, rows)
        row = (torch.arange(count) * 3 // 2).int()
        out = empty(count, columns)
        options = {"COLUMNS": columns, "TURNED": turned, "BLOCK": 64, "num_warps": 8}
        args = (table, row, out, rows)
        return Launch(materialised_rows_kernel, (count // 64,), args, (out,), options)

    return prepare


@triton.jit
def shuffled_pixels_kernel(x_ptr, out_ptr, width, height, BLOCK: tl.constexpr):
    """Depth to space by 4: 16 channels become pixels of an image of four times the width and height."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, channel = tl.program_id(1), tl.program_id(2)
    part = channel % 16
    pixel = tl.load(x_ptr + (channel * height + y) * width + x)
    line = (channel // 16 * height + y) * 4 + part // 4
    tl.store(out_ptr + line * width * 4 + x * 4 + part % 4, pixel)  # fault


@triton.jit
def gathered_pixels_kernel(x_ptr, out_ptr, width, height, BLOCK: tl.constexpr):
    """As shuffled_pixels_kernel, by pixels of the large image."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y, image = tl.program_id(1), tl.program_id(2)
    channel = image * 16 + y % 4 * 4 + x % 4
    pixel = tl.load(x_ptr + (channel * height + y // 4) * width + x // 4)
    tl.store(out_ptr + (image * height * 4 + y) * width * 4 + x, pixel)


def _shuffled_pixels(by_output: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, width, height = (1, 1024, 2) if small else (8, 1024, 512)
        x = random(images * 16, height, width, dtype=torch.float16)
        out = empty(images, height * 4, width * 4, dtype=torch.float16)
        args = (x, out, width, height)
        options = {"BLOCK": 1024, "num_warps": 4}
        if by_output:
            grid = (width * 4 // 1024, height * 4, images)
            return Launch(gathered_pixels_kernel, grid, args, (out,), options)
        return Launch(shuffled_pixels_kernel, (width // 1024, height, images * 16), args, (out,), options)

    return prepare


@triton.jit
def scaled_bytes_kernel(
    x_ptr, scale_ptr, out_ptr, stride, K: tl.constexpr, INSIDE: tl.constexpr, ROWS: tl.constexpr
):
    """Dequantised rows of bytes; INSIDE: the scale of a row stands behind its bytes."""
    row, offs = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, K)
    x = tl.load(x_ptr + row[:, None] * stride + offs[None, :])  # fault
    if INSIDE:
        scale = tl.load((x_ptr + row * stride + K).to(tl.pointer_type(tl.float32)))
    else:
        scale = tl.load(scale_ptr + row)
    out = (x.to(tl.float32) * scale[:, None]).to(tl.float16)
    tl.store(out_ptr + row[:, None] * K + offs[None, :], out)


def _scaled_bytes(inside: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, k = (16, 1024) if small else (1 << 16, 1024)
        x = integers(rows, k, below=255, dtype=torch.int16).sub(127).to(torch.int8)
        scale = torch.rand(rows) + 0.5
        out = empty(rows, k, dtype=torch.float16)
        stride = k
        if inside:
            stride = k + 8
            behind = torch.stack([scale, torch.zeros(rows)], 1).view(torch.int8)
            x = torch.cat([x, behind], 1)
        options = {"K": k, "INSIDE": inside, "ROWS": 4, "num_warps": 4}
        args = (x, scale, out, stride)
        return Launch(scaled_bytes_kernel, (rows // 4,), args, (out,), options)

    return prepare


@triton.jit
def depth_derivative_kernel(x_ptr, out_ptr, plane, BLOCK: tl.constexpr):
    """The second derivative of a volume by depth, of fourth order; a program takes a piece of a plane."""
    at = x_ptr + tl.program_id(1).to(tl.int64) * plane + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    outer = tl.load(at) + tl.load(at + 4 * plane.to(tl.int64))  # fault
    inner = tl.load(at + plane) + tl.load(at + 3 * plane.to(tl.int64))  # fault
    middle = tl.load(at + 2 * plane.to(tl.int64))  # fault
    out = out_ptr + tl.program_id(1).to(tl.int64) * plane + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, (16.0 * inner - outer - 30.0 * middle) / 12.0)


@triton.jit
def depth_column_kernel(x_ptr, out_ptr, plane, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """As depth_derivative_kernel; a program goes down through all planes."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, out = x_ptr + offs, out_ptr + offs
    first = tl.load(at)
    second = tl.load(at + plane)
    third = tl.load(at + 2 * plane.to(tl.int64))
    fourth = tl.load(at + 3 * plane.to(tl.int64))
    for z in tl.static_range(DEPTH):
        fifth = tl.load(at + (z + 4) * plane.to(tl.int64))
        derivative = (16.0 * (second + fourth) - (first + fifth) - 30.0 * third) / 12.0
        tl.store(out + z * plane.to(tl.int64), derivative)
        first, second, third, fourth = second, third, fourth, fifth


def _depth_derivative(down: bool) -> Prepare:
    """A plane has 32 MB, so five of them are more than the L2 cache has room for."""

    def prepare(small: bool) -> Launch:
        plane, depth = (2048, 4) if small else (1 << 23, 16)
        x = random(depth + 4, plane)
        out = empty(depth, plane)
        if down:
            options = {"DEPTH": depth, "BLOCK": 1024, "num_warps": 8}
            return Launch(depth_column_kernel, (plane // 1024,), (x, out, plane), (out,), options)
        options = {"BLOCK": 1024, "num_warps": 8}
        return Launch(depth_derivative_kernel, (plane // 1024, depth), (x, out, plane), (out,), options)

    return prepare


@triton.jit
def filter_bank_kernel(
    x_ptr, w_ptr, out_ptr, n, FILTERS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr
):
    """A signal through some filters of finite response, one filter after the other."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for f in range(FILTERS):
        acc = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in tl.static_range(TAPS):
            x = tl.load(x_ptr + offs + tap)  # fault
            acc += x * tl.load(w_ptr + f * TAPS + tap)
        tl.store(out_ptr + f * n + offs, acc)


@triton.jit
def filters_by_four_kernel(
    x_ptr, w_ptr, out_ptr, n, FILTERS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr
):
    """As filter_bank_kernel; a sample goes through four filters when it is there."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for f in range(0, FILTERS, 4):
        one = tl.zeros((BLOCK,), dtype=tl.float32)
        two, three, four = one, one, one
        w = w_ptr + f * TAPS
        for tap in tl.static_range(TAPS):
            x = tl.load(x_ptr + offs + tap)
            one += x * tl.load(w + tap)
            two += x * tl.load(w + TAPS + tap)
            three += x * tl.load(w + 2 * TAPS + tap)
            four += x * tl.load(w + 3 * TAPS + tap)
        out = out_ptr + f * n + offs
        tl.store(out, one)
        tl.store(out + n, two)
        tl.store(out + 2 * n, three)
        tl.store(out + 3 * n, four)


def _filter_bank(by_four: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, taps = (1024, 8) if small else (1 << 21, 32)
        x, w, out = random(n + taps), random(16, taps), empty(16, n)
        options = {"FILTERS": 16, "TAPS": taps, "BLOCK": 256, "num_warps": 4}
        kernel = filters_by_four_kernel if by_four else filter_bank_kernel
        return Launch(kernel, (n // 256,), (x, w, out, n), (out,), options)

    return prepare


@gluon.jit
def _add(a, b):
    return a + b


@gluon.jit
def integral_tiles_kernel(x_ptr, out_ptr, width, SWIZZLED: gl.constexpr, TILE: gl.constexpr):
    """Integral images of tiles: sums along the rows, turned in shared memory, then along the columns."""
    across: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [1, 1], [1, 0])
    row_each: gl.constexpr = gl.BlockedLayout([1, TILE], [32, 1], [1, 1], [1, 0])
    column_each: gl.constexpr = gl.BlockedLayout([TILE, 1], [1, 32], [1, 1], [0, 1])
    vector: gl.constexpr = 4 if SWIZZLED else 1
    phases: gl.constexpr = TILE // 4 if SWIZZLED else 1
    shared: gl.constexpr = gl.SwizzledSharedLayout(vector, 1, phases, order=[1, 0])
    tile = gl.allocate_shared_memory(gl.float32, [TILE, TILE], shared)
    base = gl.program_id(1) * TILE * width + gl.program_id(0) * TILE
    rows = gl.arange(0, TILE, layout=gl.SliceLayout(1, across))
    columns = gl.arange(0, TILE, layout=gl.SliceLayout(0, across))
    tile.store(gl.load(x_ptr + base + rows[:, None] * width + columns[None, :]))
    along = gl.associative_scan(tile.load(row_each), 1, _add)  # fault
    tile.store(along)  # fault
    whole = gl.associative_scan(tile.load(column_each), 0, _add)
    rows = gl.arange(0, TILE, layout=gl.SliceLayout(1, column_each))
    columns = gl.arange(0, TILE, layout=gl.SliceLayout(0, column_each))
    gl.store(out_ptr + base + rows[:, None] * width + columns[None, :], whole)


def _integral_tiles(swizzled: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        width, height = (64, 32) if small else (8192, 4096)
        x, out = torch.rand(height, width), empty(height, width)
        options = {"SWIZZLED": swizzled, "TILE": 32, "num_warps": 1}
        grid = (width // 32, height // 32)
        return Launch(integral_tiles_kernel, grid, (x, out, width), (out,), options)

    return prepare


@triton.jit
def edge_messages_kernel(
    x_ptr, source_ptr, target_ptr, weight_ptr, out_ptr, DIM: tl.constexpr, EDGES: tl.constexpr
):
    """Messages along the edges of a graph, added up in the nodes that they go to."""
    edge = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    dims = tl.arange(0, DIM)
    source, target = tl.load(source_ptr + edge), tl.load(target_ptr + edge)
    message = tl.load(x_ptr + source[:, None] * DIM + dims[None, :]) * tl.load(weight_ptr + edge)[:, None]
    tl.atomic_add(out_ptr + target[:, None] * DIM + dims[None, :], message, sem="relaxed")  # fault


@triton.jit
def node_messages_kernel(
    x_ptr, source_ptr, target_ptr, weight_ptr, out_ptr, DIM: tl.constexpr, EDGES: tl.constexpr
):
    """As edge_messages_kernel, of edges sorted by target; a program takes the edges of one node."""
    edge = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    dims = tl.arange(0, DIM)
    source = tl.load(source_ptr + edge)
    message = tl.load(x_ptr + source[:, None] * DIM + dims[None, :]) * tl.load(weight_ptr + edge)[:, None]
    target = tl.load(target_ptr + tl.program_id(0) * EDGES)
    tl.store(out_ptr + target * DIM + dims, tl.sum(message, 0))


def _messages(by_node: bool) -> Prepare:
    """64 edges a node."""

    def prepare(small: bool) -> Launch:
        nodes, dim, degree = (8, 64, 64) if small else (1 << 14, 64, 64)
        x, weight = random(nodes, dim), torch.rand(nodes * degree)
        source = integers(nodes * degree, below=nodes)
        target = torch.arange(nodes, dtype=torch.int32).repeat_interleave(degree)
        out = zeros(nodes, dim)
        args = (x, source, target, weight, out)
        options = {"DIM": dim, "EDGES": degree, "num_warps": 4}
        kernel = node_messages_kernel if by_node else edge_messages_kernel
        return Launch(kernel, (nodes,), args, (out,), options)

    return prepare


@triton.jit
def viterbi_kernel(emission_ptr, transition_ptr, out_ptr, length, STATES: tl.constexpr, AHEAD: tl.constexpr):
    """The best score of a chain's states after all steps; a program for a sequence."""
    states = tl.arange(0, STATES)
    at = emission_ptr + tl.program_id(0) * length * STATES + states
    transition = tl.load(transition_ptr + states[:, None] * STATES + states[None, :])
    score = tl.zeros((STATES,), dtype=tl.float32)
    if AHEAD == 0:
        for step in range(length):
            emission = tl.load(at + step * STATES)  # fault
            score = tl.max(score[:, None] + transition, 0) + emission  # fault
    else:
        for step in tl.range(0, length, num_stages=AHEAD):
            score = tl.max(score[:, None] + transition, 0) + tl.load(at + step * STATES)
    tl.store(out_ptr + tl.program_id(0) * STATES + states, score)


def _viterbi(ahead: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, length = (2, 16) if small else (528, 256)
        emission, transition = random(sequences, length, 32), random(32, 32)
        out = empty(sequences, 32)
        args = (emission, transition, out, length)
        options = {"STATES": 32, "AHEAD": ahead, "num_warps": 1}
        return Launch(viterbi_kernel, (sequences,), args, (out,), options)

    return prepare


@triton.jit
def recurrent_kernel(x_ptr, w_ptr, out_ptr, length, STATES: tl.constexpr, EACH: tl.constexpr):
    """The hidden states of a recurrent network; a program for a sequence."""
    states = tl.arange(0, STATES)
    at = tl.program_id(0) * length * STATES + states
    entries = states[:, None] * STATES + states[None, :]
    w = tl.load(w_ptr + entries)
    hidden = tl.zeros((STATES,), dtype=tl.float32)
    for step in range(length):
        x = tl.load(x_ptr + at + step * STATES)
        if EACH:
            w = tl.load(w_ptr + entries)  # fault
        hidden = 2.0 * tl.sigmoid(x + tl.sum(hidden[:, None] * w, 0)) - 1.0
        tl.store(out_ptr + at + step * STATES, hidden)


def _recurrent(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, length = (2, 8) if small else (132 * 8, 128)
        x, w = random(sequences, length, 64), random(64, 64) * 0.125
        out = empty(sequences, length, 64)
        options = {"STATES": 64, "EACH": each, "num_warps": 1}
        return Launch(recurrent_kernel, (sequences,), (x, w, out, length), (out,), options)

    return prepare


_case = faults_of(3)


CASES = (
    _case(
        "rows put together from columns",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _materialised_rows(False),
        _materialised_rows(True),
    ),
    _case(
        "pixels shuffled by channel",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _shuffled_pixels(False),
        _shuffled_pixels(True),
    ),
    _case(
        "scale behind the bytes of a row",
        ("unvectorized-access",),
        ("counts",),
        True,
        _scaled_bytes(True),
        _scaled_bytes(False),
    ),
    _case(
        "five planes for each plane",
        ("tile-reread",),
        ("counters",),
        False,
        _depth_derivative(False),
        _depth_derivative(True),
    ),
    _case(
        "signal loaded for each filter",
        ("l1-bound", "redundant-load"),
        ("counts", "counters"),
        True,
        _filter_bank(False),
        _filter_bank(True),
    ),
    _case(
        "integral image through plain shared",
        ("bank-conflict",),
        ("counts",),
        True,
        _integral_tiles(False),
        _integral_tiles(True),
    ),
    _case(
        "messages added edge by edge",
        ("atomics",),
        ("counters", "samples"),
        False,
        _messages(False),
        _messages(True),
    ),
    _case(
        "emission loaded when needed",
        ("exposed-latency", "few-stages"),
        ("samples", "spans"),
        False,
        _viterbi(0),
        _viterbi(6),
    ),
    _case(
        "recurrent weights loaded each step",
        ("redundant-load",),
        ("counts",),
        True,
        _recurrent(True),
        _recurrent(False),
    ),
)
