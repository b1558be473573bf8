"""A binary that keeps sums and stores the spans that they are made of: the two are equal."""

from __future__ import annotations

import pytest
import torch

from bench import both, kernels
from profscope import emulator


@pytest.mark.exhaustive
def test_sums_and_spans_of_one_binary_are_equal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with emulator.activate():
        each = both.told(kernels.add(2048), samples=0, rounds=1, device="cpu")
    assert (each.spans, each.off) == (2 * 4 * 4, 0)  # CTAs, warps, and spans of a warp
    assert list(each.shares) == ["spans", "sums", "both"]
    assert all(abs(each.shares[name].sum() - 100) < 1e-6 for name in each.shares)
    text = both.shown(each, 2)
    assert f"the third binary's {each.spans} spans and its sums: 0 cycles apart at most" in text
    monkeypatch.setattr(both, "told", lambda *args: (_ for _ in ()).throw(ValueError("as it happens")))
    monkeypatch.setattr(kernels, "give_scratch", lambda device: None)
    assert both.main(["--dry-run", "--rows", "softmax"]) == 1
    assert "ValueError: as it happens" in capsys.readouterr().out


def test_what_is_stored_is_counted_by_site() -> None:
    """Two spans of site 1 and one of site 2, of 7, 8 and 300 cycles."""
    words = torch.tensor([[[5, (1 << 24) + 7], [6, (2 << 24) + 300]], [[9, (1 << 24) + 8], [0, 0]]])
    account = both.Account(words.to(torch.int32), {("a", "op", 3): 1, ("b", "op", 4): 2})
    rows = account.cycles()[["scope", "count", "cycles"]].to_dict("records")
    assert rows == [{"scope": "a", "count": 2, "cycles": 15}, {"scope": "b", "count": 1, "cycles": 300}]
