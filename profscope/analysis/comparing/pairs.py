"""Which kernels and configurations of two profiles belong together, and whether one binary ran in both."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from profscope.analysis.comparing.places import same_sources
from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["Pair", "paired"]

# Options that choose launches, and where they go, and do not change binaries.
_BESIDE: Final = (
    "kernels", "every", "trials", "memory", "spool", "limit_s", "sources", "backend",
    "baseline", "samples",
)  # fmt: skip
_SHOWN_KERNELS: Final = 4


class Pair(NamedTuple):
    """A kernel's variant in a and in b, None where it is in one of them only.

    same_build: whether the same source was built in the same way, so that one binary ran in both.
    """

    kernel: str
    variant_a: int | None
    variant_b: int | None
    same_build: bool = False


def paired(a: Tables, b: Tables) -> list[Pair]:
    """All kernels and variants of two profiles, but for trials, in order of their launches in a, then in b.

    Variants are the same where their keys are; where one is left on either side, those two are compared.
    Raises DiffError where no kernel is in both.
    """
    variants_a, variants_b = _variants(a), _variants(b)
    if not variants_a.keys() & variants_b.keys():
        raise DiffError(
            f"no kernel is in both profiles: the first has {_named(variants_a)}, the second "
            f"{_named(variants_b)}; diff compares a kernel with itself, by its name"
        )
    is_same_builder = _builder(a) == _builder(b)
    sources = [tables.metadata.get("sources") or [] for tables in (a, b)]
    kernels = {*variants_a, *variants_b}
    pairs = []
    for kernel in dict.fromkeys([*variants_a, *variants_b]):
        of_a, of_b = variants_a.get(kernel, {}), variants_b.get(kernel, {})
        both = [key for key in of_a if key in of_b]
        is_same = is_same_builder and same_sources(sources[0], sources[1], kernel, kernels) is True
        pairs += [Pair(kernel, of_a[key], of_b[key], is_same) for key in both]
        left, free = ([of[key] for key in of if key not in both] for of in (of_a, of_b))
        if len(left) == 1 and len(free) == 1:
            pairs.append(Pair(kernel, left[0], free[0]))
            continue
        pairs += [Pair(kernel, variant, None) for variant in left]
        pairs += [Pair(kernel, None, variant) for variant in free]
    return pairs


def _variants(tables: Tables) -> dict[str, dict[str, int]]:
    """By kernel, the numbers of its variants by key; "" and the number where nobody says."""
    launches = tables.launches
    rows = launches.loc[~launches["trial"], ["kernel", "variant"]].drop_duplicates()
    described = tables.metadata.get("variants") or {}
    variants: dict[str, dict[str, int]] = {}
    for kernel, variant in rows.itertuples(index=False):
        keys = {each["variant"]: each["key"] for each in described.get(kernel) or []}
        variants.setdefault(str(kernel), {})[keys.get(variant) or f"#{variant}"] = int(variant)
    return variants


def _builder(tables: Tables) -> dict[str, Any]:
    """What a binary follows from beside source and configuration."""
    metadata = tables.metadata
    options = {name: value for name, value in (metadata.get("options") or {}).items() if name not in _BESIDE}
    device = metadata.get("device") or {}
    named = {name: metadata.get(name) for name in ("profscope", "triton", "torch")}
    return {**named, "options": options, "arch": device.get("arch"), "device": device.get("name")}


def _named(variants: dict[str, dict[str, int]]) -> str:
    names = list(variants)
    more = f" and {len(names) - _SHOWN_KERNELS} more" if len(names) > _SHOWN_KERNELS else ""
    return ", ".join(names[:_SHOWN_KERNELS]) + more if names else "none"
