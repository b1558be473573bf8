"""The door of a session's launches: it asks the policy for each launch's role, and launches the binary."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.kernels import door, load, recording_call, trials
from profscope.compat.programs import Program, manifest_of_binary
from profscope.compat.triton_parts import CompiledKernel
from profscope.dispatch.baseline import Baseline
from profscope.dispatch.budget import Account, Budget
from profscope.dispatch.configurations import Binary, Configuration, Configurations, Launcher
from profscope.dispatch.observing import STREAM, Observing
from profscope.dispatch.policy import OBSERVED, Policy, Role
from profscope.errors import CompileError
from profscope.recording.recorded_launches import RecordedLaunches

__all__ = ["Dispatcher"]

Arguments = tuple[Any, ...]


class _Thread(threading.local):
    """passes: another door, or an autotuner, has decided what this thread launches. turn: what the door of
    torch.compile has drawn for the launch that this thread is about to make."""

    passes = False
    turn: tuple[Configuration, int] | None = None


class Dispatcher:
    """Installed for the length of a session, and again each time it goes on. Thread-safe.

    seen: kernels of which a binary was launched; tried: those that an autotuner timed. door: of all binaries;
    thread: what the calling thread is about to launch. compiler: of recorded binaries; launches: records
    them. budget: None without `overhead_pct=`.
    """

    def __init__(
        self,
        policy: Policy,
        matches: Callable[[str], bool],
        compiler: RecordedCompiler,
        launches: RecordedLaunches,
        baseline: Baseline,
        observing: Observing,
        budget: Budget | None = None,
    ) -> None:
        def account(configuration: Configuration) -> Account:
            assert budget is not None
            return budget.account(partial(baseline.extra_ns, configuration))

        self.configurations = Configurations(policy, matches, None if budget is None else account)
        self.compiler = compiler
        self.seen: set[str] = set()
        self.tried: set[str] = set()
        self._policy = policy
        self._launches = launches
        self._baseline = baseline
        self._observing = observing
        self.thread = _Thread()
        self.door = door(self._launcher)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        self._pause(is_paused=False)
        try:
            with trials(self.trial), self.door.installed():
                yield
        finally:  # others may keep a door, as Inductor's launchers do
            self._pause(is_paused=True)

    def shut(self, *, is_shut: bool) -> None:
        """While shut, known kernels run bare as if there were no session, and no launch has a number."""
        self._pause(is_paused=is_shut)
        self.door.shut(is_shut=is_shut)

    def _pause(self, *, is_paused: bool) -> None:
        for configuration in self.configurations.all():
            if configuration.matches:  # the others are paused for good
                turns = configuration.turns
                (turns.pause if is_paused else turns.resume)()

    def run_bare(self, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What `run` returns; what it launches runs bare, and has no number."""
        thread = self.thread
        before, thread.passes = thread.passes, True
        try:
            return run(*args, **kwargs)
        finally:
            thread.passes = before

    def trial(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        """Triton's method that times a configuration, of which launches run bare."""

        def timed(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            self.tried.add(tuner.base_fn.__name__)
            return self.run_bare(bench, tuner, *args, **kwargs)

        return timed

    def launch_as(self, configuration: Configuration, number: int, run: Callable[[], Any]) -> Any:
        """What `run` returns. It launches the recorded binary of a configuration through a launcher of
        Inductor's: that launch takes the role of this number."""
        thread = self.thread
        before = thread.passes, thread.turn
        thread.passes, thread.turn = True, (configuration, number)
        try:
            return run()
        finally:
            thread.passes, thread.turn = before

    def number(self, configuration: Configuration) -> int | None:
        """Of a launch that has drawn None, or OBSERVED; None if it is bare after all."""
        turns = configuration.turns
        if turns.observing:
            if self._observing.is_done(configuration):
                turns.observing = False
            elif not turns.is_first and self._observing.wants(configuration):
                return OBSERVED
        return turns.take()

    def adopt(self, kernel: CompiledKernel) -> Binary:
        """A kernel compiled with records as a binary that is loaded and launched through here.

        Raises CompileError if it does not record, and what loading raises.
        """
        manifest = manifest_of_binary(kernel)
        self._observing.met(kernel)
        load(kernel)
        call = recording_call(kernel)
        if call is None:
            raise CompileError("the launcher of this version of Triton, or of this device, is not known")
        program = Program(manifest, self._launches.describe(kernel, manifest.warps))
        record, thread = self._launches.launcher(kernel, program, call), self.thread

        def launch(*args: Any) -> Any:
            if thread.turn is None:  # another thread's bare launch, by a launcher that is ours for a moment
                return call(None, *args)
            (configuration, number), thread.turn = thread.turn, None
            steady = configuration.steady
            return self._play(configuration, number, args) if steady is None else steady(*args)

        self.door.set(kernel, launch)
        return Binary(kernel, record, program.build)

    def notes(self) -> list[str]:
        """Why kernels run bare that were to be recorded, one line each."""
        failed = {f"{each.name} runs bare: {each.why}" for each in self.configurations.all() if each.why}
        return sorted(failed)

    def _launcher(self, kernel: CompiledKernel, run: Launcher) -> Launcher:
        """What a bare binary is launched with; itself, if it is never recorded."""
        configuration = self.configurations.of(kernel, run, self._launches.device())
        self.seen.add(kernel.name)
        if not configuration.matches:
            return run
        turns, thread, due = configuration.turns, self.thread, self._due

        def launch(*args: Any) -> Any:
            if thread.passes or turns.draw() is not None:
                return run(*args)
            steady = configuration.steady
            if steady is not None:
                return run(*args) if configuration.turns.take() is None else steady(*args)
            number = self.number(configuration)
            return run(*args) if number is None else due(configuration, number, args)

        return launch

    def _due(self, configuration: Configuration, number: int, args: Arguments) -> Any:
        """Launch what is not merely bare."""
        assert configuration.bare is not None
        configuration.record(partial(self._build, configuration.bare.kernel))
        return self._play(configuration, number, args)

    def _build(self, kernel: CompiledKernel) -> Binary:
        return self.adopt(self.compiler.compile(kernel))

    def _play(self, configuration: Configuration, number: int, args: Arguments) -> Any:
        """Launch in the role of this number; bare if the binary that the role needs is not there."""
        policy, recorded = self._policy, configuration.recorded
        role = policy.role(number)
        if role is Role.OBSERVED:
            return self._observe(configuration, args)
        if role is Role.RECORDED and not policy.is_of_pair(number) and recorded is not None:
            if not number:  # the first one sets much up, once
                return recorded.launch(*args)
            launch = _charging(configuration.account, recorded.launch)
            if not configuration.turns.observing:
                configuration.steady = launch
            return launch(*args)
        bare = configuration.bare_binary()
        if bare is None:  # as of torch.compile, and it could not be compiled again
            assert recorded is not None
            return recorded.launch(*args)
        if recorded is None or not policy.is_of_pair(number):
            return bare.launch(*args)
        is_bare, pair = role is Role.BARE, policy.timed_pair(number)
        run = partial((bare if is_bare else recorded).launch, *args)
        if configuration.account is not None:
            run = partial(configuration.account.charge, run, is_bare=is_bare)
        return self._baseline.launch(configuration, pair, args[STREAM], run, is_bare=is_bare)

    def _observe(self, configuration: Configuration, args: Arguments) -> Any:
        """Launch under the hardware's instruments; if that cannot be, in the role of the next number."""
        bare, turns = configuration.bare_binary(), configuration.turns
        if bare is not None and self._observing.launch(configuration, bare, args):
            turns.observe()
            return None
        number = configuration.turns.take()
        if number is None and bare is not None:
            return bare.launch(*args)
        return self._play(configuration, number or 0, args)


def _charging(account: Account | None, launch: Launcher) -> Launcher:
    """A recorded binary's launcher, whose launches an account pays for."""
    if account is None:
        return launch
    return lambda *args: account.charge(partial(launch, *args), is_bare=False)
