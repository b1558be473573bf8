"""The configurations of a session's kernels: each with its bare binary, its recorded one, and its numbers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from profscope.compat.compiling import recompile
from profscope.compat.kernels import load, source_file
from profscope.compat.triton_parts import CompiledKernel
from profscope.decoding.build import Build
from profscope.dispatch.budget import Account
from profscope.dispatch.policy import LaunchNumbers, Policy
from profscope.instrument_passes.contractions import contractions_of
from profscope.recording.diagnostics import reason

__all__ = ["FIRST_ARGUMENT", "STREAM", "Binary", "Configuration", "Configurations", "Launcher"]

Launcher = Callable[..., Any]
STREAM: Final = 3  # among the arguments of Triton's launchers
FIRST_ARGUMENT: Final = 9  # of the kernel's own among these


class Binary(NamedTuple):
    """A loaded binary. launch: with the arguments of Triton's launchers, also with those of another binary of
    its configuration. build: of a recorded one, if it is known."""

    kernel: CompiledKernel
    launch: Launcher
    build: Build | None = None

    @staticmethod
    def bare(kernel: CompiledKernel, run: Launcher) -> Binary:
        """A loaded bare kernel. run: Triton's launcher of it."""
        own_function, own_packed = kernel.function, kernel.packed_metadata

        # about: what Triton tells the launch hooks; others: these, and the kernel's arguments.
        def launch(
            x: int, y: int, z: int, stream: int, function: Any, packed: Any, about: Any, *others: Any
        ) -> Any:
            if about is not None:
                about.data["function"] = own_function
            return run(x, y, z, stream, own_function, own_packed, about, *others)

        return Binary(kernel, launch)


class Configuration:
    """One configuration of a kernel on one device. Thread-safe.

    matches: its launches are to be recorded. bare, recorded: its binaries, None before they are needed, or
    if they cannot be built: `why` says why there is no recorded one. account: of what its recorded launches
    cost, None without `overhead_pct=`. steady: launches the recorded binary, and charges that; None while
    there is none.
    """

    def __init__(self, name: str, policy: Policy, *, matches: bool) -> None:
        self.name = name
        self.account: Account | None = None
        self.matches = matches
        self.numbers = LaunchNumbers(policy)
        self.bare: Binary | None = None
        self.recorded: Binary | None = None
        self.steady: Launcher | None = None
        self.why = ""
        self._beside: tuple[Binary, Binary, dict[str, Any]] | None = None  # see `beside_bare`
        self.lock = threading.RLock()
        if not matches:
            self.numbers.pause()

    @property
    def key(self) -> str:
        """As `Build.key`; "" if not known."""
        build = None if self.recorded is None else self.recorded.build
        return "" if build is None else build.key

    def bare_binary(self) -> Binary | None:
        """The bare binary; compiled from the recorded one's source if only that is known. None if that
        fails."""
        with self.lock:
            if self.bare is None and self.recorded is not None:
                try:
                    kernel = recompile(self.recorded.kernel)
                    self.bare = Binary.bare(kernel, load(kernel))
                except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on
                    self.why = reason(error)
            return self.bare

    def beside_bare(self, describe: Callable[[CompiledKernel], Build | None]) -> dict[str, Any]:
        """What the bare binary takes, and `fused_otherwise`, the places of sums that the recorded one rounds
        differently, if both have PTX; {} if one of the two is not known."""
        bare, recorded = self.bare, self.recorded
        if bare is None or recorded is None:
            return {}
        if self._beside is None or self._beside[0] is not bare or self._beside[1] is not recorded:
            resources: dict[str, Any] = {}
            if (build := describe(bare.kernel)) is not None:
                resources |= build.resources()
                if build.ptx and recorded.build is not None and recorded.build.ptx:
                    own, other = (contractions_of(each.ptx) for each in (recorded.build, build))
                    resources["fused_otherwise"] = own.unlike(other)
            self._beside = bare, recorded, resources
        return self._beside[2]


class Configurations:
    """Those of a session. Thread-safe. matches: whether kernels of a name are to be recorded. account: opens
    the account of one that is; None without `overhead_pct=`."""

    def __init__(
        self,
        policy: Policy,
        matches: Callable[[str], bool],
        account: Callable[[Configuration], Account] | None = None,
    ) -> None:
        self._policy = policy
        self._matches = matches
        self._account = account
        self._lock = threading.Lock()
        self._by_key: dict[tuple[str, str, int], Configuration] = {}
        self._others: list[Configuration] = []

    def of(self, kernel: CompiledKernel, run: Launcher, device: int) -> Configuration:
        """The configuration of a loaded bare binary. run: what its launcher does by itself. Binaries that
        several threads compile share one."""
        key = kernel.hash, source_file(kernel), device
        with self._lock:
            if key not in self._by_key:
                self._by_key[key] = self._new(kernel.name)
                self._by_key[key].bare = Binary.bare(kernel, run)
            return self._by_key[key]

    def add(self, name: str, *, matches: bool = True) -> Configuration:
        """A configuration of which no binary is known yet."""
        with self._lock:
            configuration = self._new(name, matches=matches)
            self._others.append(configuration)
            return configuration

    def all(self) -> list[Configuration]:
        """Those met so far."""
        with self._lock:
            return [*self._by_key.values(), *self._others]

    def launches(self) -> Counter[str]:
        """By kernel, how many launches there were of those that match."""
        counts = Counter[str]()
        for each in self.all():
            if each.matches:
                counts[each.name] += each.numbers.launches
        return counts

    def _new(self, name: str, *, matches: bool = True) -> Configuration:
        made = Configuration(name, self._policy, matches=matches and self._matches(name))
        if made.matches and self._account is not None:
            made.account = self._account(made)
        return made
