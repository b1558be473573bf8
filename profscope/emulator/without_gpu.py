"""What to do about an error that torch raises where a script asks for a GPU and there is none."""

from typing import Final

__all__ = ["say_how"]

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
