"""Time that asynchronous work is in flight: what its ends less its starts come to, in one sum.

How much is under way is counted at once, since what a wait ends depends on it. Clocks are added where the
block ends, as durations are.
"""

from __future__ import annotations

from dataclasses import dataclass

from instrument_passes.lowering.flights import Flight, Landing

__all__ = ["Moved", "add_moved", "land", "start"]


@dataclass(frozen=True)
class Moved:
    """Work that was started, with the i1 that says whether, or "", or of which `landed` starts ended."""

    flight: Flight
    clock: str
    started: str = ""
    landed: str = ""


def start(flight: Flight, clock: str, ran: str, left: str, one: str, p: str) -> tuple[list[str], Moved]:
    """Count a start: text that names `p` how much is under way then.

    ran: the i1 that says whether it was one, "" if it was. left: how much was under way. one: a constant.
    """
    lines = []
    if ran:
        lines.append(f"{p}_one = arith.extui {ran} : i1 to i32")
        one = f"{p}_one"
    return [*lines, f"{p} = arith.addi {left}, {one} : i32"], Moved(flight, clock, started=ran)


def land(landing: Landing, clock: str, ran: str, left: str, zero: str, p: str) -> tuple[list[str], Moved]:
    """The same for a wait, which ends all but the newest `landing.number` or, with `each`, so many."""
    least = landed = f"{p}_least"
    lines = [
        f"{p}_number = arith.constant {landing.number} : i32",
        f"{least} = arith.minui {left}, {p}_number : i32",
    ]
    if not landing.each:
        landed = f"{p}_all"
        lines.append(f"{landed} = arith.subi {left}, {least} : i32")
    if ran:
        lines.append(f"{p}_ran = arith.select {ran}, {landed}, {zero} : i32")
        landed = f"{p}_ran"
    return [*lines, f"{p} = arith.subi {left}, {landed} : i32"], Moved(landing.flight, clock, landed=landed)


def add_moved(moved: Moved, total: str, zero: str, p: str) -> list[str]:
    """Text that names `p` the sum, clocks of ends added to it and those of starts taken away, each as often
    as there were."""
    if moved.landed:
        return [
            f"{p}_clocks = arith.muli {moved.clock}, {moved.landed} : i32",
            f"{p} = arith.addi {total}, {p}_clocks : i32",
        ]
    if not moved.started:
        return [f"{p} = arith.subi {total}, {moved.clock} : i32"]
    return [
        f"{p}_clock = arith.select {moved.started}, {moved.clock}, {zero} : i32",
        f"{p} = arith.subi {total}, {p}_clock : i32",
    ]
