"""The door of a session's launches: it asks the policy for each launch's role, and launches the binary."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.held_launchers import HeldLaunchers
from profscope.compat.kernels import door, load, recording_call, trials
from profscope.compat.programs import Program, manifest_of_binary
from profscope.compat.triton_parts import CompiledKernel
from profscope.dispatch.baseline import Baseline
from profscope.dispatch.budget import Account, Budget
from profscope.dispatch.configurations import STREAM, Binary, Configuration, Configurations, Launcher
from profscope.dispatch.observing import Observing
from profscope.dispatch.policy import Policy
from profscope.errors import CompileError, ScopeError
from profscope.recording.diagnostics import number_of_launches, reason
from profscope.recording.recorded_launches import RecordedLaunches

__all__ = ["Dispatcher"]

Arguments = tuple[Any, ...]


class _Thread(threading.local):
    """passes: another door, or an autotuner, has decided what this thread launches."""

    passes = False


class Dispatcher:
    """Installed for the length of a session, and again each time it goes on. Thread-safe.

    seen: kernels of which a binary was launched; tried: those that an autotuner timed. door: of all binaries;
    held: launchers that users keep; thread: what the calling thread is about to launch. compiler: of recorded
    binaries; launches: records them. budget: None without `overhead_pct=`.
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

        self.door = door(self._launcher)
        self.held = HeldLaunchers(self.door.launcher, lambda: self.thread.passes)
        self.configurations = Configurations(policy, matches, None if budget is None else account)
        self.compiler = compiler
        self.seen: set[str] = set()
        self.tried: set[str] = set()
        self._policy = policy
        self._launches = launches
        self._baseline = baseline
        self._observing = observing
        self.thread = _Thread()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        self._pause(is_paused=False)
        try:
            with trials(self.trial), self.held.installed(), self.door.installed():
                yield
        finally:  # others may keep a door, as Inductor's launchers do
            self._pause(is_paused=True)

    def shut(self, *, is_shut: bool) -> None:
        """While shut, known kernels run bare as if there were no session, and no launch has a number."""
        self._pause(is_paused=is_shut)
        self.held.shut(is_shut=is_shut)
        self.door.shut(is_shut=is_shut)

    def _pause(self, *, is_paused: bool) -> None:
        for configuration in self.configurations.all():
            if configuration.matches:  # the others are paused for good
                numbers = configuration.numbers
                (numbers.pause if is_paused else numbers.resume)()

    def run_bare(self, run: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of `run`; its launches run bare, and have no number."""
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

    def ask(self, configuration: Configuration, *args: Any) -> Any:
        """A launch that has drawn None, with the arguments of Triton's launchers."""
        numbers = configuration.numbers
        if numbers.observing:
            if self._observing.is_done(configuration):
                numbers.observing = False
            elif not numbers.is_first and self._observing.wants(configuration):
                bare = configuration.bare_binary()
                if bare is not None and self._observing.launch(configuration, bare, args):
                    numbers.observe()
                    return None
        return self._play(configuration, numbers.take(), args)

    def adopt(self, configuration: Configuration, kernel: CompiledKernel) -> Launcher:
        """Have a kernel compiled with records be the recorded binary of a configuration: what launches it.

        Raises CompileError if it does not record, and what loading raises.
        """
        manifest = manifest_of_binary(kernel)
        self._observing.met(kernel)
        load(kernel)
        call = recording_call(kernel)
        if call is None:
            raise CompileError("the launcher of this version of Triton, or of this device, is not known")
        program = Program(manifest, self._launches.describe(kernel, manifest.warps))
        launch = self._launches.launcher(kernel, program, call)
        configuration.recorded = Binary(kernel, launch, program.build)
        configuration.steady = steady = _charging(configuration.account, launch)
        return steady

    def notes(self) -> list[str]:
        """Why kernels run bare that were to be recorded, one line each."""
        failed = {f"{each.name} runs bare: {each.why}" for each in self.configurations.all() if each.why}
        lost = self.held.of_lost_kernels
        return sorted(failed) + [
            f"{number_of_launches(lost)} ran unrecorded: they were made with a CompiledKernel.run from "
            "before the session, whose kernel is gone; keep the kernel"
        ] * bool(lost)

    def _launcher(self, kernel: CompiledKernel, run: Launcher) -> Launcher:
        """What a bare binary is launched with; its launcher `run`, if it is never recorded."""
        self.held.met(run, kernel)
        own = self.held.own(run)
        configuration = self.configurations.of(kernel, own, self._launches.device())
        self.seen.add(kernel.name)
        if not configuration.matches:
            return run
        numbers, thread, ask = configuration.numbers, self.thread, self.ask

        def launch(*args: Any) -> Any:
            if thread.passes:
                return own(*args)
            drawn = numbers.draw()
            if drawn:  # if the session is over, another one may be on, which `run` comes by
                return (own if drawn > 0 else run)(*args)
            if drawn is None:
                return ask(configuration, *args)
            steady = configuration.steady
            return self._play(configuration, 0, args) if steady is None else steady(*args)

        return launch

    def _play(self, configuration: Configuration, number: int, args: Arguments) -> Any:
        """Launch in the role of this number; bare if the binary that the role needs is not there."""
        policy, recorded = self._policy, self._recorded(configuration)
        is_bare = policy.is_bare(number)
        if not (is_bare or recorded is None or policy.is_of_pair(number)):
            # The first one sets much up, once, that nothing is charged for.
            assert configuration.steady is not None
            return (configuration.steady if number else recorded.launch)(*args)
        bare = configuration.bare_binary()
        if bare is None:  # as of torch.compile, and it could not be compiled again
            assert recorded is not None
            return recorded.launch(*args)
        if recorded is None or not policy.is_of_pair(number):
            return bare.launch(*args)
        pair = policy.timed_pair(number)
        run = partial((bare if is_bare else recorded).launch, *args)
        if configuration.account is not None:
            run = partial(configuration.account.charge, run, is_bare=is_bare)
        return self._baseline.launch(configuration, pair, args[STREAM], run, is_bare=is_bare)

    def _recorded(self, configuration: Configuration) -> Binary | None:
        """The recorded binary of a configuration, built if there is none yet; None if it cannot be.

        Raises ScopeError for a mistake in the kernel's scopes.
        """
        with configuration.lock:
            if configuration.recorded is None and not configuration.why:
                assert configuration.bare is not None
                try:
                    self.adopt(configuration, self.compiler.compile(configuration.bare.kernel))
                except ScopeError:
                    raise
                except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on, bare
                    configuration.why = reason(error)
            return configuration.recorded


def _charging(account: Account | None, launch: Launcher) -> Launcher:
    """A recorded binary's launcher, whose launches an account pays for."""
    if account is None:
        return launch
    return lambda *args: account.charge(partial(launch, *args), is_bare=False)
