"""All cases, by name."""

from __future__ import annotations

from bench.corpus import arithmetic, dots, faultless, launch_shape, loops, memory, shared
from bench.corpus.case import Case

__all__ = ["CASES", "FAMILIES"]

FAMILIES: dict[str, tuple[Case, ...]] = {
    module.__name__.rpartition(".")[2]: module.CASES
    for module in (launch_shape, memory, shared, dots, arithmetic, loops, faultless)
}
CASES: dict[str, Case] = {case.name: case for family in FAMILIES.values() for case in family}
