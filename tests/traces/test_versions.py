"""Files of other versions of our formats: one error, which names both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

import profscope
from profscope.errors import TraceError
from profscope.store.chunks import MAGIC, VERSION
from profscope.traces import profscope_object
from profscope.traces.profscope_object import SCHEMA
from profscope.version import __version__
from tests.support.profiles import regular_profile
from tests.support.sessions import launch_add, session


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
def test_a_trace_of_another_schema(schema: int, tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profscope_object, "SCHEMA", schema)
        regular_profile(launches=1, ctas=1, warps=1, iterations=1).save(path)
    with pytest.raises(TraceError) as caught:
        profscope.load(path)
    assert f"has trace schema {schema}, written by profscope {__version__}; " in str(caught.value)
    assert str(caught.value).endswith(f"this is profscope {__version__}, which reads schema {SCHEMA}")


def test_a_spool_of_another_version(tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        launch_add()
    assert prof.spool is not None
    content = prof.spool.read_bytes()
    version = VERSION - 1
    other = MAGIC[:-1] + str(version).encode()
    prof.spool.write_bytes(content.replace(MAGIC, other))
    with pytest.raises(TraceError) as caught:
        profscope.load(prof.spool)
    assert f"is a spool of version {version}; " in str(caught.value)
    assert str(caught.value).endswith(f"which reads version {VERSION}")
