"""A session that stays open: many launches, flat memory on host and device, no launch lost.

    python -m bench.soak [--launches 100000] [--ctas 64]

Runs on the GPU where there is one, else on the emulator, for which a few hundred launches will do. Launches
are spooled; at the end the spool is read back and every launch looked for. Exit code 1 if the verdict is no.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import profscope
from profscope.decoding.areas import has_records
from profscope.store.spool_reading import read
from tests.kernels.add import add_kernel

__all__ = ["Soak", "main", "soak"]

_SAMPLES = 20
_WARM = 5  # samples until caches, arenas and pinned memory are there
# What may come and go: pieces of a drain that is under way, and Python's own arenas.
_SLACK_BYTES = 32 << 20
_BLOCK = 1024


@dataclass
class Soak:
    """What happened. host_bytes: resident memory, device_bytes: torch's, both by sample; found: launches that
    the spool holds with records; wrong: results that were not the bare kernel's."""

    backend: str
    launches: int
    ctas: int
    seconds: float = 0.0
    found: int = 0
    wrong: int = 0
    spool_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    host_bytes: list[int] = field(default_factory=list)
    device_bytes: list[int] = field(default_factory=list)

    def growth(self, samples: Sequence[int]) -> int:
        """Bytes by which memory rose above what it took to warm up."""
        return max(samples[_WARM:]) - max(samples[: _WARM + 1])

    @property
    def failures(self) -> list[str]:
        """Why the verdict is no, one line each."""
        found = []
        if self.found != self.launches:
            found.append(f"{self.launches - self.found} of {self.launches} launches are lost")
        if self.wrong:
            found.append(f"{self.wrong} results are wrong")
        for name, samples in (("host", self.host_bytes), ("device", self.device_bytes)):
            if self.growth(samples) > (_SLACK_BYTES if name == "host" else 0):
                found.append(f"{name} memory rose by {self.growth(samples) / 1e6:.1f} MB")
        return found + [f"note: {note}" for note in self.notes]


def soak(launches: int, ctas: int) -> Soak:
    """Launch, flush now and then, and look for every launch. Raises ValueError for too few launches."""
    if launches < _SAMPLES:
        raise ValueError(f"{launches} launches are fewer than the {_SAMPLES} samples of memory")
    gpu = torch.cuda.is_available()
    x = torch.arange(ctas * _BLOCK, dtype=torch.float32, device="cuda" if gpu else "cpu")
    out = torch.empty_like(x)
    done = Soak("gpu" if gpu else "emulator", launches, ctas)
    cuts = [launches * (sample + 1) // _SAMPLES for sample in range(_SAMPLES)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        with profscope.session(instrument="heavy", spool=folder) as prof:
            for index in range(1, launches + 1):
                add_kernel[(ctas,)](x, x, out, len(x), BLOCK=_BLOCK)
                if index in cuts:
                    prof.flush()
                    done.wrong += not torch.equal(out, x + x)
                    done.host_bytes.append(_resident())
                    done.device_bytes.append(torch.cuda.memory_allocated() if gpu else 0)
        done.seconds = time.perf_counter() - start
        assert prof.spool is not None
        done.spool_bytes = prof.spool.stat().st_size
        spool = read(prof.spool)
        done.notes = spool.notes
        done.found = len({each.index for each in spool.launches if has_records(each.records)})
    return done


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main(argv: Sequence[str]) -> int:
    """Print the figures and the verdict; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--launches", type=int, default=100_000)
    parser.add_argument("--ctas", type=int, default=64)
    options = parser.parse_args(argv)
    done = soak(options.launches, options.ctas)
    print(f"{done.launches} launches of {done.ctas} CTAs in {done.seconds:.1f} s ({done.backend})")
    print(f"found: {done.found}; spool: {done.spool_bytes / 1e6:.1f} MB")
    for name, samples in (("host", done.host_bytes), ("device", done.device_bytes)):
        shown = " ".join(f"{each / 1e6:.0f}" for each in samples)
        print(f"{name} memory, MB: {shown} (rose by {done.growth(samples) / 1e6:.1f})")
    verdict = "; ".join(done.failures) or "flat memory, no launch lost"
    print(f"verdict: {'NO: ' if done.failures else 'yes: '}{verdict}")
    return 1 if done.failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
