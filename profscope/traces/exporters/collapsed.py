"""`.collapsed`: stacks and their time, a line each, for flamegraph.pl, inferno and speedscope.

matmul_kernel;loop L22;dot (matmul.py:27) 52835
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import PurePath

from profscope.analysis.quantities import printable
from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.flame import Frame, weights

__all__ = ["pieces", "text_of"]


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes; weights are nanoseconds of warp time, or cycles where no times are known."""
    yield text_of(tables).encode("utf-8", "replace")


def text_of(tables: Tables) -> str:
    """The file as text."""
    return "".join(f"{';'.join(map(_text, stack))} {weight}\n" for stack, weight in weights(tables).items())


def _text(frame: Frame) -> str:
    place = f" ({PurePath(frame.file).name}:{frame.line})" if frame.line else ""
    return printable(" ".join(f"{frame.scope}{place}".replace(";", ",").split())) or "?"
