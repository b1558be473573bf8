"""What a kernel's variants were launched with, from the descriptions in `metadata["variants"]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["configuration", "differing"]

_LAUNCH_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def configuration(variant: Mapping[str, Any]) -> dict[str, Any]:
    """By name: types of arguments, constexprs, and the launch options that were set."""
    options = {name: variant[name] for name in _LAUNCH_OPTIONS if variant.get(name) is not None}
    return {**(variant.get("signature") or {}), **(variant.get("constexprs") or {}), **options}


def differing(variants: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    """What a kernel's variant has that others have not: of its configuration, and the function's module."""
    flat = [_with_function(variant) for variant in variants]
    mine = next((each for each, about in zip(flat, variants, strict=True) if about["variant"] == number), {})
    return {name: value for name, value in mine.items() if any(each.get(name) != value for each in flat)}


def _with_function(variant: Mapping[str, Any]) -> dict[str, Any]:
    named = {"function": variant["function"]} if variant.get("function") else {}
    return {**configuration(variant), **named}
