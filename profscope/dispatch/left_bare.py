"""What a profile says of launches that ran bare although they should not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from instrument_passes.errors import ProfscopeError
from profscope.recording.diagnostics import number_of_launches, one_line

__all__ = ["BUILDING", "FOR_CPP", "described", "reason"]

BUILDING: Final = "its binary was being built"
FOR_CPP: Final = "its binary is written to a file, for C++"
_SHOWN_KERNELS: Final = 3


def reason(error: Exception) -> str:
    """Why a kernel could not be built, as one line; errors that are not profscope's own say their type."""
    return " ".join(str(error).split()) if isinstance(error, ProfscopeError) else one_line(error)


def described(left_bare: Mapping[tuple[str, str], int], unknown: str) -> tuple[dict[str, Any], list[str]]:
    """Of torch.compile's launches: the metadata's entry "building", by kernel how many ran bare while its
    binary was being built, and the notes. left_bare: kernel and why -> launches; unknown: what this torch
    does not have."""
    building, for_cpp = (
        {name: count for (name, because), count in sorted(left_bare.items()) if because == why}
        for why in (BUILDING, FOR_CPP)
    )
    notes = [f"torch.compile's kernels ran bare, and are in no figure: {unknown}"] * bool(unknown)
    notes += [
        f"{number_of_launches(count)} of {name} by torch.compile ran bare: {why}"
        for (name, why), count in left_bare.items()
        if why not in (BUILDING, FOR_CPP)
    ]
    if for_cpp:
        launches, whose, kernels = _counted(for_cpp)
        notes.append(f"{launches}: {whose} written to a file, for C++ to launch ({kernels})")
    if not building:
        return {}, notes
    launches, whose, kernels = _counted(building)
    notes.append(f"{launches}: {whose} being built ({kernels}); with wait=True launches wait for that")
    return {"building": {"bare_launches": building}}, notes


def _counted(by_kernel: Mapping[str, int]) -> tuple[str, str, str]:
    """Of launches that ran bare: how many, whose binaries, and the kernels."""
    names, count = list(by_kernel), sum(by_kernel.values())
    verb, whose = ("is", "its binary was") if count == 1 else ("are", "their binaries were")
    kernels = ", ".join(names[:_SHOWN_KERNELS]) + ", ..." * (len(names) > _SHOWN_KERNELS)
    return f"{number_of_launches(count)} by torch.compile ran bare, and {verb} in no figure", whose, kernels
