"""The pytest plugin: the fixture `kernel_gate` fails a test whose kernels became slower than its baseline.

    def test_attention(kernel_gate):
        with kernel_gate(fail_above="5%"):
            attention[grid](...)

pytest loads this in each of its runs, so the rest of profscope is imported when the fixture is used.
PYTEST_DONT_REWRITE: it asserts nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["kernel_gate", "pytest_addoption", "pytest_terminal_summary"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("profscope")
    group.addoption(
        "--kernel-baseline",
        metavar="DIR",
        default=".profscope/baselines",
        help="folder of the baselines of kernel_gate, from the root folder (default: .profscope/baselines)",
    )
    group.addoption(
        "--update-kernel-baselines",
        action="store_true",
        help="write the baselines of the tests that use kernel_gate, and judge nothing",
    )


@pytest.fixture
def kernel_gate(request: pytest.FixtureRequest) -> Any:
    """Fails a test if a kernel that is launched in a `with` block is slower than in its baseline."""
    from profscope.pytest.gate import KernelGate

    return KernelGate(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures behind tests that passed; a failure has its own."""
    lines = [
        f"{report.nodeid}: {text}"
        for report in terminalreporter.getreports("passed")
        for name, text in report.user_properties
        if name == "kernel_gate"
    ]
    if lines:
        terminalreporter.section("kernel gate")
        for line in lines:
            terminalreporter.line(line)
