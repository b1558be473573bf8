"""All tests share one Triton cache, and every test must leave Triton as it found it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Final

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns where it is left open

import hypothesis
import pytest
import torch
import triton

from profscope.experiments.builds import Builds
from profscope.instrument_passes.toolchain import triton_version
from tests.support.examples import THOROUGH
from tests.support.forks import Forks
from tests.support.other_tritons import depends_on_triton, exhaustive_depends_on_triton
from tests.support.processor import Processor
from tests.support.triton_globals import triton_globals

# A deadline would make a busy machine fail a right program. Each run tries other examples, so a quarter of
# the usual number does; tests of the decoder, where cases are many and cheap, ask for more. `make test` tries
# fewer of all (tests/support/examples.py). What decides whether a change goes in (.ci/run) tries the same
# ones each time.
for profile, most in (("quick", 5), (THOROUGH, 25)):
    hypothesis.settings.register_profile(
        profile, deadline=None, print_blob=True, max_examples=most, derandomize="CI" in os.environ
    )
hypothesis.settings.load_profile("quick")


_KEPT_CACHE: Final = Path(__file__).parents[1] / "build" / "triton-cache"
_WEEK_S: Final = 7 * 24 * 3600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--expect-triton",
        metavar="X.Y.Z",
        help="run what depends on the version of Triton; stop unless this one is imported",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A background job of a shell ignores Ctrl-C, and what nohup starts SIGHUP; so would the programs that
    # tests start and send these.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for entry in _KEPT_CACHE.glob("*"):
            if entry.stat().st_mtime < time.time() - _WEEK_S:  # of sources that may be no more
                shutil.rmtree(entry, ignore_errors=True)
    # Python looks for garbage whenever some hundred objects are new, which takes another tenth.
    gc.set_threshold(200_000, 20, 20)
    expected = config.getoption("--expect-triton")
    if expected and triton.__version__ != expected:
        raise pytest.UsageError(
            f"expected Triton {expected}, imported {triton.__version__} ({triton.__file__})"
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--expect-triton") and collection_path.match("test_*.py"):
        return not depends_on_triton(collection_path, triton_version()) or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--expect-triton"):
        left_out = {
            item
            for item in items
            if item.get_closest_marker("exhaustive")
            and not exhaustive_depends_on_triton(item.path, triton_version())
        }
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Torch, Triton and thousands of tests stay: looking for garbage in them takes a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def what_earlier_modules_left_is_not_looked_through() -> None:
    """Neither for garbage nor, by the emulator, for tensors: both take longer with each module."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Else some extension modules complain at the exit that their objects are still there."""
    gc.unfreeze()


def pytest_report_header() -> str:
    return f"triton {triton.__version__}, torch {torch.__version__}, GPU: {torch.cuda.is_available()}"


@pytest.fixture(scope="session", autouse=True)
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Triton's cache folder: kept between runs, but not in `.ci/run`, where each run compiles anew.

    Its keys have the sources of the passes and of the kernels, so that nothing that others have compiled is
    found; each Triton has a folder of its own. Processes that share a run (pytest -n) share it.
    """
    base = tmp_path_factory.getbasetemp()
    if "CI" in os.environ:
        folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "triton-cache"
    else:
        folder = _KEPT_CACHE / triton.__version__
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Processes of their own for programs that need torch and Triton."""
    started = Forks()
    yield started
    started.close()


@pytest.fixture(scope="session")
def building() -> Iterator[Builds]:
    """Processes that build edited kernels: each takes a second to start."""
    with Builds().open() as builds:
        yield builds


@pytest.fixture
def builds_are_shared(building: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and `explain` start no such processes of their own."""
    shared = SimpleNamespace(open=lambda: nullcontext(building))
    for module in ("dispatch.experimenting", "tuning.search"):
        monkeypatch.setattr(f"profscope.{module}.Builds", lambda: shared)


@pytest.fixture(scope="session")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    """Perfetto's trace processor: it takes a second to start, and forgets a trace when it loads another."""
    nothing = tmp_path_factory.mktemp("perfetto") / "nothing.json"
    nothing.write_text('{"traceEvents":[]}')
    with Processor(nothing) as started:
        yield started


@pytest.fixture(autouse=True)
def triton_is_left_as_found() -> Iterator[None]:
    before = triton_globals()
    yield
    assert triton_globals() == before
