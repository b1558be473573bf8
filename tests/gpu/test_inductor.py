"""torch.compile on a real device: what it launches in a session is recorded; nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import profscope
from tests.support.validation import validate

pytestmark = pytest.mark.filterwarnings("ignore")  # Inductor's own, about the machine

Function = Callable[[torch.Tensor], torch.Tensor]


def eager(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(torch.softmax(x, -1), x.shape[-1:]) * 2


@pytest.fixture(params=[1, 4], ids=["in this process", "in workers"])
def compiled(request: pytest.FixtureRequest) -> Iterator[Callable[..., Function]]:
    """torch.compile of `eager`, anew and with no cache of earlier runs."""
    from torch._inductor import config
    from triton.runtime import _allocation

    allocator = _allocation._allocator.get()  # Inductor sets its own and leaves it
    with config.patch(compile_threads=request.param, force_disable_caches=True):

        def make(**options: str) -> Function:
            torch._dynamo.reset()
            return torch.compile(eager, **options)

        yield make
    torch._dynamo.reset()
    _allocation._allocator.set(allocator)


def check(function: Function, x: torch.Tensor) -> None:
    torch.testing.assert_close(function(x), eager(x))


@pytest.mark.parametrize("compiled_before", [False, True])
def test_what_it_launches_is_recorded(compiled: Callable[..., Function], compiled_before: bool) -> None:
    x = torch.randn(512, 1000, device="cuda")
    function = compiled()
    if compiled_before:
        check(function, x)
    with profscope.session(backend="gpu", wait=True) as prof:
        for _ in range(3):
            check(function, x)
    check(function, x)  # after the session, from Inductor's own launcher
    kernels = prof.launches["kernel"]
    assert not prof.launches.empty
    assert kernels.str.startswith("triton_").all()
    assert set(kernels.value_counts() % 3) == {0}
    assert not [note for note in prof.metadata["notes"] if "ran bare" in note]
    assert validate(prof.profile.tables) == []


def test_its_cuda_graphs_are_recorded(compiled: Callable[..., Function]) -> None:
    x = torch.randn(512, 1000, device="cuda")
    function = compiled(mode="reduce-overhead")
    with profscope.session(backend="gpu", wait=True) as prof:
        for _ in range(6):
            torch.compiler.cudagraph_mark_step_begin()
            check(function, x)
    torch.compiler.cudagraph_mark_step_begin()
    check(function, x)
    replays = prof.launches.loc[prof.launches["graph"] >= 0, "replay"]
    assert replays.max() >= 2
    assert not [note for note in prof.metadata["notes"] if "ran bare" in note or "unrecorded" in note]
    assert validate(prof.profile.tables) == []
