"""What a user says of a kernel's arguments, as Triton's compiler takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from profscope.errors import OptionError

__all__ = ["Signature"]

# As Triton spells the types that go to a kernel as they are.
_TYPE: Final = re.compile(r"\*k?\w+|[iu](1|8|16|32|64)|fp(16|32|64)|bf16")
_DIVISIBLE: Final = 16  # the only hint that changes code, beside a value of 1, which is a constant
_EXAMPLE: Final = '"*fp32:16", "i32", or a value, which is compiled in'


class Signature(NamedTuple):
    """types: by argument, "constexpr" where a value is compiled in; constants: these values; attributes: by
    position, what Triton knows of the argument."""

    types: dict[str, str]
    constants: dict[str, Any]
    attributes: dict[tuple[int], list[list[Any]]]

    @property
    def passed(self) -> list[str]:
        """The arguments that are passed at a launch, in their order."""
        return [name for name, kind in self.types.items() if kind != "constexpr"]

    @staticmethod
    def of(kernel: str, names: Sequence[str], given: Mapping[str, Any]) -> Signature:
        """The signature of a kernel whose arguments have these names.

        given: for each a type as Triton writes it, with ":16" behind it where the value, or the address, is a
        multiple of 16; any other value is compiled in. Raises OptionError naming the argument.
        """
        if not isinstance(given, Mapping):
            raise OptionError(f"signature={given!r} must be a dict: for each argument {_EXAMPLE}")
        if strange := [name for name in given if name not in names]:
            raise OptionError(
                f"signature: {kernel} has no argument {strange[0]!r}; it has {', '.join(names)}"
            )
        if missing := [name for name in names if name not in given]:
            raise OptionError(f"signature: {kernel} needs {', '.join(missing)}, too: {_EXAMPLE}")
        types, constants, attributes = {}, {}, {}
        for position, name in enumerate(names):
            said = given[name]
            types[name], hint = _split(name, said) if isinstance(said, str) else ("constexpr", "")
            if types[name] == "constexpr":
                constants[name] = said
            elif hint == "1":
                types[name], constants[name] = "constexpr", 1
            elif hint:
                attributes[(position,)] = [["tt.divisibility", _DIVISIBLE]]
        return Signature(types, constants, attributes)


def _split(name: str, said: str) -> tuple[str, str]:
    """Type and hint of an argument."""
    kind, _, hint = (part.strip() for part in said.partition(":"))
    if kind.startswith(("tensordesc", "nvTmaDesc")):
        raise OptionError(
            f"signature: {name} is {said!r}: descriptors of the host are made by Triton's own launcher; make "
            "it in the kernel, with tl.make_tensor_descriptor"
        )
    if not _TYPE.fullmatch(kind):
        raise OptionError(f"signature: {name} is {said!r}, no type of Triton's; write {_EXAMPLE}")
    if hint not in ("", "1", str(_DIVISIBLE)):
        raise OptionError(f"signature: {name} is {said!r}; the hints are :{_DIVISIBLE} and :1")
    return kind, hint
