"""Kernels whose TTGIR rules are tried on, one for each way in which a rule might be wrong.

    python -m tests.support.ttgir_cases      # prints them with the installed Triton

Tests read the printed texts: no kernel is compiled for them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import triton
import triton.language as tl

from profscope.instrument_passes.analyses.graph import Graph
from profscope.instrument_passes.ir.parser import parse

# ruff: noqa: N803
__all__ = ["CASES", "graph"]

TEXTS: Final = Path(__file__).parents[1] / "data" / "ttgir"


@cache
def graph(name: str) -> Graph:
    """Of a case."""
    return Graph(parse((TEXTS / f"{name}.ttgir").read_text()))


@triton.jit
def scores_kernel(x_ptr, first_ptr, out_ptr, SIDE: tl.constexpr, FROM: tl.constexpr, KIND: tl.constexpr):
    """A row's largest score with the keys up to its own block; KIND: which scores are left out."""
    at = tl.arange(0, SIDE)
    rows = tl.program_id(0) * SIDE + at
    first = tl.load(first_ptr + rows)
    q = tl.load(x_ptr + rows[:, None] * SIDE + at[None, :])
    begin = tl.load(first_ptr + tl.program_id(0) * SIDE) // SIDE * SIDE if FROM else 0
    peak = tl.full((SIDE,), -1e30, dtype=tl.float32)
    for start in range(begin, (tl.program_id(0) + 1) * SIDE, SIDE):
        keys = start + at
        score = tl.dot(q, tl.trans(tl.load(x_ptr + keys[:, None] * SIDE + at[None, :])))
        if KIND == "later":
            score = tl.where(keys[None, :] <= rows[:, None], score, -1e30)
        elif KIND == "later, inverted":
            score = tl.where(keys[None, :] > rows[:, None], -1e30, score)
        else:
            score = tl.where(keys[None, :] >= first[:, None], score, -1e30)
        peak = tl.maximum(peak, tl.max(score, 1))
    tl.store(out_ptr + rows, peak)


@triton.jit
def signs_kernel(x_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of a row, where HOW says what its place in the row changes."""
    row, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at)
        if HOW == "sign":
            total += tl.where(at < row, x, -x)
        elif HOW == "scale":
            total += x * tl.where(at < row, 0.5, 0.25)
        elif HOW == "diagonal":
            total += tl.where(at == row, x + 1.0, x)
        elif HOW == "others":
            total += tl.where(at != row, x, 0.0)
        elif HOW == "before":
            total += tl.where(at < row, x, 0.0)
        elif HOW == "behind":
            total += tl.where(at < row, 0.0, x)
        elif HOW == "factor":
            total += x * (at < row).to(tl.float32)
        elif HOW == "kept":
            total = tl.where(at < row, total + x, total)
        elif HOW == "own":
            total += tl.where(at == row, x, 0.0)
    tl.store(out_ptr + row * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def powers_kernel(x_ptr, asked_ptr, out_ptr, steps, count, BY: tl.constexpr, BLOCK: tl.constexpr):
    """BY: what decides between the loop's result and the input."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    power = x
    for _ in range(steps):
        power = power * x + 1.0
    if BY == "data":
        power = tl.where(tl.load(asked_ptr + at) > 0, power, x)
    elif BY == "position":
        power = tl.where(at < count, power, x)
    elif BY == "result":
        power = tl.where(power < 100.0, power, x)
    tl.store(out_ptr + at, power)


@triton.jit
def chosen_tiles_kernel(x_ptr, chosen_ptr, out_ptr, tiles, SIDE: tl.constexpr, BY: tl.constexpr):
    """BY: what leaves a tile of a product out."""
    at, row = tl.arange(0, SIDE), tl.program_id(0)
    place = at[:, None] * SIDE + at[None, :]
    x, total = tl.load(x_ptr + place), tl.zeros((SIDE, SIDE), dtype=tl.float32)
    asked = tl.load(chosen_ptr + row)
    if BY == "asked":  # noqa: SIM102
        if asked == 0:
            return
    for tile in range(tiles):
        product = tl.dot(x, tl.load(x_ptr + tile * SIDE * SIDE + place))
        if BY == "asked":
            product = tl.where(asked != 0, product, -1.0)
        elif BY == "number":
            product = tl.where(tl.load(chosen_ptr + row * tiles + tile) != 0, product, -1.0)
        elif BY == "elements":
            product = tl.where(tl.load(chosen_ptr + at)[None, :] != 0, product, -1.0)
        elif BY == "counter":
            product = tl.where(tile % 2 == 0, product, -1.0)
        total += product
    tl.store(out_ptr + row * SIDE * SIDE + place, total)


@triton.jit
def lengths_kernel(x_ptr, length_ptr, out_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of rows of any length up to n; MASKED: no load goes beyond it, else sums leave that out."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        if MASKED:
            total += tl.load(x_ptr + row * n + start + at, mask=start + at < length, other=0.0)
        else:
            total += tl.where(start + at < length, tl.load(x_ptr + row * n + start + at), 0.0)
    tl.store(out_ptr + row * BLOCK + at, total)


@triton.jit
def remainders_kernel(x_ptr, out_ptr, divisor, BLOCK: tl.constexpr, OF: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if OF == "data":
        tl.store(out_ptr + at, x % divisor)
    elif OF == "a loaded address":
        tl.store(out_ptr + x % divisor, x)
    elif OF == "a mask":
        tl.store(out_ptr + at, x, mask=x % divisor == 0)
    else:
        tl.store(out_ptr + at, tl.load(x_ptr + at % divisor))


@triton.jit
def lookups_kernel(x_ptr, at_ptr, out_ptr, BLOCK: tl.constexpr, OF: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(at_ptr + at)
    if OF == "rows":
        x = tl.sum(tl.load(x_ptr + place[:, None] * 64 + tl.arange(0, 64)[None, :]), 1)
    elif OF == "steps":
        x = tl.zeros((BLOCK,), tl.float32)
        for step in range(16):
            x += tl.load(x_ptr + place + step)
    elif OF == "one number":
        x = tl.load(x_ptr + tl.load(at_ptr) + at)
    else:
        x = tl.load(x_ptr + (place ^ (place >> 7)) % 4096)
    tl.store(out_ptr + at, x)


@triton.jit
def planes_kernel(x_ptr, out_ptr, rows, planes, SIDE: tl.constexpr, KEEPS: tl.constexpr):
    """Each step turns a tile of planes into rows of numbers. KEEPS: and adds it to those of earlier steps."""
    row, total = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[:, None], tl.zeros((SIDE, SIDE), tl.float32)
    for first in range(0, planes, SIDE):
        plane = first + tl.arange(0, SIDE)[None, :]
        x = tl.exp(tl.load(x_ptr + plane * rows + row))
        total = total * 0.5 + x if KEEPS else x
        tl.store(out_ptr + row * planes + plane, total)


@triton.jit
def steps_kernel(x_ptr, end_ptr, out_ptr, steps, BLOCK: tl.constexpr, OF: tl.constexpr):
    at, total = tl.arange(0, BLOCK), tl.zeros((BLOCK,), dtype=tl.float32)
    begin = tl.program_id(0) * steps
    if OF == "its own":
        for step in range(begin, begin + steps):
            total += tl.load(x_ptr + step * BLOCK + at)
    elif OF == "an argument":
        for step in range(steps):
            total += tl.load(x_ptr + (begin + step) * BLOCK + at)
    elif OF == "a triangle":
        for step in range(tl.program_id(0)):
            total += tl.load(x_ptr + step * BLOCK + at)
    elif OF == "data":
        for step in range(begin, begin + tl.load(end_ptr + tl.program_id(0))):
            total += tl.load(x_ptr + step * BLOCK + at)
    else:
        total += tl.load(x_ptr + at)
        if tl.program_id(0) % 2 == 0:
            total += tl.load(x_ptr + begin + at) * total
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def row_sums_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        tl.store(out_ptr + row, tl.sum(x, 0))


@triton.jit
def chunked_softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    """Rows one after the other; the peak and the sum of each are reduced in each of its steps."""
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        peak, total = -float("inf"), 0.0
        for start in range(0, columns, BLOCK):
            x = tl.load(x_ptr + row * columns + start + at)
            higher = tl.maximum(peak, tl.max(x, 0))  # early
            total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), 0)  # early
            peak = higher
        for start in range(0, columns, BLOCK):
            x = tl.load(x_ptr + row * columns + start + at)
            tl.store(out_ptr + row * columns + start + at, tl.exp(x - peak) / total)


@triton.jit
def centred_rows_kernel(x_ptr, out_ptr, total_ptr, rows, BLOCK: tl.constexpr):
    """The mean is carried on, but each row needs its own first."""
    total = 0.0
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        mean = tl.sum(x, 0) / BLOCK
        total += mean
        tl.store(out_ptr + row * BLOCK + tl.arange(0, BLOCK), x - mean)
    tl.store(total_ptr + tl.program_id(0), total)


@triton.jit
def running_totals_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x_ptr + start + tl.arange(0, BLOCK)), 0)
        tl.store(out_ptr + start // BLOCK, total)


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        total += tl.sum(tl.load(x_ptr + start + tl.arange(0, BLOCK)), 0)
    tl.store(out_ptr, total)


@triton.jit
def sums_kernel(x_ptr, y_ptr, out_ptr, steps, SIDE: tl.constexpr, OF: tl.constexpr):
    at = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        x, y = tl.load(x_ptr + step * SIDE + at), tl.load(y_ptr + step * SIDE + at)
        if OF == "outer products":
            total += x[:, None] * 2.0 * y[None, :]
        elif OF == "distances":
            away = x[:, None] - y[None, :]
            total += away * away
        elif OF == "transposed":
            total += tl.trans(x[None, :] + tl.zeros((SIDE, SIDE), tl.float32)) * tl.trans(y[:, None])
        elif OF == "squares of sums":
            both = (x[:, None] + y[None, :]) * 0.5
            total += both * both + both * x[:, None]
        else:  # all of one axis
            total += x[:, None] * y[:, None]
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], total)


_SCORES = ({"x_ptr": "*fp16", "first_ptr": "*i32", "out_ptr": "*fp32"}, {"SIDE": 16})
_SIGNS = ({"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 32})
_POWERS = (
    {"x_ptr": "*fp32", "asked_ptr": "*i32", "out_ptr": "*fp32", "steps": "i32", "count": "i32"},
    {"BLOCK": 128},
)  # fmt: skip
_TILES = ({"x_ptr": "*fp16", "chosen_ptr": "*i32", "out_ptr": "*fp32", "tiles": "i32"}, {"SIDE": 16})
_LENGTHS = ({"x_ptr": "*fp32", "length_ptr": "*i32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 32})
_REMAINDERS = ({"x_ptr": "*i32", "out_ptr": "*i32", "divisor": "i32"}, {"BLOCK": 128})
_LOOKUPS = ({"x_ptr": "*fp32", "at_ptr": "*i32", "out_ptr": "*fp32"}, {"BLOCK": 128})
_PLANES = ({"x_ptr": "*fp32", "out_ptr": "*fp32", "rows": "i32", "planes": "i32"}, {"SIDE": 64})
_STEPS = ({"x_ptr": "*fp32", "end_ptr": "*i32", "out_ptr": "*fp32", "steps": "i32"}, {"BLOCK": 128})
_ROWS = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
_SUMS = ({"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "steps": "i32"}, {"SIDE": 32})


def _named(prefix: str, kernel: Any, about: Any, key: str, values: Any, **more: Any) -> dict[str, Any]:
    """A case for each value of a constexpr."""
    signature, constants = about
    return {
        f"{prefix}-{str(value).replace(' ', '-').replace(',', '')}": (
            kernel,
            signature,
            constants | {key: value} | more,
        )
        for value in values
    }


CASES: Final[dict[str, tuple[Any, dict[str, str], dict[str, Any]]]] = {
    **_named("scores", scores_kernel, _SCORES, "KIND", ("earlier", "later", "later, inverted"), FROM=False),
    **_named("scores-from", scores_kernel, _SCORES, "KIND", ("earlier",), FROM=True),
    **_named("signs", signs_kernel, _SIGNS, "HOW",
             ("sign", "scale", "diagonal", "others", "before", "behind", "factor", "kept", "own")),
    **_named("powers", powers_kernel, _POWERS, "BY", ("data", "position", "result", "nothing")),
    **_named("tiles", chosen_tiles_kernel, _TILES, "BY",
             ("number", "asked", "elements", "counter", "nothing")),
    **_named("lengths", lengths_kernel, _LENGTHS, "MASKED", (True, False)),
    **_named("remainders", remainders_kernel, _REMAINDERS, "OF",
             ("data", "a loaded address", "a mask", "an index")),
    **_named("lookups", lookups_kernel, _LOOKUPS, "OF", ("elements", "rows", "steps", "one number")),
    **_named("planes", planes_kernel, _PLANES, "KEEPS", (True, False)),
    **_named("steps", steps_kernel, _STEPS, "OF",
             ("its own", "an argument", "a triangle", "data", "a branch")),
    "row-sums": (row_sums_kernel, _ROWS | {"rows": "i32"}, {"BLOCK": 512}),
    "chunked-softmax": (chunked_softmax_kernel, _ROWS | {"rows": "i32", "columns": "i32"}, {"BLOCK": 128}),
    "centred-rows": (centred_rows_kernel, _ROWS | {"total_ptr": "*fp32", "rows": "i32"}, {"BLOCK": 512}),
    "running-totals": (running_totals_kernel, _ROWS | {"n": "i32"}, {"BLOCK": 512}),
    "total": (total_kernel, _ROWS | {"n": "i32"}, {"BLOCK": 512}),
    **_named("sums", sums_kernel, _SUMS, "OF",
             ("outer products", "distances", "transposed", "squares of sums", "one axis")),
}  # fmt: skip


def _main() -> None:
    from triton.compiler import ASTSource

    from tests.kernels import aot
    from tests.kernels.spec import CUDA90

    TEXTS.mkdir(exist_ok=True)
    for name, (kernel, signature, constants) in CASES.items():
        types = signature | dict.fromkeys(constants, "constexpr")
        source = ASTSource(fn=kernel, signature=types, constexprs=constants)
        text = triton.compile(source, target=aot.gpu_target(CUDA90)).asm["ttgir"]
        (TEXTS / f"{name}.ttgir").write_text(text.replace(str(Path(__file__).parents[2]) + "/", ""))


if __name__ == "__main__":
    _main()
