"""Hints that name options as Python does, in words of a command line."""

from __future__ import annotations

import argparse
import shlex

import pytest

from profscope.commands.run import add_flags, option_names
from profscope.options import Options
from profscope.viewer.flags import in_flags
from tests.support.option_examples import example


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("session(evidence=True) takes some", "`profscope run --evidence true` takes some"),
        ("session(instrument='heavy'), which", "`profscope run --instrument heavy`, which"),
        ("with wait=True launches wait", "with --wait launches wait"),
        ("of 32 CTAs (ctas=64), of 2 (ctas=0.5)", "of 32 CTAs (--ctas 64), of 2 (--ctas 0.5)"),
        ("also with every=n; collectives() needs none", "also with --every n; collectives() needs none"),
        ("ctas= names none of the 4 CTAs", "--ctas names none of the 4 CTAs"),
        ("pass `vary=` to try; limit_s=3", "pass `--vary` to try; --limit-s 3"),
        ("evidence=['counts', 'samples'].", "--evidence counts,samples."),
        # What has no flag, and what is no option.
        (
            "session(baseline=); a larger memory= holds more",
            "session(baseline=); a larger memory= holds more",
        ),
        ("num_warps=4, my.ctas=3, a-every=2, --ctas=64", "num_warps=4, my.ctas=3, a-every=2, --ctas=64"),
    ],
)
def test_options_become_flags(text: str, shown: str) -> None:
    assert in_flags(text) == shown


@pytest.mark.parametrize("name", option_names())
def test_what_an_option_becomes_can_be_given(name: str) -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser.add_argument_group())
    given = vars(parser.parse_args(shlex.split(in_flags(f"{name}={example(name)!r}"))))
    assert Options(**given) == Options(**{name: example(name)}) or name == "instrument"
    assert Options(**given).pipeline == Options(**{name: example(name)}).pipeline
