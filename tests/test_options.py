"""Options: what is taken, what is refused, and what makes another binary."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import profscope
from profscope.errors import OptionError
from profscope.instrument_passes import LEVELS
from profscope.options import Options


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_and_its_passes_written_out_are_the_same_pipeline(level: str) -> None:
    assert Options(instrument=level).pipeline == Options(instrument=[LEVELS[level]]).pipeline


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernels": "("}, "kernels='('"),
        ({"kernels": b"x"}, "a regular expression as a str"),
        ({"instrument": "everything"}, "light, default, heavy"),
        ({"instrument": []}, "a level (light, default, heavy) or a list of passes"),
        ({"instrument": b"light"}, "a level (light, default, heavy) or a list of passes"),
        ({"instrument": ["no-such-pass"]}, "no-such-pass"),
        ({"instrument": ["op-spans{classes=lood}"]}, "lood"),
        ({"ctas": np.array([0, 1])}, "a list of numbers below 2147483648; the .tolist() of an array is one"),
        ({"ctas": b"01"}, "a stride or a list"),
        ({"backend": np.array([0, 1])}, "auto, gpu, emulator"),
        ({"spool": ""}, "the path of a folder; '.' is the current one"),
        ({"spool": "a\0b"}, "the path of a folder"),
        ({"spool": 3}, "the path of a folder"),
        ({"evidence": 3}, "{'seconds': S} or a list of counts, samples, counters, records, experiments"),
        ({"evidence": []}, "evidence=[] must be True"),
        ({"evidence": ["counts", "count"]}, "evidence=['counts', 'count']: 'count' is not one of counts,"),
        ({"evidence": ["counters:"]}, "counters:METRIC"),
        ({"evidence": ["seconds:5", "seconds:6"]}, "evidence=['seconds:5', 'seconds:6'] must be True"),
        ({"evidence": ["counts", "seconds:soon"]}, "evidence='seconds:soon': S of seconds:S is more than 0"),
        ({"evidence": {"seconds": 0}}, "evidence={'seconds': 0} must be {'seconds': S}, S more than 0"),
        ({"evidence": {"seconds": True}}, "must be {'seconds': S}"),
        ({"evidence": {"seconds": float("nan")}}, "must be {'seconds': S}"),
    ],
)
def test_a_wrong_option_is_named_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        profscope.session(**options)
    assert said in str(caught.value)
    assert next(iter(options)) + "=" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("kernel", "did you mean kernels=?"),
        ("memor", "did you mean memory=?"),
        ("colour", "the options are kernels, instrument, measure, "),
        ("pipeline", "the options are kernels, "),  # a field of Options that nobody gives
    ],
)
def test_an_unknown_option_is_named_with_the_closest(name: str, mend: str) -> None:
    with pytest.raises(OptionError) as caught:
        profscope.session(**{"every": 2, name: "x"})
    assert str(caught.value).startswith(f"no option {name!r}; {mend}")


@pytest.mark.parametrize(
    ("evidence", "asked"),
    [
        (False, ((), (), 5.0)),
        (True, (("counts", "samples", "counters"), (), 5.0)),
        (["samples", "counts"], (("counts", "samples"), (), 5.0)),
        (["counters:a.sum", "counters:b.max"], (("counters",), ("a.sum", "b.max"), 5.0)),
        (["experiments", "records", "samples"], (("samples", "records", "experiments"), (), 5.0)),
        (["experiments", "seconds:20"], (("experiments",), (), 20.0)),
        (["seconds:20"], (("counts", "samples", "counters"), (), 20.0)),
        ({"seconds": 1}, (("counts", "samples", "counters"), (), 1.0)),
    ],
)
def test_what_evidence_asks_for(evidence: Any, asked: Any) -> None:
    options = Options(evidence=evidence)
    assert options.evidence_asked == asked
    assert json.loads(json.dumps(options.described()))["evidence"] == evidence


def test_options_have_names() -> None:
    with pytest.raises(OptionError, match=r"^options are given by name, such as instrument='heavy'$"):
        profscope.session("heavy", 64)  # type: ignore[misc]


def test_kernels_matches_anywhere_in_the_name() -> None:
    assert Options(kernels="soft").matches("fused_softmax_kernel")
    assert not Options(kernels="^soft").matches("fused_softmax_kernel")
    assert Options().matches("anything")


def test_the_digest_tells_binaries_apart_and_nothing_else() -> None:
    base = Options()
    assert base.digest("1") == Options(backend="emulator").digest("1")
    others = [
        Options(kernels="a").digest("1"),
        Options(instrument="heavy").digest("1"),
        Options(instrument=["kernel-span"]).digest("1"),
        base.digest("2"),
    ]
    assert len({base.digest("1"), *others}) == 1 + len(others)
