"""Files of other versions of our formats: one error, which names both versions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import profscope
from profscope.errors import TraceError
from profscope.store.chunks import MAGIC, VERSION, version_of
from profscope.traces import profscope_object
from profscope.traces.profscope_object import SCHEMA
from profscope.version import __version__
from tests.support.profiles import regular_profile
from tests.support.sessions import launch_add, session


@pytest.mark.parametrize("schema", [1, SCHEMA - 1, SCHEMA + 1])
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace", ".parquet"])
def test_a_trace_of_another_schema(schema: int, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profscope_object, "SCHEMA", schema)
        regular_profile(launches=1, ctas=1, warps=1, iterations=1).save(path)
    with pytest.raises(TraceError) as caught:
        profscope.load(path)
    assert f"has trace schema {schema}, written by profscope {__version__}; " in str(caught.value)
    assert str(caught.value).endswith(f"this is profscope {__version__}, which reads schema {SCHEMA}")


@pytest.mark.parametrize("version", [1, VERSION - 1, VERSION + 1])
def test_a_spool_of_another_version(version: int, tmp_path: Path) -> None:
    with session(spool=tmp_path) as prof:
        launch_add()
    assert prof.spool is not None
    content = prof.spool.read_bytes()
    other = MAGIC[:-1] + str(version).encode()
    prof.spool.write_bytes(content.replace(MAGIC, other))
    with pytest.raises(TraceError) as caught:
        profscope.load(prof.spool)
    assert f"is a spool of version {version}; " in str(caught.value)
    assert str(caught.value).endswith(f"which reads version {VERSION}")


def test_the_version_of_a_spool_is_in_its_first_bytes() -> None:
    assert version_of(MAGIC + b"session") == VERSION
    assert version_of(b"PSspool") is None
    assert version_of(b"PSspoolx") is None
    assert version_of(gzip.compress(json.dumps({}).encode())) is None
