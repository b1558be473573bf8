"""One launch of each configuration counts what it executes, in place of a bare one: no permission is needed.

The PTX of the bare binary gets code that counts (`evidence.counting_ptx`), ptxas assembles it, and Triton's
launcher of the bare kernel launches it. Nothing waits for that launch; its counts are read when they are
asked for.

To load a kernel may wait for all that runs on the GPU. If one of the program's kernels may itself wait for
another one, kernels are loaded only while nothing runs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from profscope.binaries.rows import instructions_of, reached_blocks
from profscope.binaries.spinning import may_wait
from profscope.compat.edited import assembly_of
from profscope.compat.kernels import load
from profscope.device import cuda_driver
from profscope.dispatch.configurations import Binary
from profscope.errors import CompileError, ToolchainError
from profscope.evidence.counted_words import counts_of
from profscope.evidence.counting_ptx import COPIES, WORDS, CountingPtx, counting_ptx
from profscope.evidence.cupti import SamplerError
from profscope.evidence.driver import Driver
from profscope.evidence.observer import WaitBudget
from profscope.evidence.subject import CountedLaunch, Subject
from profscope.threads import WorkerPool

__all__ = ["OwnCounts", "stride"]

_BUILDERS: Final = 2
_CTAS: Final = 64
"""About so many count: enough for 2 % where CTAs differ by a sixth."""
_READ_LIMIT_S: Final = 5.0
_IDLE_LIMIT_S: Final = 0.1
_STREAM, _FUNCTION, _ABOUT = 3, 4, 6  # among the arguments of Triton's launchers


class LoadedKernel:
    """A counting kernel in the GPU's memory, in the current context. function: its handle, for launchers.
    Raises RuntimeError with what the driver says, as its methods do.

    shared_bytes: of a CTA. words: of one copy of the counts.
    """

    def __init__(self, cubin: bytes, name: str, shared_bytes: int, words: int) -> None:
        self._words = np.zeros(COPIES * words, np.uint64)
        self._module = cuda_driver.load_module(cubin)
        self.function = cuda_driver.function_of(self._module, name, shared_bytes).value or 0

    def words(self) -> NDArray[np.uint64]:
        """The counts of the launches so far, which have ended."""
        cuda_driver.read_variable(self._module, WORDS, self._words)
        return self._words

    def unload(self) -> None:
        """Give its memory back. Not while it runs."""
        cuda_driver.unload_module(self._module)


@dataclass(eq=False)
class _Counting:
    """A configuration's counting kernel. scale: all CTAs of the launch by those that count. why: there are no
    counts, and this is the reason. loaded: until it has been read; launched: it may be."""

    subject: Subject
    code: CountingPtx
    scale: float
    built: Future[bytes]
    why: str = ""
    loaded: LoadedKernel | None = None
    launched: bool = False
    context: int = 0
    result: CountedLaunch | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        return bool(self.why) or self.loaded is not None or self.result is not None


class OwnCounts:
    """budget: once it is spent, kernels are built while the program goes on. Thread-safe."""

    def __init__(self, driver: Driver, budget: WaitBudget) -> None:
        self._driver = driver
        self._budget = budget
        self._pool = WorkerPool(_BUILDERS, "profscope-counting")
        self._counting: dict[Subject, _Counting] = {}
        self._loading, self._reading = threading.Lock(), threading.Lock()
        self._may_wait = False  # a kernel for another one

    def is_done(self, subject: Subject) -> bool:
        """Whether no launch of the subject is needed any more."""
        known = self._counting.get(subject)
        return known is not None and known.is_over

    def launch(self, subject: Subject, bare: Binary, arguments: tuple[Any, ...]) -> bool:
        """Launch the counting kernel with the arguments of Triton's launchers; False if that cannot be, or
        not yet, and then nothing was launched. Raises what the launch does."""
        with self._budget.waiting():
            known = self._prepared(subject, bare, arguments)
        if known is None:
            return False
        assert known.loaded is not None
        before, about, others = arguments[:_FUNCTION], arguments[_ABOUT], arguments[_ABOUT + 1 :]
        if about is not None:
            about.data["function"] = bare.kernel.function
        try:
            launcher = load(bare.kernel)
            launcher(*before, known.loaded.function, bare.kernel.packed_metadata, about, *others)
        finally:
            known.launched = True
        return True

    def results(self) -> list[CountedLaunch]:
        """Of the launches that have ended."""
        every = list(self._counting.values())
        with self._reading:
            for each in every:
                if each.launched and each.loaded is not None:
                    self._read(each, each.loaded)
        return [each.result for each in every if each.result is not None]

    @property
    def launches(self) -> list[Subject]:
        """Those of which one launch has counted."""
        return [subject for subject, each in list(self._counting.items()) if each.launched]

    def notes(self) -> Iterator[str]:
        """Why there are no counts of a kernel."""
        for each in list(self._counting.values()):
            if each.why:
                yield f"{each.subject.kernel}: it could not count by itself: {each.why}"

    def close(self) -> None:
        """Give the memory of all kernels back, but of those that still run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.results()
        for each in self._counting.values():
            if each.loaded is not None:
                each.why, each.loaded = f"its launch did not end within {_READ_LIMIT_S:g} s", None

    def _prepared(self, subject: Subject, bare: Binary, arguments: tuple[Any, ...]) -> _Counting | None:
        """A kernel that has just been loaded, for one launch; None if there is none, or not yet."""
        grid = arguments[:_STREAM]
        if not all(grid):
            return None
        with self._loading:
            known = self._counting.get(subject) or self._begin(subject, bare, grid)
        if known.is_over:
            return None
        try:
            cubin = known.built.result(self._budget.left_s)
            with self._loading:
                if known.is_over or not self._may_load(arguments[_STREAM]):
                    return None
                known.context = self._driver.context()
                known.loaded = LoadedKernel(
                    cubin, subject.function, int(bare.kernel.metadata.shared), known.code.words
                )
        except (LateError, CancelledError):
            return None
        except (SamplerError, RuntimeError) as error:
            known.why = str(error)
            return None
        return known

    def _may_load(self, stream: int) -> bool:
        if self._driver.capturing(stream):
            return False
        return not self._may_wait or self._driver.idle(min(_IDLE_LIMIT_S, self._budget.left_s))

    def _begin(self, subject: Subject, bare: Binary, grid: tuple[int, ...]) -> _Counting:
        self._may_wait |= may_wait(subject.ptx)
        x, y, z = grid
        x *= bare.kernel.metadata.num_ctas
        every = stride(x, y, z)
        code = counting_ptx(subject.ptx, every)
        try:
            built = self._pool.submit(assembly_of(bare.kernel).cubin, code.text)
        except CompileError as error:
            built = Future()
            built.set_exception(error)
        ctas = x * y * z
        self._counting[subject] = known = _Counting(subject, code, ctas / -(-ctas // every), built)
        return known

    def _read(self, each: _Counting, loaded: LoadedKernel) -> None:
        """Keep what a kernel has counted, and unload it."""
        subject = each.subject
        try:
            with self._driver.entered(each.context):
                if not self._driver.idle(_READ_LIMIT_S):
                    return
                words = loaded.words()
                loaded.unload()
            instructions = instructions_of(subject.cubin, subject.ptx)
            blocks = reached_blocks(subject.cubin)
        except (SamplerError, ToolchainError, RuntimeError) as error:
            each.why, each.loaded = str(error), None
            return
        if not words.any():
            each.why = "its launch failed"
        elif not any(row.ptx_line for row in instructions.rows):
            each.why = "its binary has no line table"
        else:
            pcs, counts = counts_of(each.code, words, instructions.rows, blocks, each.scale)
            each.result = CountedLaunch(subject, pcs, counts)
        each.loaded = None


def stride(x: int, y: int, z: int) -> int:
    """Of how many CTAs one counts: so that some `_CTAS` do, and along no axis the same ones each time."""
    every = max(1, x * y * z // _CTAS)
    while every > 1 and any(math.gcd(every, size) > 1 for size in (x, y) if size > 1):
        every += 1
    return every
