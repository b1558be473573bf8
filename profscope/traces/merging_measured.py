"""What several parts know of launches that were timed bare or sampled, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from profscope.evidence.subject import of_configurations

__all__ = ["merged_baseline", "merged_budget", "merged_building", "merged_evidence", "merged_sampler"]

_ADDED_UP: Final = ("launches", "samples", "dropped")


def merged_baseline(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata's entry "baseline" of the parts that timed bare launches; those of a key are one entry."""
    told = [part["baseline"] for part in parts if part.get("baseline")]
    if not told:
        return {}
    kernels: dict[str, dict[str, dict[str, Any]]] = {}
    for each in told:
        for name, entries in (each.get("kernels") or {}).items():
            of_kernel = kernels.setdefault(name, {})
            for entry in entries:
                known = of_kernel.get(entry["key"])
                of_kernel[entry["key"]] = entry if known is None else _timed(known, entry)
    return {"baseline": told[0] | {"kernels": {name: list(own.values()) for name, own in kernels.items()}}}


def merged_budget(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata's entry "budget" of the parts that have one: times are added up."""
    told = [part["budget"] for part in parts if part.get("budget")]
    if not told:
        return {}
    times = {
        name: sum(each[name] for each in told) for name in ("elapsed_ns", "open_ns", "host_ns", "gpu_ns")
    }
    return {"budget": told[0] | times}


def merged_building(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata's entry "building": launches that ran bare are added up by kernel."""
    bare = Counter[str]()
    for part in parts:
        bare.update((part.get("building") or {}).get("bare_launches") or {})
    return {"building": {"bare_launches": dict(sorted(bare.items()))}} if bare else {}


def _timed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The times of one configuration's launches in two parts."""
    return {
        **one,
        **{name: [*one[name], *other[name]] for name in ("bare_ns", "instrumented_ns")},
        **{name: (one.get(name) or 0) + (other.get(name) or 0) for name in ("unrecorded", "waited")},
    }


def merged_evidence(parts: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """The metadata's entry "evidence" of the parts that have one, with their ranks."""
    told = [(rank, part["evidence"]) for rank, part in parts if part.get("evidence")]
    if not told:
        return {}
    kernels: dict[str, Counter[str]] = {}
    ranks: dict[str, list[int]] = {}
    for rank, evidence in told:
        for kernel, launches in (evidence.get("kernels") or {}).items():
            kernels.setdefault(kernel, Counter()).update(launches)
        for missing in evidence.get("not_measured") or ():
            ranks.setdefault(missing, []).append(rank)
    return {
        "evidence": {
            "kernels": {kernel: dict(launches) for kernel, launches in sorted(kernels.items())},
            "added_s": max(evidence.get("added_s") or 0.0 for _, evidence in told),
            "not_measured": [
                missing if len(own) == len(told) else f"rank {', '.join(map(str, own))}: {missing}"
                for missing, own in ranks.items()
            ],
            "tensors": of_configurations(
                each for _, evidence in told for each in evidence.get("tensors") or ()
            ),
        }
    }


def merged_sampler(
    parts: Sequence[tuple[int, Mapping[str, Any]]], variants: Mapping[tuple[int, str, int], int]
) -> dict[str, Any]:
    """The metadata's entry "sampler" of the parts that sampled, with their ranks. A binary of one kernel and
    configuration is one entry. variants: by rank, kernel and number of a configuration, its number in the
    whole."""
    told = [(rank, part["sampler"]) for rank, part in parts if part.get("sampler")]
    if not told:
        return {}
    kernels: dict[str, Counter[str]] = {}
    binaries: dict[tuple[str, int, str], dict[str, Any]] = {}
    for rank, sampler in told:
        for kernel, counts in (sampler.get("kernels") or {}).items():
            kernels.setdefault(kernel, Counter()).update(counts)
        for entry in sampler.get("binaries") or ():
            kernel, number = entry["kernel"], entry["variant"]
            own = entry | {"variant": variants.get((rank, kernel, number), number)}
            key = kernel, own["variant"], entry["binary"]
            binaries[key] = _sampled(binaries[key], own) if key in binaries else own
    every = [sampler for _, sampler in told]
    together = {
        **_why(told),
        "kernels": {kernel: dict(counts) for kernel, counts in sorted(kernels.items())},
        "binaries": [binaries[key] for key in sorted(binaries)],
        "notes": list(dict.fromkeys(note for each in every for note in each.get("notes") or ())),
        **_figures(every),
    }
    return {"sampler": together}


def _why(told: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, str]:
    """Why parts were not sampled, or from some moment on no more: once, or with the ranks that say so."""
    ranks: dict[str, list[int]] = {}
    for rank, sampler in told:
        if sampler.get("why"):
            ranks.setdefault(sampler["why"], []).append(rank)
    if len(ranks) == 1 and len(told) == len(*ranks.values()):
        return {"why": next(iter(ranks))}
    texts = [f"rank {', '.join(map(str, own))}: {why}" for why, own in ranks.items()]
    return {"why": "; ".join(texts)} if texts else {}


def _sampled(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A binary in two parts. Of how far launches are apart, what says more: those of two parts were never
    compared."""
    apart = [each["apart"] for each in (one, other) if each.get("apart")]
    most = max(apart, key=lambda pair: float(pair[0] / max(pair[1], 1e-9)), default=None)
    return one | _figures([one, other]) | {"apart": most}


def _figures(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    periods = {cycles for each in several for cycles in each.get("period_cycles") or ()}
    return {name: sum(each.get(name) or 0 for each in several) for name in _ADDED_UP} | {
        "period_cycles": sorted(periods)
    }
