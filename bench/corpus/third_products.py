"""Third round, faults of matrix products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def complex_matmul_kernel(
    ar_ptr, ai_ptr, br_ptr, bi_ptr, cr_ptr, ci_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The product of complex matrices, whose real and imaginary parts are apart."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    real = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    less = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    imaginary = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = offs_m[:, None] * K + (k + offs_k)[None, :]
        b = (k + offs_k)[:, None] * N + offs_n[None, :]
        ar, ai = tl.load(ar_ptr + a), tl.load(ai_ptr + a)  # fault
        br, bi = tl.load(br_ptr + b), tl.load(bi_ptr + b)  # fault
        real = tl.dot(ar, br, real)  # fault
        less = tl.dot(ai, bi, less)  # fault
        imaginary = tl.dot(ar, bi, imaginary)  # fault
        imaginary = tl.dot(ai, br, imaginary)  # fault
    c = offs_m[:, None] * N + offs_n[None, :]
    tl.store(cr_ptr + c, (real - less).to(tl.float16))
    tl.store(ci_ptr + c, imaginary.to(tl.float16))


def _complex_matmul(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 64) if small else (2048, 2304, 2048)
        parts = [random(*shape, dtype=torch.float16) for shape in ((m, k), (m, k), (k, n), (k, n))]
        cr, ci = (empty(m, n, dtype=torch.float16) for _ in range(2))
        options = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 8, "num_stages": stages}
        grid = (n // 64, m // 128)
        return Launch(complex_matmul_kernel, grid, (*parts, cr, ci, n, k), (cr, ci), options)

    return prepare


@triton.jit
def cosine_transform_kernel(
    x_ptr,
    basis_ptr,
    out_ptr,
    WIDE: tl.constexpr,
    SIZE: tl.constexpr,
    FRAMES: tl.constexpr,
    PART: tl.constexpr,
):
    """Cosine transforms of frames of sound, of 64 samples each."""
    frame, sample = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES), tl.arange(0, SIZE)
    part = tl.arange(0, PART)
    spectrum = tl.zeros((FRAMES, SIZE), dtype=tl.float32)
    for first in range(0, SIZE, PART):
        x = tl.load(x_ptr + frame[:, None] * SIZE + (first + part)[None, :])
        basis = tl.load(basis_ptr + (first + part)[:, None] * SIZE + sample[None, :])
        if WIDE:
            spectrum = tl.dot(
                x.to(tl.float32), basis.to(tl.float32), spectrum, input_precision="ieee"
            )  # fault
        else:
            spectrum = tl.dot(x, basis, spectrum)
    tl.store(out_ptr + frame[:, None] * SIZE + sample[None, :], spectrum.to(tl.float16))


def _cosine_transform(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames = 128 if small else 1 << 19
        x = random(frames, 64, dtype=torch.float16)
        at = torch.arange(64, dtype=torch.float32)
        basis = torch.cos((at[:, None] + 0.5) * at[None, :] * (torch.pi / 64)).half()
        out = empty(frames, 64, dtype=torch.float16)
        options = {"WIDE": wide, "SIZE": 64, "FRAMES": 64, "PART": 16, "num_warps": 4}
        return Launch(cosine_transform_kernel, (frames // 64,), (x, basis, out), (out,), options)

    return prepare


@triton.jit
def correlation_kernel(
    x_ptr, y_ptr, out_ptr, pixels, CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """How alike the pixels of two pictures are, each with each, for the optical flow between them."""
    image = tl.program_id(2)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + (image * pixels + offs_m)[:, None] * CHANNELS + offs_k[None, :]
    y = y_ptr + (image * pixels + offs_n)[None, :] * CHANNELS + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, CHANNELS, BLOCK_K):
        acc = tl.dot(tl.load(x + k), tl.load(y + k), acc)  # fault
    out = out_ptr + (image * pixels + offs_m)[:, None].to(tl.int64) * pixels + offs_n[None, :]
    tl.store(out, (acc * 0.0625).to(tl.float16))


def _correlation(block: int, warps: int) -> Prepare:
    """block: pixels of the first picture a program."""

    def prepare(small: bool) -> Launch:
        images, pixels, channels = (1, 128, 64) if small else (8, 4096, 256)
        x, y = (random(images, pixels, channels, dtype=torch.float16) for _ in range(2))
        out = empty(images, pixels, pixels, dtype=torch.float16)
        options = {"CHANNELS": channels, "BLOCK_M": block, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": warps, "num_stages": 3}
        grid = (pixels // 128, pixels // block, images)
        return Launch(correlation_kernel, grid, (x, y, out, pixels), (out,), options)

    return prepare


@triton.jit
def document_scores_kernel(
    query_ptr,
    document_ptr,
    out_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Scores of documents for queries; a partition of warps loads what another one multiplies."""
    queries = tl.make_tensor_descriptor(query_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    documents = tl.make_tensor_descriptor(document_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    scores = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        query = queries.load([off_m, k * BLOCK_K])  # fault
        document = documents.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(query, document.T, acc)  # fault
    scores.store([off_m, off_n], acc.to(tl.bfloat16))


def _document_scores(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (1024, 8192, 4096)
        query, document = random(m, k, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16)
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": stages}
        args = (query, document, out, m, n, k)
        return Launch(document_scores_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def squared_relu_matmul_kernel(
    h_ptr, w_ptr, out_ptr, N, K, ACTIVATE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The second product of an MLP; ACTIVATE: its operand is activated on the way into each product."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        h = tl.load(h_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        if ACTIVATE:
            h = tl.maximum(h, tl.zeros_like(h))  # fault
            h = h * h  # fault
        w = tl.load(w_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(h, w, acc)  # fault
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _squared_relu_matmul(activate: bool) -> Prepare:
    """If not activated here, the operand is what the first product's epilogue wrote."""

    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (4096, 4096, 4096)
        h, w = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16)
        if not activate:
            h = torch.relu(h) ** 2
        out = empty(m, n, dtype=torch.float16)
        options = {"ACTIVATE": activate, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (n // 128, m // 128)
        return Launch(squared_relu_matmul_kernel, grid, (h, w, out, n, k), (out,), options)

    return prepare


CASES = (
    Case(
        "complex product of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _complex_matmul(1),
        _complex_matmul(3),
        round=3,
    ),
    Case(
        "cosine transform in float32",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _cosine_transform(True),
        _cosine_transform(False),
        round=3,
    ),
    Case(
        "correlation by 16 pixels",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _correlation(16, 4),
        _correlation(128, 8),
        round=3,
    ),
    Case(
        "documents through two buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples"),
        False,
        _document_scores(2),
        _document_scores(4),
        least=90,
        round=3,
    ),
    Case(
        "operand squared in the loop",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _squared_relu_matmul(True),
        _squared_relu_matmul(False),
        round=3,
    ),
)
