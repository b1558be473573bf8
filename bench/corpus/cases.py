"""All cases, by name."""

from __future__ import annotations

from bench.corpus import (
    addressing,
    arithmetic,
    dots,
    faultless,
    fifth_attention,
    fifth_faultless,
    fifth_faultless_products,
    fifth_launch,
    fifth_math,
    fifth_memory,
    fifth_products,
    fourth_faultless,
    fourth_faultless_products,
    fourth_launch,
    fourth_math,
    fourth_memory,
    fourth_products,
    launch_shape,
    loops,
    second_faultless,
    second_launch,
    second_math,
    second_memory,
    second_products,
    shared,
    sixth_attention,
    sixth_products,
    third_faultless,
    third_launch,
    third_math,
    third_memory,
    third_products,
    traffic,
    triangles,
)
from bench.corpus.case import Case

__all__ = ["CASES", "FAMILIES"]

_MODULES = (
    launch_shape,
    addressing,
    traffic,
    shared,
    dots,
    triangles,
    arithmetic,
    loops,
    faultless,
    second_launch,
    second_memory,
    second_math,
    second_products,
    second_faultless,
    third_launch,
    third_memory,
    third_math,
    third_products,
    third_faultless,
    fourth_launch,
    fourth_memory,
    fourth_math,
    fourth_products,
    fourth_faultless,
    fourth_faultless_products,
    fifth_launch,
    fifth_memory,
    fifth_math,
    fifth_attention,
    fifth_products,
    fifth_faultless,
    fifth_faultless_products,
    sixth_products,
    sixth_attention,
)
FAMILIES: dict[str, tuple[Case, ...]] = {
    module.__name__.rpartition(".")[2]: module.CASES for module in _MODULES
}
CASES: dict[str, Case] = {case.name: case for family in FAMILIES.values() for case in family}
