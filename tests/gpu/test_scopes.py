"""Scopes and value probes on a real device: outputs as ever, spans where they belong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import profscope
from tests.kernels import scopes
from tests.support.validation import validate

_GPU = torch.cuda.is_available()
_HOPPER = _GPU and torch.cuda.get_device_capability() >= (9, 0)


def matmul() -> torch.Tensor:
    torch.manual_seed(0)
    a, b = torch.randn(512, 256).half().cuda(), torch.randn(256, 512).half().cuda()
    c = torch.empty(512, 512, dtype=torch.float16, device="cuda")
    scopes.matmul_scopes_kernel[(8, 8)](a, b, c, 512, 256, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return c


def proton() -> torch.Tensor:
    x, out = torch.arange(4096.0, device="cuda"), torch.empty(4096, device="cuda")
    scopes.proton_scopes_kernel[(16,)](x, out, BLOCK=256)
    return out


def gluon() -> torch.Tensor:
    x, out = torch.arange(128.0, device="cuda"), torch.empty(256, device="cuda")
    scopes.gluon_scopes_kernel[(1,)](x, out, BLOCK=128, WORKERS=1, num_warps=4)
    return out


@pytest.mark.parametrize("level", ["light", "heavy"])
@pytest.mark.parametrize(
    ("launch", "names"),
    [
        (matmul, {"setup", "main loop", "fetch", "multiply", "epilogue", "scale"}),
        (proton, {"read", "write"}),
        pytest.param(
            gluon,
            {"all", "read", "write", "worker"},
            marks=pytest.mark.skipif(not _HOPPER, reason="needs setmaxnreg"),
        ),
    ],
)
def test_scopes(launch: Callable[[], torch.Tensor], names: set[str], level: str) -> None:
    bare = launch()
    with profscope.session(backend="gpu", instrument=level) as prof:
        assert torch.equal(launch(), bare)
    assert validate(prof.profile.tables) == []
    assert [note for note in prof.metadata["notes"] if "colder caches" not in note] == []  # of a first launch
    spans = prof.df[prof.df["kind"] == "scope"]
    assert {name.split(" [")[0] for name in spans["scope"]} == names
    assert (spans["duration_cycles"] >= 0).all()
    (about,) = prof.metadata["kernels"].values()
    assert about["unpaired"] == 0
