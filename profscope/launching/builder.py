"""The process that builds kernels beside a program: it reads what a session records, then one kernel after
the other, and answers each with the names of what it has built, or with why it could not. See `beside`.

It ends when there is nothing more to read, or when the program is gone without having said so.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final

from triton import knobs
from triton.runtime import driver

from profscope.errors import CompileError
from profscope.launching.again import compiled_again
from profscope.launching.bare import BareLaunches
from profscope.launching.beside import BARE, OWN, Answer, Job, Made, Session
from profscope.launching.hook import CompileHook
from profscope.launching.inductor import InductorLaunches
from profscope.recording import backend
from profscope.recording.messages import one_line
from profscope.recording.programs import PROGRAMS

__all__ = ["main"]

_LOOK_S: Final = 1.0  # how often it looks for the program that started it


def main() -> int:
    """Serve the process that started this one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # folders of a compilation are removed
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is no answer
    with contextlib.ExitStack() as stack, contextlib.suppress(EOFError):
        builder = stack.enter_context(_builder(pickle.load(asked)))
        while True:
            answers.write(pickle.dumps(builder.answer(pickle.load(asked))))
            answers.flush()
    return 0


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: children of the parent may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(0)


@contextlib.contextmanager
def _builder(session: Session) -> Iterator[_Builder]:
    """What compiles as the session does, for the body of a with statement."""
    knobs.cache.dir = session.cache
    if session.libdevice is not None:
        knobs.nvidia.libdevice_path = session.libdevice
    options = session.options
    hook = CompileHook(options)
    bare = BareLaunches(options, hook.outside, contextlib.nullcontext)
    modes: Any = SimpleNamespace(mode=hook.mode)
    nowhere: Any = SimpleNamespace(listening=contextlib.nullcontext)  # nothing is launched here
    inductor = InductorLaunches(options, bare, modes, nowhere)
    with contextlib.ExitStack() as stack:
        if session.backend == "emulator":
            stack.enter_context(backend.select("emulator"))
        for part in (PROGRAMS.asking(), hook.installed(), bare.installed(), inductor.installed()):
            stack.enter_context(part)
        yield _Builder(session, bare, inductor)


class _Builder:
    """Compiles kernels of torch.compile as a session does: all the binaries that it may launch."""

    def __init__(self, session: Session, bare: BareLaunches, inductor: InductorLaunches) -> None:
        self._options = session.options
        self._bare = bare
        self._inductor = inductor

    def answer(self, job: Job) -> Answer:
        """Build a kernel."""
        try:
            return self._build(job)
        except Exception as error:  # noqa: BLE001  whatever it is, the program is to be told
            return one_line(error)

    def _build(self, job: Job) -> dict[str, Made]:
        from torch._inductor.runtime.compile_tasks import _reload_python_module

        key = os.path.splitext(os.path.basename(job.file))[0]
        tuner = getattr(_reload_python_module(key, job.file), job.name)
        kernel = self._inductor.compiled(tuner, job.config).kernel
        program = PROGRAMS.program(kernel)
        if program is None:
            raise CompileError("Inductor made a binary that does not record")
        kernels = {OWN: kernel}
        if self._options.baseline and not program.manifest.failure:
            with self._bare.tuning():
                kernels[BARE] = compiled_again(kernel)
        for each in kernels.values():
            # Before Triton 3.7 that compiles C, which stays in the cache, too.
            driver.active.launcher_cls(each.src, each.metadata)
        return {kind: Made(each.hash, dict(each.metadata_group)) for kind, each in kernels.items()}
