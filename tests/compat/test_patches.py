"""Patches beside other tools' patches: set within, taken out within, wrapped before."""

import contextlib
import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from profscope.compat.patches import Door, after_import, patched, patched_property


class Base:
    def call(self) -> list[str]:
        return ["plain"]

    @property
    def run(self) -> str:
        return "plain"


@pytest.fixture
def owner() -> type[Base]:
    class Owner(Base):
        def call(self) -> list[str]:
            return super().call()

        @property
        def run(self) -> str:
            return "plain"

    return Owner


def adding(name: str) -> Any:
    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def wrapped(self: Any) -> Any:
            return [*original(self), name]

        return wrapped

    return wrap


def test_a_patch_is_gone_when_it_ends(owner: type[Base]) -> None:
    original = vars(owner)["call"]
    with contextlib.suppress(KeyError), patched(owner, "call", adding("ours")):
        assert owner().call() == ["plain", "ours"]
        raise KeyError
    assert vars(owner)["call"] is original


def test_an_inherited_method_is_inherited_again() -> None:
    class Heir(Base):
        pass

    with patched(Heir, "call", adding("ours")):
        assert Heir().call() == ["plain", "ours"]
    assert "call" not in vars(Heir)


def test_anothers_patch_set_within_stays(owner: Any) -> None:
    with patched(owner, "call", adding("ours")):
        owner.call = adding("theirs")(owner.call)
        assert owner().call() == ["plain", "ours", "theirs"]
    assert owner().call() == ["plain", "theirs"]


def test_anothers_patch_taken_out_within_stays_out(owner: Any) -> None:
    plain = owner.call
    owner.call = adding("theirs")(plain)
    with patched(owner, "call", adding("ours")):
        owner.call = plain  # they put back what they had found, over ours
    assert owner().call() == ["plain"]


def test_anothers_wrapper_from_before_is_called_once(owner: Any) -> None:
    owner.call = adding("theirs")(owner.call)
    with patched(owner, "call", adding("ours")):
        assert owner().call() == ["plain", "theirs", "ours"]
    assert owner().call() == ["plain", "theirs"]


def test_patches_may_end_in_any_order(owner: type[Base]) -> None:
    first, second = patched(owner, "call", adding("first")), patched(owner, "call", adding("second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert owner().call() == ["plain", "second"]
    second.__exit__(None, None, None)
    assert owner().call() == ["plain"]


def test_a_patched_property_gives_way_to_an_objects_own_attribute(owner: type[Base]) -> None:
    original = vars(owner)["run"]
    with patched_property(owner, "run", lambda instance: "ours"):
        one, other = owner(), owner()
        vars(one)["run"] = "its own"
        assert (one.run, other.run) == ("its own", "ours")
    assert vars(owner)["run"] is original


def test_a_patched_property_under_anothers_is_inert_at_its_end(owner: Any) -> None:
    with patched_property(owner, "run", lambda instance: "ours"):
        gate = vars(owner)["run"]
        owner.run = property(lambda self: gate.__get__(self) + " and theirs")
        assert owner().run == "ours and theirs"
    assert owner().run == "plain and theirs"


def test_what_an_object_is_launched_with_tells_the_object() -> None:
    class Kernel:
        def run(self, *args: int) -> int:
            return sum(args)

    kernel, untouched = Kernel(), Kernel()
    opened = {kernel: lambda *args: -sum(args)}
    with Door(Kernel, "run", lambda launched, plain: opened.get(launched, plain)).installed():
        assert (kernel.run(1, 2), untouched.run(1, 2)) == (-3, 3)
        # torch.compile's timing of templates sets an attribute of `run.__self__`.
        assert kernel.run.__self__ is kernel
        assert untouched.run.__self__ is untouched
    assert kernel.run(1, 2) == 3


def test_a_shut_door_leaves_objects_what_they_have() -> None:
    class Kernel:
        def run(self, *args: int) -> int:
            return sum(args)

    door = Door(Kernel, "run", lambda launched, plain: lambda *args: -plain(*args))
    known, fixed, new = Kernel(), Kernel(), Kernel()
    with door.installed():
        door.set(fixed, lambda *args: 100)
        assert (known.run(1, 2), fixed.run(1)) == (-3, 100)
        door.shut(is_shut=True)
        assert (known.run(1, 2), fixed.run(1)) == (3, 100)
        assert [new.run(1), new.run(1)] == [-1, 1]  # once by the door
        door.shut(is_shut=False)
        assert (known.run(1, 2), new.run(1)) == (-3, -1)
        door.shut(is_shut=True)
    assert (known.run(1, 2), fixed.run(1), new.run(1)) == (3, 1, 1)
    assert not vars(known) | vars(fixed) | vars(new)
    with door.installed():
        assert known.run(1, 2) == -3


def test_a_shut_door_under_another_tools_patch() -> None:
    class Kernel:
        def run(self, *args: int) -> int:
            return sum(args)

    door, kernel = Door(Kernel, "run", lambda launched, plain: lambda *args: -plain(*args)), Kernel()
    with door.installed(), patched(Kernel, "run", lambda run: lambda self, *args: 10 * run(self, *args)):
        assert kernel.run(2) == -20
        door.shut(is_shut=True)
        assert kernel.run(2) == 20
        door.shut(is_shut=False)
        assert kernel.run(2) == -20


def test_a_module_that_is_imported_within_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Inductor, which a program may import while a session is open."""
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    seen: list[str] = []
    for name in ("imported_within", "imported_later"):
        (tmp_path / f"{name}.py").write_text("here = True\n")
        with after_import(name, lambda module: seen.append(f"{module.__name__} {module.here}")):
            if name == "imported_within":
                importlib.import_module(name)
        assert sys.meta_path == finders
        importlib.import_module(name)
    with after_import("imported_later", lambda module: seen.append("it is there already")):
        pass
    assert seen == ["imported_within True", "it is there already"]
