import pytest

from profscope.instrument_passes.ir import Module, parse
from tests.support.corpus import printed


@pytest.fixture
def text(name: str, target: str) -> str:
    return printed(name, target)


@pytest.fixture
def module(text: str, name: str, target: str) -> Module:
    return parse(text, f"{name}.ttgir")
