"""All of torch.compile, forward and backward, with its kernels on the emulator; on a GPU: `tests/gpu`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from triton.runtime import _allocation

from tests.support.sessions import session
from tests.support.validation import validate

pytestmark = [
    pytest.mark.exhaustive,  # seconds
    pytest.mark.filterwarnings("ignore"),  # Inductor's own, about the machine
]


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.up(self.norm(x)))


@pytest.fixture
def model(request: pytest.FixtureRequest) -> Model:
    torch.manual_seed(0)
    return Model(getattr(request, "param", 32))


@pytest.fixture
def step(model: Model) -> Iterator[Any]:
    """A step of training, compiled when it is first called."""
    whole = pytest.importorskip("tests.support.whole_inductor")
    allocator = _allocation._allocator.get()  # Inductor sets its own and leaves it
    with whole.compiling_for_the_emulator():
        loss = torch.compile(lambda x: model(x).square().mean())

        def train(x: torch.Tensor) -> torch.Tensor:
            model.zero_grad()
            result: torch.Tensor = loss(x)
            result.backward()
            return result.detach()

        yield train
    _allocation._allocator.set(allocator)


def ops_of(prof: Any) -> set[str]:
    builds = [build for of_kernel in prof.metadata["variants"].values() for build in of_kernel]
    return {op for build in builds for op in build["model"]["ops"]}


def test_a_step_is_recorded_and_its_kernels_know_their_modules(model: Model, step: Any) -> None:
    x = torch.randn(8, 32)
    with session() as prof:
        losses = [step(x) for _ in range(3)]
    gradient = model.up.weight.grad
    assert gradient is not None
    compiled = gradient.clone()
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    for each in losses:
        torch.testing.assert_close(each, loss.detach())
    torch.testing.assert_close(compiled, model.up.weight.grad)
    assert set(prof.launches["kernel"].value_counts()) == {3}
    assert prof.launches["kernel"].str.startswith("triton_").all()
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []
    assert set(prof.program.modules()["module"]) >= {"norm", "Model"}
    lines = prof.summary()
    assert set(lines["model_file"].map(lambda file: Path(file).name)) == {Path(__file__).name}
    assert ops_of(prof) >= {"aten.gelu", "aten.gelu_backward", "aten.native_layer_norm_backward"}


@pytest.mark.parametrize("model", [48], indirect=True)
def test_experiments_change_no_step(model: Model, step: Any) -> None:
    """Autograd launches the backward kernels from a thread of its own."""
    x = torch.randn(8, 48)
    expected = step(x), [each.grad for each in model.parameters()]
    with session(evidence=["experiments", "seconds:600"]) as prof:
        for _ in range(8):
            loss = step(x)
            assert torch.equal(loss, expected[0])
            for each, gradient in zip(model.parameters(), expected[1], strict=True):
                assert torch.equal(each.grad, gradient)  # type: ignore[arg-type]
    assert prof.metadata["evidence"]["not_measured"] == []
    assert set(prof.experiments["kernel"]) == set(prof.launches["kernel"])


@pytest.mark.parametrize("model", [64], indirect=True)  # files of equal text are known as one
def test_what_was_compiled_before_the_session_is_recorded(step: Any) -> None:
    x = torch.randn(8, 64)
    step(x)
    with session() as prof:
        step(x)
        step(x)
    step(x)
    assert set(prof.launches["kernel"].value_counts()) == {2}
    assert not [note for note in prof.metadata["notes"] if "bare" in note]
    assert ops_of(prof) >= {"aten.gelu", "aten.gelu_backward"}
    assert set(prof.summary()["module"]) == {""}  # nobody looked at the graphs
