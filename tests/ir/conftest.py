import pytest

from instrument_passes.ir import Module, parse
from tests.support.corpus import module_params, printed

each_module = pytest.mark.parametrize(("name", "target"), module_params())


@pytest.fixture
def text(name: str, target: str) -> str:
    return printed(name, target)


@pytest.fixture
def module(text: str, name: str, target: str) -> Module:
    return parse(text, f"{name}.ttgir")
