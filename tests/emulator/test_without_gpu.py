"""A script that asks for a GPU where there is none is told, in one line, how to run here."""

import pytest
import torch

import profscope
from profscope.emulator import activate, say_how

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
HOW = (
    "profscope: there is no GPU here, and the emulator runs kernels on CPU tensors: "
    'make them with device="cpu"'
)


def notes_of(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


@NO_GPU
def test_tensors_on_cuda_in_a_session() -> None:
    with pytest.raises((AssertionError, RuntimeError)) as raised, profscope.session():
        torch.zeros(3, device="cuda")
    assert notes_of(raised.value) == [HOW]


@NO_GPU
def test_tensors_on_cuda_where_the_emulator_is_active() -> None:
    """Once, also where a session is open inside."""
    with pytest.raises((AssertionError, RuntimeError)) as raised, activate(), profscope.session():
        torch.zeros(3).cuda()
    assert notes_of(raised.value) == [HOW]


def test_other_errors_get_no_line() -> None:
    for error in (AssertionError("mine"), RuntimeError("CUDA error: out of memory"), KeyError("x")):
        say_how(error)
        assert notes_of(error) == []
    with pytest.raises(AssertionError) as raised, profscope.session(backend="emulator"):
        raise AssertionError("mine")
    assert notes_of(raised.value) == []


@pytest.mark.parametrize(
    "text",
    [
        "Torch not compiled with CUDA enabled",
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "No CUDA GPUs are available",
    ],
)
def test_what_builds_of_torch_say(text: str) -> None:
    error = RuntimeError(text)
    say_how(error)
    say_how(error)
    assert notes_of(error) == [HOW]
