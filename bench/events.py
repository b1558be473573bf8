"""What `events=True` costs beside Proton, Kineto alone and torch.profiler: small launches, and a GPT's steps.

    python -m bench.events [--launches 10000] [--rounds 9] [--steps 30] [--limit-s 150] [--only NAME ...]
        [--trace gpt.pftrace.gz]

One run, in turn: in each round every tool runs once, between two bare blocks of the same process; what it
adds is its block less the mean of these two. Medians over rounds, with quartiles. Proton has a process of its
own, which does nothing while the other works (bench/event_tools.py says why); `first` is a bare block before
any tool was in a process. `events` is a session that instruments no kernel; `Kineto as events ask` is what of
that is Kineto's. CPU: of the process, waiting for the GPU included. `end` is what it takes to end a tool and
have its table or file. Without a GPU: an operator of torch's and a small model as it is, to see that it runs.
--trace: then a session with everything around two steps, with the forward and backward pass as scopes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import profscope
from bench.event_tools import BARE, OF_PROTON, PROGRAMS, TOOLS, gpt_step, serve
from bench.rounds import rounds_parser

__all__ = ["main"]

_LEFT_OUT: Final = ("Proton, Python call paths", "ctas=64", "events and ctas=64")  # unless they are asked for
_SHARE_OF_LAUNCHES: Final = 0.3  # of the time; compiling is the GPT's
_UNITS: Final = {"launches": ("us", 1e6), "steps of the GPT": ("ms", 1e3)}

Block = tuple[float, float, float]
"""Seconds: as `event_tools.serve` sends them."""


class _Turns:
    """Of one program: what each tool's blocks were, and the bare ones before and behind."""

    def __init__(self) -> None:
        self.blocks: dict[str, list[tuple[Block, Block, Block]]] = {}
        self.failed: dict[str, str] = {}


def main() -> None:
    parser = rounds_parser(__doc__, TOOLS, rounds=9, steps=30, limit_s=150.0)
    parser.set_defaults(only=[name for name in TOOLS if name not in _LEFT_OUT])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--trace", type=Path)
    asked = parser.parse_args()
    begin = time.monotonic()
    ends = begin + _SHARE_OF_LAUNCHES * asked.limit_s, begin + asked.limit_s
    with _process() as kineto, _process() as proton:
        processes = {name: proton if name in OF_PROTON else kineto for name in asked.only}
        for program, count, until in zip(PROGRAMS, (asked.launches, asked.steps), ends, strict=True):
            started = time.monotonic()
            unit, factor = _UNITS[program]
            for process in dict.fromkeys(processes.values()):  # the second one finds what the first compiled
                _ask(process, BARE, program, 1)
            first = [_ask(process, BARE, program, count) for process in dict.fromkeys(processes.values())]
            said = ", ".join(each if isinstance(each, str) else f"{each[0] * factor:.3f}" for each in first)
            print(f"{program}: ready in {time.monotonic() - started:.1f} s; first {said} {unit}", flush=True)
            _print(_in_turn(processes, program, count, asked.rounds, until), program, count)
    if asked.trace is not None:
        _trace(asked.trace)


@contextlib.contextmanager
def _process() -> Iterator[Connection]:
    """A process that serves, for the body of a with statement."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours
        with contextlib.suppress(OSError):  # it has died
            ours.send(None)
        process.join(10)
    finally:
        process.kill()


def _ask(process: Connection, tool: str, program: str, count: int) -> Block | str:
    """What it says of a block, or why there is none."""
    try:
        process.send((tool, program, count))
        answer: Block | str = process.recv()
    except (EOFError, OSError) as error:
        return f"its process has died: {type(error).__name__}"
    return answer


def _in_turn(processes: dict[str, Connection], program: str, count: int, rounds: int, until: float) -> _Turns:
    """Rounds of all tools; none begins that would end after `until`, by the monotonic clock."""
    turns, longest = _Turns(), 0.0
    for _ in range(rounds):
        begin = time.monotonic()
        if begin + longest > until:
            break
        for name, process in processes.items():
            if name in turns.failed:
                continue
            before, block, behind = (_ask(process, each, program, count) for each in (BARE, name, BARE))
            if isinstance(block, str):
                turns.failed[name] = block
            elif isinstance(before, str) or isinstance(behind, str):
                turns.failed[name] = f"bare: {before if isinstance(before, str) else behind}"
            else:
                turns.blocks.setdefault(name, []).append((before, block, behind))
        longest = max(longest, time.monotonic() - begin)
    return turns


def _print(turns: _Turns, program: str, count: int) -> None:
    unit, factor = _UNITS[program]
    rounds = max(map(len, turns.blocks.values()), default=0)
    print(f"{program}, {count} in a block, {rounds} rounds: {unit} each; end in s", flush=True)
    print(f"  {'':28}{'bare':>9}{'added':>9}{'quartiles':>18}{'CPU bare':>10}{'CPU added':>11}{'end':>8}")
    for name, blocks in turns.blocks.items():
        bare, cpu_bare = ([(before[at] + behind[at]) / 2 for before, _, behind in blocks] for at in (0, 1))
        added = [(block[0] - each) * factor for (_, block, _), each in zip(blocks, bare, strict=True)]
        cpu = [(block[1] - each) * factor for (_, block, _), each in zip(blocks, cpu_bare, strict=True)]
        low, high = _quartiles(added)
        print(
            f"  {name:28}{statistics.median(bare) * factor:9.3f}{statistics.median(added):+9.3f}"
            f"{f'{low:+.3f} {high:+.3f}':>18}{statistics.median(cpu_bare) * factor:10.3f}"
            f"{statistics.median(cpu):+11.3f}{statistics.median(block[2] for _, block, _ in blocks):8.3f}",
            flush=True,
        )
    for name, why in turns.failed.items():
        print(f"  {name}: {why}", flush=True)


def _quartiles(figures: Sequence[float]) -> tuple[float, float]:
    if len(figures) < 2:
        return figures[0], figures[0]
    low, _, high = statistics.quantiles(figures)
    return low, high


def _trace(path: Path) -> None:
    step = gpt_step()
    with profscope.session(events=True, wait=True, instrument="light", ctas=256) as prof:
        for _ in range(2):
            step()
    prof.save(path)
    events = prof.events
    print(prof, f"{len(events)} events", sep="\n")
    print(events.groupby("kind", observed=True).size().to_string())
    kernels = events[events["kind"] == "kernel"]
    known = int((kernels["launch"] >= 0).sum())
    print(f"{known} of {len(prof.launches)} launches found among {len(kernels)} kernels")
    print(prof.host.to_string())


if __name__ == "__main__":
    main()
