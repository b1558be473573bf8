"""A launch's arguments as the kernel reads them: their bits, and the memory behind pointers."""

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.machine.memory import Allocation
from profscope.errors import EmulatorError

__all__ = ["allocation_of", "check_count", "flatten", "live_tensors", "pack"]


def flatten(signature: Any, args: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, type, value) of each parameter: constants left out, tuples and descriptors taken apart."""
    for (name, kind), value in zip(signature, args, strict=False):  # constants at the end may be left out
        if isinstance(kind, tuple | list):
            yield from flatten([(f"{name}[{i}]", k) for i, k in enumerate(kind)], tuple(value))
        elif kind.startswith("tensordesc"):
            yield from _descriptor(name, kind, value)
        elif kind != "constexpr":
            yield name, kind, value


def check_count(kernel: str, signature: Mapping[str, Any], given: int) -> None:
    """Raise TypeError, worded as Triton words it, unless as many arguments are given as there are parameters.

    Triton itself does so where a kernel is launched by its function; this is for those launched directly, as
    `compiled[grid](...)`, whose last constants may be left out.
    """
    names = list(signature)
    if given > len(names):
        plural, were = "s" * (len(names) != 1), "was" if given == 1 else "were"
        raise TypeError(f"{kernel}() takes {len(names)} positional argument{plural} but {given} {were} given")
    missing = [repr(name) for name in names[given:] if signature[name] != "constexpr"]
    if missing:
        *others, last = missing
        listed = f"{', '.join(others)}{',' * (len(others) > 1)} and {last}" if others else last
        plural = "s" * bool(others)
        raise TypeError(f"{kernel}() missing {len(missing)} required positional argument{plural}: {listed}")


def _descriptor(name: str, kind: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """A tensor descriptor as sm_80 kernels take it: base, shape, strides, flags, shape and strides again."""
    element = kind.partition("<")[2].partition("[")[0]
    yield name, f"*{element}", value.base
    shape = [(f"{name}.shape", size) for size in value.shape]
    strides = [(f"{name}.stride", size) for size in value.strides]
    for part, size in (*shape, *strides):
        yield part, "i64", size
    yield f"{name}.padding", "i1", value.padding == "nan"
    if hasattr(value, "round_f32_to_tf32"):  # from 3.7 on
        yield f"{name}.round", "i1", value.round_f32_to_tf32
    for part, size in shape:
        yield part, "i32", size
    for part, size in strides:
        yield part, "i64", size


def _address(name: str, value: Any) -> int:
    if value is None or isinstance(value, int):
        return value or 0
    return int(value.data_ptr())


def allocation_of(name: str, value: Any, size: int | None) -> Allocation | None:
    """The memory behind a pointer argument: a tensor's whole storage, or `size` bytes of a scratch buffer.

    A session's pointer carries launch bits in its address and names its memory itself, as `extent`.
    """
    if hasattr(value, "extent"):
        start, length = value.extent
        return Allocation(name, start, length, start, value)
    if size is not None:
        address = _address(name, value)
        return Allocation(name, address, size, address, value) if value is not None else None
    value = _tensor_behind(value)
    if value is None:
        return None
    if value.device.type != "cpu":
        raise EmulatorError(f"argument {name!r} is on {value.device}; the emulator runs on CPU tensors")
    return _storage_of(name, value)


def _storage_of(name: str, tensor: Any) -> Allocation:
    storage = tensor.untyped_storage()
    return Allocation(name, storage.data_ptr(), storage.nbytes(), tensor.data_ptr(), tensor)


def _tensor_behind(value: Any) -> Any:
    """The tensor whose memory an argument points into: itself, or what an object with `data_ptr()` wraps.

    None where that cannot be told.
    """
    if hasattr(value, "untyped_storage"):
        return value
    if not hasattr(value, "data_ptr"):
        return None
    address = value.data_ptr()
    for part in getattr(value, "__dict__", {}).values():  # triton.reinterpret's wrapper has its own as `base`
        if hasattr(part, "untyped_storage"):
            memory = _storage_of("", part)
            if memory.start <= address < memory.end:
                return part
    return None


def live_tensors() -> list[Allocation]:
    """The memory of all CPU tensors of this process that Python knows."""
    import torch

    things = gc.get_objects()
    # isinstance would run code of proxies
    tensors = {kind for kind in set(map(type, things)) if issubclass(kind, torch.Tensor)}
    allocations = []
    with torch._C.DisableTorchFunctionSubclass():
        for thing in [thing for thing in things if type(thing) in tensors]:
            with contextlib.suppress(RuntimeError):  # sparse ones and wrapper subclasses have none themselves
                if thing.untyped_storage().device.type == "cpu":  # that of a fake tensor is not
                    name = f"{str(thing.dtype).removeprefix('torch.')} tensor {list(thing.shape)}"
                    allocations.append(_storage_of(name, thing))
    return [a for a in allocations if a.size]


def pack(kind: str, value: Any) -> Array:
    """A scalar or pointer as the bits the kernel reads, at least four bytes of them."""
    if kind[0] == "*":
        return np.array([_address("", value)], np.uint64).reshape(1, 1, 1)
    if kind in ("fp32", "f32"):
        return np.array([value], np.float32).reshape(1, 1, 1)
    if kind == "fp64":
        return np.array([value], np.float64).reshape(1, 1, 1)
    if kind == "fp16":
        return np.array([value, 0], np.float16).view(np.uint32).reshape(1, 1, 1)
    if kind == "bf16":
        bits = np.array([value], np.float32).view(np.uint32) >> np.uint32(16)
        return bits.reshape(1, 1, 1)
    width = max(32, int(kind[1:]))
    return np.array([int(value) % (1 << width)], f"u{width // 8}").reshape(1, 1, 1)
