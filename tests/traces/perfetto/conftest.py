"""One trace processor for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processor import Processor


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    nothing = tmp_path_factory.mktemp("perfetto") / "nothing.json"
    nothing.write_text('{"traceEvents":[]}')
    with Processor(nothing) as processor:
        yield processor
