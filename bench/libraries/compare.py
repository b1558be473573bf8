"""One op bare and in a session: are the bits the same, and was every launch recorded?"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves
from triton import knobs

import profscope
from bench.libraries.calls import Call
from bench.timing import synchronize, why
from tests.support.validation import validate

__all__ = ["Atomics", "Outcome", "atomics_of_loads", "compare"]

Atomics = dict[str, list[str]]
"""Kernel -> what in it makes results depend on the order in which CTAs come."""

_ATOMIC: Final = re.compile(r"tt\.atomic_rmw (fadd)|tt\.(atomic_cas)|tt\.atomic_rmw (exch|add)")
_MORE: Final = 5  # bare runs of a call that came out different in the session
_DIRT: Final = range(9, 26)  # log2 of the bytes of the blocks that are made dirty


@dataclass
class Outcome:
    """What came of one op. By label of the call:

    raised         why the library's own call failed, without any session
    raised_inside  why it failed in the session only; under "session" what the session itself raised
    unsteady       outputs that differ between bare runs, too, and by how much at most
    differing      outputs that are always the same bare, and others in the session; by how much
    compared       calls that launched a kernel, and ran bare and in the session
    lost           the bare call that broke the GPU's context, so that none was compared; "" if none did

    launched       launches in the session; counts their kernels
    recorded       launches in the profile; counts their kernels
    atomics        kernels whose results depend on an order, see `Atomics`
    notes          what the session noted
    problems       what `validate()` found
    """

    compared: int = 0
    lost: str = ""
    raised: dict[str, str] = field(default_factory=dict)
    raised_inside: dict[str, str] = field(default_factory=dict)
    unsteady: dict[str, str] = field(default_factory=dict)
    differing: dict[str, str] = field(default_factory=dict)
    launched: dict[str, int] = field(default_factory=dict)
    recorded: dict[str, int] = field(default_factory=dict)
    atomics: Atomics = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def compare(calls: Mapping[str, Call], options: Mapping[str, Any], device: str, atomics: Atomics) -> Outcome:
    """Run each call three times bare and once in one session for all. The first tunes and compiles.

    options: the session's.

    A bare call that breaks the GPU's context (an illegal address) ends it: nothing after it can run here.
    """
    done = Outcome()
    bare: dict[str, list[Leaf]] = {}
    for label, call in calls.items():
        try:
            with _counted() as kernels:
                _run(call, device, 0)
            if not kernels:
                continue  # nothing of the library's own ran
            bare[label] = _run(call, device, 1)
            gap = _gap(bare[label], _run(call, device, 2))
        except Exception as error:  # noqa: BLE001  that is a result
            done.raised[label] = why(error)
            bare.pop(label, None)
            if _is_lost():
                done.lost = label
                return done
            continue
        if gap:
            done.unsteady[label] = gap
    if bare:
        _inside(done, {label: calls[label] for label in bare}, bare, options, device)
    for label in list(done.differing):
        gaps = [gap for dirt in range(_MORE) if (gap := _gap(bare[label], _run(calls[label], device, dirt)))]
        if gaps:
            done.unsteady[label] = max(gaps)
            del done.differing[label]
    done.atomics = {kernel: atomics[kernel] for kernel in done.launched if atomics.get(kernel)}
    return done


def _inside(
    done: Outcome,
    calls: Mapping[str, Call],
    bare: Mapping[str, list[Leaf]],
    options: Mapping[str, Any],
    device: str,
) -> None:
    inside: dict[str, list[Leaf]] = {}
    try:
        with _counted() as kernels, profscope.session(**options) as prof:
            for label, call in calls.items():
                try:
                    inside[label] = _run(call, device, 3)
                except Exception as error:  # noqa: BLE001  that is a result
                    done.raised_inside[label] = why(error)
        profile = prof.profile
        done.problems = validate(profile.tables)
    except Exception as error:  # noqa: BLE001  that is a result
        done.raised_inside["session"] = why(error)
        return
    done.compared = len(inside)
    done.launched = dict(kernels)
    done.recorded = {
        str(name): int(count) for name, count in profile.launches["kernel"].value_counts().items()
    }
    done.notes = list(profile.metadata["notes"])
    for label, found in inside.items():
        gap = _gap(bare[label], found)
        if gap and label not in done.unsteady:
            done.differing[label] = gap


Leaf = torch.Tensor | str


def _run(call: Call, device: str, dirt: int) -> list[Leaf]:
    """What a call computes, on the host, always with the same random numbers."""
    _stir(device, dirt)
    torch.manual_seed(0)
    found = call()
    synchronize()
    return [
        leaf.detach().resolve_conj().resolve_neg().cpu() if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in tree_leaves(found)
    ]


def _stir(device: str, dirt: int) -> None:
    """Leave other bytes in free memory each time, so that what a kernel never wrote does not look steady."""
    blocks = [torch.full((1 << size,), 17 * dirt, dtype=torch.uint8, device=device) for size in _DIRT]
    del blocks


def _is_lost() -> bool:
    """Whether nothing more can run on the GPU in this process."""
    try:
        synchronize()
    except RuntimeError:
        return True
    return False


def _gap(first: list[Leaf], second: list[Leaf]) -> str:
    """Where results differ bit by bit: how far they are apart at most; "" for the same bits."""
    if len(first) != len(second):
        return f"{len(first)} and {len(second)} outputs"
    found = [_gap_of(a, b) for a, b in zip(first, second, strict=True)]
    return max(found)


def _gap_of(a: Leaf, b: Leaf) -> str:
    if isinstance(a, str) or isinstance(b, str):
        return "" if isinstance(a, str) and a == b else "values differ"
    if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
        return "shapes or dtypes differ"
    a, b = (tensor.to_dense() if tensor.layout != torch.strided else tensor for tensor in (a, b))
    if torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b))):
        return ""
    if a.dtype.is_complex:
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    apart = (a.double() - b.double()).abs().nan_to_num(torch.inf)
    scale = a.double().abs().nan_to_num(0.0, 0.0, 0.0).max()
    return f"by {float(apart.max()):.1e} of at most {float(scale):.1e}"


@contextlib.contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Launches in the block by kernel, of every thread."""
    found: Counter[str] = Counter()

    def entered(metadata: Any) -> None:
        found[metadata.get()["name"]] += 1

    knobs.runtime.launch_enter_hook.add(entered)
    try:
        yield found
    finally:
        knobs.runtime.launch_enter_hook.remove(entered)


@contextlib.contextmanager
def atomics_of_loads() -> Iterator[Atomics]:
    """Of every kernel that is loaded in the block, from its TTGIR in Triton's cache."""
    found: Atomics = {}

    def loaded(module: Any, fn: Any, name: str, metadata_group: Mapping[str, str], hash: str) -> None:
        path = next((path for file, path in metadata_group.items() if file.endswith(".ttgir")), None)
        text = Path(path).read_text() if path else ""
        kinds = {next(filter(None, kinds)) for kinds in _ATOMIC.findall(text)}
        found[name] = sorted({*found.get(name, []), *kinds})

    knobs.runtime.kernel_load_end_hook.add(loaded)
    try:
        yield found
    finally:
        knobs.runtime.kernel_load_end_hook.remove(loaded)
