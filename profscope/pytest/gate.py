"""`with kernel_gate(fail_above="5%"):`: one block of a test, measured and compared with its baseline."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from profscope.analysis.texts import percentage
from profscope.errors import DiffError, ProfscopeError
from profscope.profiles import Profile, diff, load
from profscope.pytest.measuring import watching
from profscope.traces.baselines import baseline_path

__all__ = ["KernelGate"]

_UPDATE: Final = "--update-kernel-baselines"
_SCREEN_LINES: Final = 24
_ROWS: Final = 5  # of each kernel
_WIDTH: Final = 100


class KernelGate:
    """The gate of one test. Its blocks have a baseline each, named by the test's id and their order."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        # The node's own id has the group behind it that xdist puts a test into.
        self._test = f"{request.node.parent.nodeid}::{request.node.name}"
        self._folder = request.config.rootpath / request.config.getoption("--kernel-baseline")
        self._blocks = 0

    @contextlib.contextmanager
    def __call__(self, *, fail_above: float | str, backend: str = "auto") -> Iterator[None]:
        """Fail the test if a kernel launched in the body is more than `fail_above` percent slower.

        After the body one launch of each configuration and grid is repeated, with the arguments that it had;
        in the end their memory is as the body left it. backend: as of a session.
        """
        bound = percentage(fail_above)
        self._blocks += 1
        path = Path(os.path.relpath(baseline_path(self._folder, _file_name(self._test, self._blocks))))
        with watching(backend) as launches:
            yield
            with _failing():
                profile = launches.profile(backend, bound)
        with _failing():
            self._judge(profile, path, bound)

    def _judge(self, profile: Profile, path: Path, bound: float) -> None:
        """Raises what pytest takes for a failure."""
        emulated = " (emulated cycles, no GPU time)" * profile.tables.emulated
        if self._request.config.getoption(_UPDATE):
            if unclear := diff(profile, profile).too_noisy(bound):
                _fail("the baseline is not written", unclear)
            path.parent.mkdir(parents=True, exist_ok=True)
            profile.save(path)
            self._say(f"baseline written{emulated}: {path}")
            return
        if not path.exists():
            _fail(
                f"there is no baseline at {path}",
                [f"pytest {_UPDATE} writes it: run that on code that is fast enough, and commit the file"],
            )
        baseline = load(path)
        reasons = _mismatches(baseline.metadata, profile.metadata)
        try:
            difference = diff(baseline, profile)
        except DiffError as error:
            _fail(f"no verdict against {path}", [*reasons, str(error)])
        reasons += [*difference.failed(bound), *difference.too_noisy(bound)]
        if reasons:
            _fail(f"against {path}{emulated}", [*reasons, "", *self._shown(baseline, profile, path, bound)])
        for line in [*difference.launches, *(f"not judged: {each}" for each in difference.not_judged)]:
            self._say(f"{line}{emulated}; the bound is {bound:g}%")

    def _say(self, text: str) -> None:
        """In pytest's summary, and a property in JUnit's XML; xdist's workers send it to the main process."""
        self._request.node.user_properties.append(("kernel_gate", text))

    def _shown(self, baseline: Profile, profile: Profile, path: Path, bound: float) -> list[str]:
        """The first screen of `profscope diff`, the findings that the baseline lacks, and how to see all."""
        from profscope.viewer.comparison import compare, render
        from profscope.viewer.diff_command import make_parser

        folder = self._request.getfixturevalue("tmp_path_factory").mktemp("kernel_gate")
        new = folder / "now.pftrace.gz"
        profile.save(new)
        words = [str(path), str(new), "--fail-above", f"{bound:g}%"]
        options = make_parser().parse_args([*words, "--top", str(_ROWS)])
        screen = [line.plain for line in render(compare(options), _WIDTH)]
        found, known = profile.findings(), baseline.findings()
        old = {*zip(known["kernel"], known["finding"], strict=True)}
        is_new = [each not in old for each in zip(found["kernel"], found["finding"], strict=True)]
        appeared = found[is_new]
        told = ["Findings that appeared:", repr(appeared)] if len(appeared) else ["No finding appeared."]
        return [
            *screen[:_SCREEN_LINES], "", *told, "", f"All of it: profscope diff {shlex.join(words)}",
            f"If the change is meant: pytest {_UPDATE}",
        ]  # fmt: skip


def _mismatches(baseline: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Why times do not compare: other machines, other compilers."""
    gpus = [(each.get("device") or {}).get("name") or "an unknown GPU" for each in (baseline, now)]
    tritons = [each.get("triton") or "of unknown version" for each in (baseline, now)]
    reasons = []
    if gpus[0] != gpus[1]:
        reasons.append(
            f"the baseline is of {gpus[0]}, this is {gpus[1]}: keep a folder for each (--kernel-baseline DIR)"
        )
    if tritons[0] != tritons[1]:
        reasons.append(f"Triton {tritons[0]} built the baseline's kernels, Triton {tritons[1]} these")
    return reasons


def _file_name(test: str, block: int) -> str:
    """Of any characters a name that each file system takes; the digest tells apart what then reads alike."""
    readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", test)[-80:].strip("_.-")
    digest = hashlib.sha256(test.encode(errors="backslashreplace")).hexdigest()[:8]
    return f"{readable}-{digest}" + (f"-{block}" if block > 1 else "")


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Errors of profscope fail the test in a line, without a traceback."""
    try:
        yield
        return
    except ProfscopeError as error:
        said = str(error)
    _fail(said, [])


def _fail(said: str, reasons: list[str]) -> NoReturn:
    pytest.fail("\n".join([f"kernel_gate: {said}", *reasons]), pytrace=False)
