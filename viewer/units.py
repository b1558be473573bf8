"""Numbers and names as a reader wants them: three digits, a unit, nothing that could confuse a terminal.

The command line reads its options with this: so it imports nothing heavy.
"""

from profscope.analysis.texts import NO_TIME, STEPS, count_text, printable, source_text, three_digits

__all__ = [
    "NO_TIME",
    "STEPS",
    "bytes_text",
    "count_text",
    "duration_text",
    "printable",
    "rate_text",
    "share_text",
    "source_text",
]

BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def duration_text(value: float, unit: str) -> str:
    """A duration with three significant digits, at most: "128ns", "1.86us", "49.1us"; cycles "3.69k"."""
    return "".join(three_digits(value, unit))


def bytes_text(count: int) -> str:
    """A size: "512 bytes", "33.0 KiB", "8.0 MiB"."""
    if count < 1 << 10:
        return f"{count} bytes"
    name, scale = next((name, size) for name, size in BYTES if count >= size)
    return f"{count / scale:.1f} {name}"


def share_text(share: float | None) -> str:
    """A share of 0..1 as "41.2%"; "-" when there is none."""
    return "-" if share is None else f"{100 * share:.1f}%"


def rate_text(rate: float | None) -> str:
    """A rate with three significant digits: "0.0123", "4.56", "3,210"; "-" when there is none."""
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= 99.95 else f"{rate:#.3g}"
