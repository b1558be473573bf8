"""Spans and sums of one binary beside those of two: is it the sums that differ, or the kernels?

    python -m bench.both [--rows REGEX] [--samples 3] [--rounds 5] [--json FILE]

Each kernel is built three ways at the default level: as sessions keep spans, as they keep sums, and a third
time keeping sums and storing, for each of them, the clocks it was added up from. The two accounts of that
third binary must be equal to the cycle, site by site. Then: what share of the warps' time each binary gives
to each scope, how far it is from the hardware's samples of the bare kernel and of the binary itself
(docs/lines.md), and how long the kernel takes.
--dry-run takes small sizes and, without a GPU, the emulator, which has no samples.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
import torch

import profscope
from bench import kernels
from bench.about import about
from bench.gpu import timed_launches
from bench.kernels import Workload
from bench.timing import interleave, synchronize, why
from instrument_passes.lowering.flow import in_loop
from instrument_passes.lowering.sums import _Summer
from instrument_passes.passes.base import Pass, PassContext, register

__all__ = ["Account", "Told", "main", "storing", "told", "workloads"]

_LEVEL: Final = "kernel-span,scope-spans,loop-spans,op-spans{classes=load;store;atomic;wait;mma;call}"
_LAUNCHES: Final = 2  # beyond those that are sampled
_MEMORY_MIB: Final = 1024
_LASTED: Final = (1 << 24) - 1  # cycles of a stored span; its site is in the bits above
_SITE: Final = ["scope", "kind", "line"]
_WITNESSES: Final = ("spans", "sums")


@register
@dataclass(frozen=True)
class StoreSpansToo(Pass):
    """Nothing by itself: tells binaries that `storing` builds from others, and from those of other runs."""

    name: ClassVar[str] = "bench-store-spans-too"
    run: int = 0

    def apply(self, module: Any, context: PassContext) -> None:
        pass


@dataclass
class Account:
    """The memory that a binary stores its spans in, and which sites it has.

    words: (warps of all CTAs, spans, 2), int32: the begin of a span, and its duration with the number of its
    site in the upper 8 bits. numbers: of the sites, from 1 on.
    """

    words: torch.Tensor
    numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def cycles(self) -> pd.DataFrame:
        """How often each scope ran, and for how long, by what is stored."""
        second = self.words[:, :, 1].flatten().cpu().numpy().view(np.uint32)
        site, most = (second >> 24).astype(np.int64), len(self.numbers) + 1
        rows = pd.DataFrame(list(self.numbers), columns=_SITE)
        rows["count"] = np.bincount(site, minlength=most)[1:]
        rows["cycles"] = np.bincount(site, (second & _LASTED).astype(np.float64), most)[1:].astype(np.int64)
        return rows.sort_values(_SITE, ignore_index=True)


@contextlib.contextmanager
def storing(account: Account, warps: int) -> Iterator[str]:
    """Kernels that are compiled in the body, keeping sums, store the clocks of each span besides: 8 bytes
    where its duration is added up, as records do. Yields what goes in front of a session's pipeline.

    warps: of a CTA, those of its partitions included.
    """
    at, room = account.words.data_ptr(), account.words.shape[1]
    added, flow = _Summer._added, _Summer._flow

    def added_and_stored(self: Any, lasted: Any, state: Any) -> list[str]:
        lines = added(self, lasted, state)
        span = self.section.spans[lasted.span]
        site = span.attributes.name, span.attributes.kind, span.place.line
        number = account.numbers.setdefault(site, len(account.numbers) + 1)
        name = lines[0].split()[0]
        ran = next((line.split()[0] for line in lines if line.split()[0] == f"{name}_follows"), lasted.ran)
        text = (
            f"{{ .reg .b32 lasted; .reg .pred mine; or.b32 lasted, $2, {number << 24}; "
            "and.pred mine, ps_lead, $3; @mine st.global.cs.v2.b32 [ps_at], {$1, lasted}; "
            "@mine add.u64 ps_at, ps_at, 8; } mov.u32 $0, 0;"
        )
        ran = ran or self.always
        operands = f"{lasted.begin}, {name}, {ran} : i32, i32, i1"
        return [*lines, _asm(f"{name}_stored", text, "=r,r,r,b", operands)]

    def begun(self: Any, values: dict[int, str]) -> None:
        if in_loop(self.region.parent):
            raise NotImplementedError("a partition that is entered again would begin its account anew")
        text = (
            f"{'.reg .b64 ps_at; .reg .pred ps_lead; ' * (self.section.index == 0)}"
            "{ .reg .b32 t, x, y; mov.u32 t, %ctaid.z; mov.u32 x, %nctaid.y; mov.u32 y, %ctaid.y; "
            "mad.lo.u32 t, t, x, y; mov.u32 x, %nctaid.x; mov.u32 y, %ctaid.x; mad.lo.u32 t, t, x, y; "
            f"mov.u32 x, %tid.x; shr.u32 y, x, 5; mad.lo.u32 t, t, {warps}, y; "
            f"mul.wide.u32 ps_at, t, {8 * room}; add.u64 ps_at, ps_at, {at}; "
            "and.b32 x, x, 31; setp.eq.u32 ps_lead, x, 0; } mov.u32 $0, 0;"
        )
        self.region.entry.prepend(_asm(self.module.fresh("ps_account"), text, "=r", ""))
        flow(self, values)

    _Summer._added, _Summer._flow = added_and_stored, begun  # type: ignore[method-assign]
    try:
        yield f"{StoreSpansToo.name}{{run={time.time_ns()}}}"
    finally:
        _Summer._added, _Summer._flow = added, flow  # type: ignore[method-assign]


def _asm(out: str, text: str, constraints: str, operands: str) -> str:
    """A line of scalar inline assembly."""
    return (
        f'{out} = tt.elementwise_inline_asm "{text}" {{constraints = "{constraints}", '
        f"packed_element = 1 : i32, pure = false}} {operands} -> i32"
    )


@dataclass
class Told:
    """What is found out of one kernel. Shares in percent of the warps' time.

    spans, off: how many spans the third binary stored, and by how many cycles they and its sums differ at
    the site where they differ most. shares: by scope, a column for each binary. distances: by binary, of its
    records from the samples of the bare kernel and from those of the binary itself. us: of a launch.
    """

    kernel: str
    spans: int
    off: int
    shares: pd.DataFrame
    distances: dict[str, dict[str, float]]
    us: dict[str, float]


def workloads(*, small: bool) -> Iterator[Workload]:
    """Those of `bench`, but for attention, which keeps 27 million spans a launch there."""
    for workload in kernels.workloads(small=small):
        if small or not workload.name.startswith("attention"):
            yield workload
        else:
            yield kernels.attention(16, 2048)


def told(workload: Workload, samples: int, rounds: int, device: str) -> Told:
    """Build a kernel the three ways, and compare what they say."""
    inputs = workload.inputs(device)
    workload.launch(inputs)
    synchronize()
    every: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "bare": nullcontext,
        "spans": partial(_session, "spans", 0),
        "sums": partial(_session, "sums", 0),
    }
    profiles = {keep: _recorded(workload, inputs, keep, samples) for keep in _WITNESSES}
    count = int(profiles["sums"].sums["count"].sum()) // len(profiles["sums"].launches)
    # Room for all spans of a CTA in each of its warps.
    room = max(8, 1 << (count // workload.ctas).bit_length())
    words = torch.zeros(((workload.ctas + 1) * workload.warps, room, 2), dtype=torch.int32, device=device)
    account = Account(words)
    with storing(account, workload.warps) as front:
        synchronize()
        with _session("sums", 0, front) as prof:
            workload.launch(inputs)
        kept = prof.profile.sums.query("kind != 'async'").groupby(_SITE)[["count", "total_cycles"]].sum()
        stored = account.cycles().groupby(_SITE)[["count", "cycles"]].sum()
        if not kept["count"].equals(stored["count"]):
            raise RuntimeError(f"other counts: {kept['count'].to_dict()} and {stored['count'].to_dict()}")
        off = int((kept["total_cycles"] - stored["cycles"]).abs().max())
        profiles["both"] = _recorded(workload, inputs, "sums", samples, front)
        every["both"] = partial(_session, "sums", 0, front)
        cells = interleave(every, timed_launches(workload, inputs, device, 4), rounds)["us"]
    shares = pd.DataFrame({name: _shares(profile) for name, profile in profiles.items()}).fillna(0.0)
    return Told(
        workload.name,
        int(stored["count"].sum()),
        off,
        shares.loc[shares.max(axis="columns").sort_values(ascending=False).index],
        {name: _distances(profile) for name, profile in profiles.items()},
        {name: statistics.median(cell.samples) for name, cell in cells.items() if cell.samples},
    )


def _session(keep: str, samples: int, front: str = "") -> AbstractContextManager[Any]:
    options: dict[str, Any] = {"samples": samples} if samples else {}
    if keep != "spans":
        options |= {"keep": keep, "spans_every": 0}
    pipeline = f"{front},{_LEVEL}" if front else _LEVEL
    return profscope.session(instrument=[pipeline], memory=_MEMORY_MIB, **options)


def _recorded(
    workload: Workload, inputs: Mapping[str, Any], keep: str, samples: int, front: str = ""
) -> profscope.Profile:
    with _session(keep, samples if torch.cuda.is_available() else 0, front) as prof:
        for _ in range(samples + _LAUNCHES):
            workload.launch(inputs)
    profile: profscope.Profile = prof.profile
    return profile


def _shares(profile: profscope.Profile) -> pd.Series:
    """Percent of the warps' time, by scope; several sites of a line are one."""
    rows = profile.summary().query("kind != 'async'")
    return 100 * rows.groupby(_SITE)["share"].sum()


def _distances(profile: profscope.Profile) -> dict[str, float]:
    """Of the records from samples: those of the bare kernel, and those of the binary that recorded."""
    rows = profile.distances()
    found = {}
    for keep in _WITNESSES:
        for samples, name in (("bare samples", "bare"), (f"{keep} samples", "itself")):
            pair = rows[(rows["first"] == samples) & (rows["second"] == keep)]
            if len(pair):
                found[name] = float(pair["distance"].iloc[0])
    return found


def shown(each: Told, most: int) -> str:
    """One kernel's figures as text."""
    differ = {
        f"{a} and {b}": (each.shares[a] - each.shares[b]).abs().max()
        for a, b in (("spans", "sums"), ("spans", "both"), ("sums", "both"))
    }
    bare = each.us["bare"]
    lines = [
        f"\n{each.kernel}",
        f"  the third binary's {each.spans} spans and its sums: {each.off} cycles apart at most",
        "  shares, points apart at most: " + ", ".join(f"{key} {value:.1f}" for key, value in differ.items()),
        "  us: " + ", ".join(f"{key} {us:.1f} ({us / bare:.3f})" for key, us in each.us.items()),
        *(
            f"  {name}: from samples, " + ", ".join(f"{of} {value:.3f}" for of, value in found.items())
            for name, found in each.distances.items()
            if found
        ),
        each.shares.head(most).round(1).to_string(),
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; returns 1 if a kernel failed, or spans and sums of one binary differ."""
    options = _arguments(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print("bench.both: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    failed = 0
    with kernels.surroundings():
        for workload in workloads(small=options.dry_run):
            if re.search(options.rows, workload.name) is None:
                continue
            try:
                each = told(workload, options.samples, options.rounds, device)
            except Exception as error:  # noqa: BLE001  the other kernels still count
                failed += 1
                print(f"\n{workload.name}\n  {why(error)}", flush=True)
                continue
            failed += each.off > 0
            print(shown(each, options.scopes), flush=True)
            shares = each.shares.reset_index().to_dict("records")
            rows.append({**vars(each), "shares": shares})
            if options.json:
                facts = about(dry_run=options.dry_run)
                options.json.write_text(json.dumps({"about": facts, "rows": rows}, indent=1))
    return int(failed > 0)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.both", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only kernels whose name it matches")
    parser.add_argument("--samples", type=int, default=3, help="launches under the sampler")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each time")
    parser.add_argument("--scopes", type=int, default=12, help="that are shown of each kernel")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--dry-run", action="store_true", help="small sizes; without a GPU on the emulator")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
