"""A call path as the steps that it is made of."""

import re
from typing import NamedTuple

from instrument_passes.manifest import PATH_SEPARATOR

__all__ = ["Step", "steps_of"]

_STEP = re.compile(r"(?:(?P<function>\w+) )?(?P<file>.+?):(?P<line>\d+)(?::\d+)?", re.DOTALL)


class Step(NamedTuple):
    """A line on the way. file: its path in the last step of a way, in the others its name alone."""

    function: str
    file: str
    line: int

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.line

    def is_in(self, file: str) -> bool:
        return _name(file) == _name(self.file)


def steps_of(file: str, line: int, call_path: str) -> tuple[Step, ...]:
    """The steps to a line, outermost first; the last is the line itself.

    /src/f.py, 9, "kernel f.py:3 > half f.py:9" -> (kernel, f.py, 3), (half, /src/f.py, 9)
    """
    steps = []
    for text in call_path.split(PATH_SEPARATOR) if call_path else []:
        match = _STEP.fullmatch(text)
        if match is None:
            return (Step("", file, line),)
        steps.append(Step(match["function"] or "", match["file"], int(match["line"])))
    own = steps.pop() if steps else Step("", file, line)
    return (*steps, Step(own.function, file, line))


def _name(file: str) -> str:
    return re.split(r"[\\/]", file)[-1]
