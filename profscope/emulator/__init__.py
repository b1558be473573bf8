"""A CPU emulator for the PTX that Triton produces, as an out-of-tree Triton backend.

    with profscope.emulator.activate(sm_count=8):
        kernel[grid](x, y, n, BLOCK=1024)   # CPU tensors

Importing this package imports neither Triton nor torch: Triton itself imports it to look for backends.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

__all__ = ["activate", "active", "describe", "say_how"]


@contextmanager
def activate(*, sm_count: int = 16) -> Iterator[Any]:
    """Make the emulator Triton's active driver; the one before is active again afterwards, whatever happens.

    A fresh device is switched on: the same launches take the same cycles each time. Yields the driver.
    Raises OptionError for a wrong `sm_count` (1 to 1024).
    """
    from triton import backends
    from triton.runtime import driver

    from profscope.emulator.compiler import BACKEND_NAME, EmulatorBackend
    from profscope.emulator.device import Device, Model
    from profscope.emulator.driver import EmulatorDriver
    from profscope.emulator.triton_patches import patched

    emulator = EmulatorDriver(Device(Model(sm_count=sm_count)))
    before = driver._active  # None if no driver was needed yet: asking for it would create the default one
    missing = BACKEND_NAME not in backends.backends  # profscope is importable but not installed
    if missing:
        backends.backends[BACKEND_NAME] = backends.Backend(EmulatorBackend, EmulatorDriver)
    driver.set_active(emulator)
    try:
        with patched():
            yield emulator
    except (AssertionError, RuntimeError) as error:  # what torch raises where there is no GPU
        say_how(error)
        raise
    finally:
        driver._active = before
        if missing:
            del backends.backends[BACKEND_NAME]


_USERS: Final[list[object]] = []  # the bodies of `active` that run
_ACTIVATED: Final = ExitStack()  # what they have activated; closes when the last of them ends
_LOCK: Final = threading.Lock()


@contextmanager
def active() -> Iterator[Any]:
    """Yields the emulator that is Triton's active driver, or one activated for the body of a with statement.

    Bodies that overlap share it, in whatever order they end. Events and benchmarks that the program has begun
    go on in the same time.
    """
    from triton.runtime import driver

    from profscope.emulator.driver import EmulatorDriver

    user = object()
    with _LOCK:
        if not isinstance(driver._active, EmulatorDriver):
            _ACTIVATED.enter_context(activate())
        emulator = driver._active
        _USERS.append(user)
    try:
        yield emulator
    finally:
        with _LOCK:
            _USERS.remove(user)
            if not _USERS:
                _ACTIVATED.close()


def describe() -> dict[str, Any]:
    """Name and model parameters of the emulator that is active, for metadata; plain JSON values.

    Raises SessionError if the active driver is another.
    """
    from dataclasses import asdict

    from triton.runtime import driver

    from profscope.emulator.compiler import ARCH
    from profscope.emulator.driver import EmulatorDriver
    from profscope.errors import SessionError

    if not isinstance(driver.active, EmulatorDriver):
        raise SessionError("the emulator is not the active Triton driver")
    return {"name": "profscope emulator", "arch": f"sm_{ARCH}", **asdict(driver.active.device.model)}


# What to do about an error that torch raises where a script asks for a GPU and there is none.

_TENSORS: Final = (
    'there is no GPU here, and the emulator runs kernels on CPU tensors: make them with device="cpu"'
)
_EVENTS: Final = (
    "there is no GPU here; events with emulated times are those of "
    "triton.runtime.driver.active.get_device_interface()"
)
_ANSWERS: Final = {
    "Torch not compiled with CUDA enabled": _TENSORS,
    "Found no NVIDIA driver on your system": _TENSORS,
    "No CUDA GPUs are available": _TENSORS,
    "Tried to instantiate dummy base class Event": _EVENTS,
}


def say_how(error: BaseException) -> None:
    """Add a line to the error, once, that says how to run the script on the emulator."""
    for text, answer in _ANSWERS.items():
        note = f"profscope: {answer}"
        if text in str(error) and note not in getattr(error, "__notes__", []):
            error.add_note(note)
