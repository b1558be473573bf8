"""Twelfth round, faults of sequences and tables: joins, genomes, packets, sound, signatures, windows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def bucket_join_kernel(build_ptr, probe_ptr, unit_ptr, out_ptr, PROBES: tl.constexpr, BUILDS: tl.constexpr):
    """How many rows of the one table each row of the other matches, both parted into buckets by hash. A unit
    of work: the rows of a bucket in the one, and all or some of those in the other."""
    unit = unit_ptr + tl.program_id(0) * 4
    first_build, last_build = tl.load(unit), tl.load(unit + 1)
    first_probe, last_probe = tl.load(unit + 2), tl.load(unit + 3)
    for start in range(first_probe, last_probe, PROBES):  # fault
        at = start + tl.arange(0, PROBES)
        probe = tl.load(probe_ptr + at)
        found = tl.zeros((PROBES, BUILDS), dtype=tl.int32)
        for begin in range(first_build, last_build, BUILDS):  # fault
            build = tl.load(build_ptr + begin + tl.arange(0, BUILDS))  # fault
            found += (probe[:, None] == build[None, :]).to(tl.int32)  # fault
        tl.store(out_ptr + at, tl.sum(found, 1))


def _bucket_join(most: int) -> Prepare:
    """most: rows of the second table in a unit. One bucket of 48 holds the keys that everybody uses."""

    def prepare(small: bool) -> Launch:
        buckets, usual, large = (4, 128, 256) if small else (1056, 1024, 4096)
        units, ends = [], 0
        for bucket in range(buckets):
            rows = large if bucket % 48 == 1 else usual
            for start in range(ends, ends + rows, min(most, rows)):
                units.append((ends, ends + rows, start, start + min(most, rows)))
            ends += rows
        build, probe = (integers(ends, below=1 << 10) for _ in range(2))
        out = empty(ends, dtype=torch.int32)
        args = (build, probe, torch.tensor(units, dtype=torch.int32), out)
        options = {"PROBES": 64, "BUILDS": 64, "num_warps": 4}
        return Launch(bucket_join_kernel, (len(units),), args, (out,), options)

    return prepare


@triton.jit
def mixed_tracks_kernel(voice_ptr, music_ptr, out_ptr, voice_gain, music_gain, BLOCK: tl.constexpr):
    """Two tracks of 16-bit samples mixed into one, cut off at full scale."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    voice, music = tl.load(voice_ptr + at).to(tl.float32), tl.load(music_ptr + at).to(tl.float32)
    mixed = tl.clamp(voice * voice_gain + music * music_gain, -32768.0, 32767.0)
    tl.store(out_ptr + at, mixed.to(tl.int16))


def _mixed_tracks(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 2048 if small else 1 << 26
        block_here = min(block, 512) if small else block
        voice, music = (integers(samples, below=30000, dtype=torch.int16) for _ in range(2))
        out = torch.empty_like(voice)
        options = {"BLOCK": block_here, "num_warps": num_warps}
        grid = (samples // block_here,)
        return Launch(mixed_tracks_kernel, grid, (voice, music, out, 0.8, 0.6), (out,), options)

    return prepare


@triton.jit
def _hashed(shingle, factor, salt):
    mixed = shingle * factor + salt
    return (mixed ^ (mixed >> 15)).to(tl.uint32, bitcast=True)


@triton.jit
def signatures_kernel(
    shingle_ptr, salt_ptr, out_ptr, documents, doc_step, hash_step, HASHES: tl.constexpr, DOCS: tl.constexpr
):
    """For each document the least of its shingles' hashes, for many hashes (MinHash)."""
    doc = tl.program_id(0) * DOCS + tl.arange(0, DOCS)
    first, second = tl.load(shingle_ptr + doc), tl.load(shingle_ptr + documents + doc)
    third, fourth = tl.load(shingle_ptr + 2 * documents + doc), tl.load(shingle_ptr + 3 * documents + doc)
    for each in range(HASHES):
        factor, salt = tl.load(salt_ptr + 2 * each), tl.load(salt_ptr + 2 * each + 1)
        least = tl.minimum(_hashed(first, factor, salt), _hashed(second, factor, salt))
        least = tl.minimum(least, _hashed(third, factor, salt))
        least = tl.minimum(least, _hashed(fourth, factor, salt))
        at = out_ptr + doc * doc_step + each * hash_step
        tl.store(at, least.to(tl.int32, bitcast=True))  # fault


def _signatures(by_hash: bool) -> Prepare:
    """Of a document in a row, or of a hash in a row."""

    def prepare(small: bool) -> Launch:
        documents, hashes = (1024, 16) if small else (1 << 20, 64)
        shingle = integers(4, documents, below=1 << 30)
        salt = integers(hashes, 2, below=1 << 30) | 1
        out = empty(hashes, documents, dtype=torch.int32)
        steps, result = (1, documents), out
        if not by_hash:
            out = empty(documents, hashes, dtype=torch.int32)
            steps, result = (hashes, 1), out.T
        options = {"HASHES": hashes, "DOCS": 128, "num_warps": 4}
        args = (shingle, salt, out, documents, *steps)
        return Launch(signatures_kernel, (documents // 128,), args, (result,), options)

    return prepare


@triton.jit
def spans_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SORT: tl.constexpr):
    """How far the readings of each window lie apart."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + row[:, None] * COLUMNS + column)
    if SORT:
        x = tl.sort(x, 1)  # fault
        most = tl.sum(tl.where(column == COLUMNS - 1, x, 0.0), 1)
        least = tl.sum(tl.where(column == 0, x, 0.0), 1)
    else:
        most, least = tl.max(x, 1), tl.min(x, 1)
    tl.store(out_ptr + row, most - least)


def _spans(sort: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 8 if small else 1 << 18
        x, out = random(rows, 256), empty(rows)
        options = {"ROWS": 4, "COLUMNS": 256, "SORT": sort, "num_warps": 4}
        return Launch(spans_kernel, (rows // 4,), (x, out), (out,), options)

    return prepare


@triton.jit
def headers_kernel(
    packet_ptr, out_ptr, SLOT: tl.constexpr, HEADER: tl.constexpr, PACKETS: tl.constexpr, WORDS: tl.constexpr
):
    """Checksums of the headers of packets, each in a slot of its own (RFC 1071)."""
    packet, word = tl.program_id(0) * PACKETS + tl.arange(0, PACKETS), tl.arange(0, WORDS)[None, :]
    words = tl.load(packet_ptr + packet[:, None] * SLOT + word)  # fault
    words = tl.where(word < HEADER, words, 0)  # fault
    total = tl.sum((words & 0xFFFF) + ((words >> 16) & 0xFFFF), 1)  # fault
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    tl.store(out_ptr + packet, 0xFFFF - total)


def _headers(packets_of_program: int, words: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        packets = 512 if small else 1 << 21
        packet = integers(packets, 64, below=2147483647)
        out = empty(packets, dtype=torch.int32)
        options = {"SLOT": 64, "HEADER": 5, "PACKETS": packets_of_program, "WORDS": words, "num_warps": 4}
        return Launch(headers_kernel, (packets // packets_of_program,), (packet, out), (out,), options)

    return prepare


@triton.jit
def resampled_kernel(x_ptr, tap_ptr, out_ptr, TAPS: tl.constexpr, BLOCK: tl.constexpr, FLOATS: tl.constexpr):
    """Sound at a fraction of a sample later, each tap's product rounded as the reference decoder does."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FLOATS:
        wide = tl.zeros((BLOCK,), dtype=tl.int64)
        for each in range(TAPS):
            sample, tap = tl.load(x_ptr + at + each), tl.load(tap_ptr + each).to(tl.float32)
            scaled = sample.to(tl.float32) * tap  # fault
            wide += tl.floor(scaled * (1.0 / 32768.0)).to(tl.int64)  # fault
        total = wide.to(tl.int32)
    else:
        total = tl.zeros((BLOCK,), dtype=tl.int32)
        for each in range(TAPS):
            total += (tl.load(x_ptr + at + each).to(tl.int32) * tl.load(tap_ptr + each)) >> 15
    tl.store(out_ptr + at, tl.minimum(tl.maximum(total, -32768), 32767).to(tl.int16))


def _resampled(floats: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 2048 if small else 1 << 24
        x = integers(samples + 32, below=60000) - 30000
        tap = integers(32, below=4000) - 2000
        out = empty(samples, dtype=torch.int16)
        options = {"TAPS": 32, "BLOCK": 1024, "FLOATS": floats, "num_warps": 4}
        grid = (samples // 1024,)
        return Launch(resampled_kernel, grid, (x.to(torch.int16), tap, out), (out,), options)

    return prepare


@triton.jit
def consensus_kernel(
    base_ptr, out_ptr, sequences, site_step, sequence_step, SITES: tl.constexpr, STEP: tl.constexpr
):
    """How many of the aligned sequences have the commonest base, for each site."""
    site = tl.program_id(0) * SITES + tl.arange(0, SITES)
    a, c = tl.zeros((SITES,), dtype=tl.int32), tl.zeros((SITES,), dtype=tl.int32)
    g, t = tl.zeros((SITES,), dtype=tl.int32), tl.zeros((SITES,), dtype=tl.int32)
    at = base_ptr + site * site_step
    for start in range(0, sequences, STEP):
        for each in tl.static_range(STEP):
            base = tl.load(at + (start + each) * sequence_step)  # fault
            a += (base == 0).to(tl.int32)
            c += (base == 1).to(tl.int32)
            g += (base == 2).to(tl.int32)
            t += (base == 3).to(tl.int32)
    tl.store(out_ptr + site, tl.maximum(tl.maximum(a, c), tl.maximum(g, t)))


def _consensus(by_sequence: bool) -> Prepare:
    """Of a site in a row, or of a sequence in a row."""

    def prepare(small: bool) -> Launch:
        sites, sequences = (1024, 32) if small else (1 << 18, 1024)
        base = integers(sites, sequences, below=5, dtype=torch.uint8)
        steps = (sequences, 1)
        if by_sequence:
            base, steps = base.T.contiguous(), (1, sites)
        out = empty(sites, dtype=torch.int32)
        options = {"SITES": 512, "STEP": 16, "num_warps": 4}
        return Launch(consensus_kernel, (sites // 512,), (base, out, sequences, *steps), (out,), options)

    return prepare


@triton.jit
def fingerprints_kernel(
    x_ptr, y_ptr, x_count_ptr, y_count_ptr, out_ptr, columns, bits, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BITS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Likenesses of molecules, the share of their fingerprints' bits that two have in common (Tanimoto)."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, bit = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, BITS)
    common = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, bits, BITS):
        x = tl.load(x_ptr + row[:, None] * bits + (start + bit)[None, :])
        if DOT:
            y = tl.load(y_ptr + column[None, :] * bits + (start + bit)[:, None])
            common = tl.dot(x, y, common)
        else:
            y = tl.load(y_ptr + column[:, None] * bits + (start + bit)[None, :])
            both = x[:, None, :].to(tl.float32) * y[None, :, :].to(tl.float32)  # fault
            common += tl.sum(both, 2)  # fault
    either = tl.load(x_count_ptr + row)[:, None] + tl.load(y_count_ptr + column)[None, :] - common
    tl.store(out_ptr + row[:, None] * columns + column[None, :], common / either)


def _fingerprints(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        molecules, bits = (64, 64) if small else (2048, 1024)
        x, y = ((random(molecules, bits) > 0.0).to(torch.float16) for _ in range(2))
        out = empty(molecules, molecules)
        each, depth = (64, 64) if dot else (32, 16)
        options = {"ROWS": each, "COLUMNS": each, "BITS": depth, "DOT": dot, "num_warps": 4}
        args = (x, y, x.float().sum(1), y.float().sum(1), out, molecules, bits)
        grid = (molecules // each, molecules // each)
        return Launch(fingerprints_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def bit_reversed_kernel(x_ptr, window_ptr, out_ptr, LENGTH: tl.constexpr, GATHER: tl.constexpr):
    """Frames of sound under a window, put in the order in which a Fourier transform of base 2 begins."""
    at = tl.arange(0, LENGTH)
    x = tl.load(x_ptr + tl.program_id(0) * LENGTH + at) * tl.load(window_ptr + at)
    if GATHER:
        mirrored = tl.inline_asm_elementwise("brev.b32 $0, $1;", "=r,r", [at], tl.int32, True, 1)
        mirrored = (mirrored >> 20) & (LENGTH - 1)
        x = tl.gather(x, mirrored, 0)  # fault
    else:
        x = tl.reshape(x, (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2))
        x = tl.reshape(tl.permute(x, (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)), (LENGTH,))
    tl.store(out_ptr + tl.program_id(0) * LENGTH + at, x)


def _bit_reversed(gather: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames = 4 if small else 16384
        x, window = random(frames, 4096), torch.hann_window(4096)
        out = torch.empty_like(x)
        options = {"LENGTH": 4096, "GATHER": gather, "num_warps": 8}
        return Launch(bit_reversed_kernel, (frames,), (x, window, out), (out,), options)

    return prepare


@triton.jit
def running_sales_kernel(sale_ptr, out_ptr, best_ptr, SHOPS: tl.constexpr, DAYS: tl.constexpr):
    """Sales of shops up to each day of a part of a year, and the best day."""
    for each in range(SHOPS):
        shop = tl.program_id(0) * SHOPS + each
        at = shop * DAYS + tl.arange(0, DAYS)
        sale = tl.load(sale_ptr + at)
        tl.store(out_ptr + at, tl.cumsum(sale, 0))
        tl.store(best_ptr + shop, tl.max(sale, 0))


def _running_sales(num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        shops = 32 if small else 1 << 18
        sale = torch.rand(shops, 256)
        out, best = torch.empty_like(sale), empty(shops)
        options = {"SHOPS": 8, "DAYS": 256, "num_warps": num_warps}
        return Launch(running_sales_kernel, (shops // 8,), (sale, out, best), (out, best), options)

    return prepare


_fault = faults_of(12)


CASES = (
    _fault(
        "joined buckets by a program each",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _bucket_join(1 << 20),
        _bucket_join(128),
    ),
    _fault(
        "tracks mixed 64 samples a program",
        ("tiny-ctas", "low-occupancy", "exposed-latency"),
        ("ctas", "counts", "spans"),
        True,
        _mixed_tracks(64, 1),
        _mixed_tracks(2048, 4),
    ),
    _fault(
        "signatures of documents stored hash by hash",
        ("uncoalesced-store",),
        ("counts", "counters"),
        True,
        _signatures(False),
        _signatures(True),
    ),
    _fault(
        "spans of readings by a sort",
        ("serial-reduction", "issue-bound"),
        ("counts", "samples"),
        True,
        _spans(True),
        _spans(False),
    ),
    _fault(
        "headers summed out of whole packets",
        ("redundant-load", "masked-work"),
        ("counts", "counters"),
        True,
        _headers(32, 64),
        _headers(256, 8),
    ),
    _fault(
        "taps of sound rounded to 64 bits",
        ("conversions", "issue-bound"),
        ("counts", "samples"),
        True,
        _resampled(True),
        _resampled(False),
    ),
    _fault(
        "sites of an alignment each by one lane",
        ("uncoalesced-load", "unvectorized-access"),
        ("counts", "counters"),
        True,
        _consensus(False),
        _consensus(True),
    ),
    _fault(
        "fingerprints of molecules compared by sums",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _fingerprints(False),
        _fingerprints(True),
    ),
    _fault(
        "frames of sound mirrored by a gather",
        ("bank-conflict", "layout-conversion"),
        ("counts", "counters"),
        True,
        _bit_reversed(True),
        _bit_reversed(False),
    ),
    _fault(
        "running sales of 256 days by 16 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "ctas", "spans"),
        True,
        _running_sales(16),
        _running_sales(1),
    ),
)
