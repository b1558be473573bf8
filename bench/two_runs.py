"""What diff says of two runs of one kernel on a GPU: nothing, if it can tell noise from news.

    python -m bench.two_runs [--trials 20] [--null-builds 6] [--rows REGEX] [--json FILE]

Sessions follow each other; between them, memory moves. Each is compared with the one before it: a trial. Null
builds are of the same kernel with harmless instructions in front, so that its code lies elsewhere: their
sessions are compared with those of the kernel as it is. The figures of all sessions, by row and launch, go
into the file, gzipped. Without a GPU the emulator runs small sizes, to show that it works.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import inspect
import json
import random
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench import kernels
from bench.kernels import Workload
from profscope.analysis.comparing.figures import Side

__all__ = ["main"]

_LAUNCHES: Final = 8
_FEW: Final = (1, 2, 3)
_STAGES: Final = (1, 3)
# A clock that nobody reads: volatile, so that it stays.
_HARMLESS: Final = (
    '    tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r,r", [tl.program_id(0)], dtype=tl.int32, '
    "is_pure=False, pack=1)\n"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a trial has a significant row, a real change has none, or
    something cannot be measured."""
    options = _arguments(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    documents: list[dict[str, Any]] = []
    news = 0
    workloads = [each for each in _workloads(small=device == "cpu") if re.search(options.rows, each.name)]
    for workload in workloads:
        for task in (_trials, _few_launches, _null_builds, _longer, _stages):
            try:
                news += task(workload, device, options, documents)
            except Exception:  # noqa: BLE001  the others still count
                traceback.print_exc()
                news += 1
    if options.json:
        options.json.write_bytes(gzip.compress(json.dumps(documents).encode()))
    return int(news > 0)


def _workloads(*, small: bool) -> list[Workload]:
    if small:
        return [kernels.matmul(64, (32, 32, 32), 4), kernels.attention(1, 128), kernels.layer_norm(4, 1024)]
    return [
        kernels.matmul(2048, (128, 128, 64), 8),
        kernels.attention(32, 2048),
        kernels.layer_norm(4096, 4096),
    ]


def _trials(
    workload: Workload, device: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> int:
    """Sessions one after the other; how many of the trials have a significant row."""
    failed = 0
    before = None
    for number in range(options.trials + 1):
        after = _session(workload, device, _LAUNCHES, number)
        documents.append(_document(after, workload, "trial", number))
        if before is not None:
            failed += _said(f"{workload.name}, trial {number}", before, after)
        before = after
    print(f"{workload.name}: {failed} trials with significant rows", flush=True)
    return failed


def _few_launches(
    workload: Workload, device: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> int:
    """As _trials, with few launches each."""
    failed = 0
    for launches in _FEW:
        before = None
        for number in range(options.trials // 4 + 1):
            after = _session(workload, device, launches, number)
            documents.append(_document(after, workload, f"{launches} launches", number))
            if before is not None:
                failed += _said(f"{workload.name}, {launches} launches, trial {number}", before, after)
            before = after
    return failed


def _null_builds(
    workload: Workload, device: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> int:
    """Other builds of the same code, each compared with the kernel as it is; none of them is a failure, for
    layout does move kernels."""
    plain = _session(workload, device, _LAUNCHES, 0)
    for number, build in enumerate(_builds(workload, options.null_builds)):
        other = _session(build, device, _LAUNCHES, number)
        documents.append(_document(other, workload, "null build", number))
        _said(f"{workload.name}, null build {number}", plain, other)
    return 0


def _longer(
    workload: Workload, device: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> int:
    """What takes an eighth longer is to be found: a matmul whose rows are so much longer."""
    if "K" not in workload.scalars:
        return 0
    step = workload.constexprs["BLOCK_K"]
    size = int(workload.scalars["K"])
    longer = size + max(size // 8 // step, 1) * step
    runs = []
    for inner in (size, longer):
        scalars = {**workload.scalars, "K": inner, "stride_am": inner}
        tensors = {**workload.tensors, "a_ptr": ((size, inner), torch.float16)}
        tensors["b_ptr"] = ((inner, size), torch.float16)
        runs.append(_session(replace(workload, scalars=scalars, tensors=tensors), device, _LAUNCHES, 0))
    print(f"to be found, {100 * (longer / size - 1):.1f} % more steps:")
    return 1 - _said(f"{workload.name}, K = {size} and {longer}", *runs)


def _builds(workload: Workload, count: int) -> Iterator[Workload]:
    """The kernel with 1, 2, 3, 5, 8, ... harmless instructions behind its first line."""
    source = Path(inspect.getfile(workload.fn.fn)).read_text()
    name = workload.fn.fn.__name__
    head, separator, body = source.partition(f"def {name}(")
    signature, colon, code = body.partition("):")
    rest, newline, lines = code.partition("\n")
    first, second = 1, 2
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}_{first}.py"
            path.write_text(head + separator + signature + colon + rest + newline + first * _HARMLESS + lines)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield replace(workload, fn=getattr(module, name))
        first, second = second, first + second


def _stages(
    workload: Workload, device: str, options: argparse.Namespace, documents: list[dict[str, Any]]
) -> int:
    """One stage of a matmul's pipeline against three, for the reader to judge."""
    if "K" not in workload.scalars:
        return 0
    profiles = [
        _session(replace(workload, options={**workload.options, "num_stages": stages}), device, _LAUNCHES, 0)
        for stages in _STAGES
    ]
    difference = profscope.diff(*profiles)
    print(f"{workload.name}, num_stages 1 and 3")
    print(difference.head(12).to_string())
    print(difference.attrs)
    return 0


def _session(workload: Workload, device: str, launches: int, seed: int, **options: Any) -> profscope.Profile:
    """A session's profile, with its tensors somewhere else each time."""
    chance = random.Random(seed)
    apart = [
        torch.empty(
            chance.randrange(1, 64) << (16 if device == "cuda" else 4), dtype=torch.uint8, device=device
        )
        for _ in range(3)
    ]
    inputs = workload.inputs(device)
    del apart
    ctas = 1 if device == "cpu" else 4
    with profscope.session(ctas=ctas, **options) as session:
        for _ in range(launches):
            workload.launch(inputs)
        if device == "cuda":
            torch.cuda.synchronize()
    return session.profile


def _said(title: str, a: profscope.Profile, b: profscope.Profile) -> int:
    """Print what is significant; 1 if anything is."""
    difference = profscope.diff(a, b)
    significant = difference[difference["significant"]]
    whole = difference.iloc[0]
    print(
        f"{title}: {whole['percent']:+.2f} % [{whole['low']:.0f}, {whole['high']:.0f}] of "
        f"{whole['self_a']:.0f} {difference.attrs['unit']}; "
        f"{len(significant)} of {len(difference)} significant"
    )
    for row in significant.itertuples():
        print(
            f"    {row.scope} {row.kind} L{row.line_a} L{row.line_b}: "
            f"{row.self_a:.0f} {row.self_b:.0f} {row.percent:+.1f} %"
        )
    sys.stdout.flush()
    return int(len(significant) > 0)


def _document(profile: profscope.Profile, workload: Workload, task: str, number: int) -> dict[str, Any]:
    """Figures by row and launch, in ns and, of whole launches, the clock."""
    side = Side(profile, "ns")
    kernel = workload.fn.fn.__name__
    launches = profile.launches[profile.launches["kernel"] == kernel]
    figures = side.figures(kernel, side.warm(launches))
    return {
        "workload": workload.name,
        "task": task,
        "number": number,
        "took_ns": (launches["end_ns"] - launches["start_ns"]).tolist(),
        "clock_ghz": launches["clock_ghz"].round(5).tolist(),
        "cold": launches["cold"].tolist(),
        "rows": figures.places[["scope", "kind", "line", "call_path"]].to_numpy().tolist(),
        "own_ns": figures.own.round(0).tolist(),
        "total_ns": figures.total.round(0).tolist(),
        "ctas_ns": None if figures.ctas is None else figures.ctas.round(0).tolist(),
    }


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.two_runs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--null-builds", type=int, default=6)
    parser.add_argument(
        "--rows", default="", metavar="REGEX", help="only kernels with a name that it matches"
    )
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
