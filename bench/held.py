"""How long a launching thread is held while another thread asks the driver for something: on a GPU alone.

    python -m bench.held

One thread launches a small kernel again and again and notes the longest time between two launches. Meanwhile
another does what a session does beside a program: it pins memory of the host, and allocates on the device.
Pinning holds launches for as long as it takes itself, so a session does it in small pieces, with pauses.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

MIB: Final = 1 << 20
_ROUNDS: Final = 5
_AT_LEAST_S: Final = 0.3


def longest_ms(beside: Callable[[], Any]) -> tuple[float, float]:
    """The longest time between two launches while `beside` runs, and how long that took itself."""
    x = torch.zeros(1024, device="cuda")
    took_s = 0.0

    def run() -> None:
        nonlocal took_s
        began_s = time.perf_counter()
        kept = beside()  # freeing it is not timed
        took_s = time.perf_counter() - began_s
        del kept

    thread = threading.Thread(target=run)
    longest_s, began_s = 0.0, time.perf_counter()
    last_s = began_s
    thread.start()
    while thread.is_alive() or last_s - began_s < _AT_LEAST_S:
        x.add_(1)
        now_s = time.perf_counter()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    torch.cuda.synchronize()
    return 1e3 * longest_s, 1e3 * took_s


def _pinned_and_paused() -> torch.Tensor:
    pinned = torch.empty(8 * MIB, dtype=torch.uint8, pin_memory=True)
    time.sleep(0.002)
    return pinned


def things() -> Mapping[str, Callable[[], Any]]:
    """What is done beside the launches."""
    return {
        "nothing": lambda: None,
        "pin 128 MiB": lambda: torch.empty(128 * MIB, dtype=torch.uint8, pin_memory=True),
        "pin 8 MiB, 16 times": lambda: [
            torch.empty(8 * MIB, dtype=torch.uint8, pin_memory=True) for _ in range(16)
        ],
        "pin 8 MiB, 16 times, with pauses": lambda: [_pinned_and_paused() for _ in range(16)],
        "allocate 128 MiB on the device": lambda: torch.empty(128 * MIB, dtype=torch.uint8, device="cuda"),
    }


def main() -> int:
    """Print the table; returns 1 where there is no GPU."""
    if not torch.cuda.is_available():
        print("bench.held: no GPU is active", file=sys.stderr)
        return 1
    longest_ms(lambda: None)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; ms, of {_ROUNDS} rounds")
    print(f"{'beside the launches':<32} longest hold    takes itself")
    for name, beside in things().items():
        rows = []
        for _ in range(_ROUNDS):
            rows.append(longest_ms(beside))
            torch.cuda.empty_cache()
            torch._C._host_emptyCache()  # pinned memory is kept by torch, too
        held, took = (sorted(each) for each in zip(*rows, strict=True))
        print(f"{name:<32} {held[0]:5.1f} to {held[-1]:5.1f}   {took[0]:5.1f} to {took[-1]:5.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
