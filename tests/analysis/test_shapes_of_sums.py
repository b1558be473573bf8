"""How CTAs filled the device, told by launches that kept sums: as those say that kept spans."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from bench.planted import PAIRS
from profscope.analysis.causes.tail import tail
from profscope.analysis.judged import Judged
from profscope.analysis.judging import judged_kernels
from profscope.analysis.launch_shape import LATER_FIGURES, SHAPE_FIGURES, Shape, shape_kept
from profscope.analysis.room import room_on_sm
from profscope.profiles import Profile, load
from profscope.traces.merging import Part, merged
from tests.support.sessions import keeping

PAIR = {pair.name: pair for pair in PAIRS}
NAMES = [
    pytest.param(name, marks=() if name != "idle-sms" else pytest.mark.exhaustive)
    for name in ("tail", "load-imbalance", "idle-sms")
]


@cache
def recorded(name: str, which: str, keep: str) -> Profile:
    pair = PAIR[name]
    launch = (pair.faulty if which == "faulty" else pair.mended)("cpu", True)
    with keeping(keep, instrument=pair.instrument) as prof:
        launch()
    return prof.profile


def of_spans(name: str, which: str) -> Judged:
    (judged,) = judged_kernels(recorded(name, which, "spans").tables)
    assert isinstance(judged, Judged)
    return judged


def of_sums(name: str, which: str) -> Shape:
    judged = of_spans(name, which)
    metadata = recorded(name, which, "sums").metadata
    shape = shape_kept(metadata, judged.kernel, judged.variant, judged.sm_count, judged.room)
    assert shape is not None
    return shape


@pytest.mark.parametrize("name", NAMES)
def test_sums_and_spans_find_the_same(name: str) -> None:
    spans, sums = (recorded(name, "faulty", keep).findings() for keep in ("spans", "sums"))
    (one,), (other,) = (each[each["finding"] == name].to_dict("records") for each in (spans, sums))
    assert other["gain_pct"] == pytest.approx(one["gain_pct"], abs=2)
    assert other["file"] == one["file"]
    assert "(median of 1 launch that kept sums)" in other["evidence"]
    assert not any("tail" in text for text in sums.attrs["not_measured"])
    mended = recorded(name, "mended", "sums").findings()
    assert name not in set(mended["finding"])


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_those_of_spans(name: str) -> None:
    """Sums take fewer cycles to keep."""
    spans, sums = of_spans(name, "faulty").shape, of_sums(name, "faulty")
    assert spans is not None
    assert (sums.ctas, sums.sms, sums.per_sm, sums.slots) == (
        spans.ctas,
        spans.sms,
        spans.per_sm,
        spans.slots,
    )
    for figure in ("mean_cycles", "longest_cycles", "mean_ns", "longest_ns"):
        assert getattr(sums, figure) == pytest.approx(getattr(spans, figure), rel=0.03), figure
    for figure in ("imbalance_pct", "tail_pct"):
        off = abs(getattr(sums, figure) - getattr(spans, figure))
        assert off <= 1 + sums.error_pct, figure


def test_a_few_more_ctas_than_sms_are_no_tail_where_all_run_at_once() -> None:
    """17 CTAs on the emulator's 16 SMs, where each has room for 32 and none slows another down."""
    kernel = PAIR["tail"].faulty.__globals__["waves_kernel"]
    x, out, found = torch.ones(64), torch.empty(17 * 64), []
    for keep in ("spans", "sums"):
        with keeping(keep) as prof:
            kernel[(17,)](x, out, 200, BLOCK=64, num_warps=2)
        assert "tail" not in set(prof.findings()["finding"])
        (variant,) = prof.metadata["variants"]["waves_kernel"]
        room = room_on_sm(prof.metadata, "waves_kernel", variant["variant"])
        found.append((room, room_on_sm(prof.metadata | {"device": None}, "waves_kernel", 0)))
        shape = shape_kept(prof.metadata, "waves_kernel", 0, 16, room)
    assert found == [(32, 0)] * 2
    assert shape is not None
    assert (shape.slots, shape.at_once, shape.tail_pct < 5) == (512, True, True)


def test_an_older_profile_says_that_the_room_is_not_known() -> None:
    profile = recorded("tail", "faulty", "sums")
    (name,) = profile.metadata["kernels"]
    about = profile.metadata["kernels"][name]
    older = [{key: each[key] for key in ("variant", *SHAPE_FIGURES)} for each in about["shapes"]]
    metadata = profile.metadata | {"kernels": {name: about | {"shapes": older}}}
    findings = Profile.of(replace(profile.tables, metadata=metadata)).findings()
    (evidence,) = findings.loc[findings["finding"] == "tail", "evidence"]
    assert "what an SM has room for is not known" in evidence
    assert "not known" not in profile.findings().set_index("finding").loc["tail", "evidence"]


def test_spans_of_some_ctas_are_judged_with_what_sums_tell() -> None:
    """As `profscope run` keeps them: sums of all launches, and spans of a few CTAs now and then."""
    spans, sums = (recorded("tail", "faulty", keep) for keep in ("spans", "sums"))
    part = spans.tables.launches.assign(ctas=8)
    few = spans.tables.df[spans.tables.df["cta"] < 8]
    alone = Profile.of(replace(spans.tables, df=few, launches=part))
    assert "tail" not in set(alone.findings()["finding"])
    told = Profile.of(replace(alone.tables, metadata=spans.metadata | {"kernels": sums.metadata["kernels"]}))
    assert "tail" in set(told.findings()["finding"])


def test_what_steps_of_the_timer_hide_is_no_finding() -> None:
    shape = of_sums("tail", "faulty")
    assert [each.gain_pct for each in tail(shape, 16, ("", 0))] == [pytest.approx(44, abs=1)]  # type: ignore[union-attr]
    (coarse,) = tail(replace(shape, error_pct=50.0), 16, ("", 0))
    assert str(coarse).startswith("NotMeasured(text=\"tail: a step of the GPU's timer is 25 % of a launch")
    full = replace(shape, waves=1.0, tail_pct=0.0, error_pct=50.0)
    assert list(tail(full, 16, ("", 0))) == []


def test_not_all_ctas_tell_nothing() -> None:
    with keeping("sums", ctas=4) as prof:
        PAIR["tail"].faulty("cpu", True)()
    assert [about["shapes"] for about in prof.metadata["kernels"].values()] == [[]]
    assert any("tail" in text for text in prof.findings().attrs["not_measured"])


def test_it_is_kept_in_files_parts_and_wholes(tmp_path: object) -> None:
    profile = recorded("tail", "faulty", "sums")
    (kernel,) = profile.metadata["kernels"]
    (known,) = profile.metadata["kernels"][kernel]["shapes"]
    assert set(known) == {"variant", *SHAPE_FIGURES, *LATER_FIGURES}
    profile.save(f"{tmp_path}/sums.pftrace")
    assert load(f"{tmp_path}/sums.pftrace").metadata["kernels"][kernel]["shapes"] == [known]
    more = {**profile.metadata["kernels"][kernel], "shapes": [known | {"launches": 5, "ctas": 99.0}]}
    other = replace(profile.tables, metadata=profile.metadata | {"kernels": {kernel: more}})
    whole = merged([Part(profile.tables, "a", 0), Part(other, "b", 1)])
    assert [each["ctas"] for each in whole.metadata["kernels"][kernel]["shapes"]] == [99.0]
