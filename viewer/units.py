"""Numbers and names as a reader wants them: three digits, a unit, nothing that could confuse a terminal.

The command line reads its options with this: so it imports nothing heavy.
"""

__all__ = [
    "STEPS",
    "UNITS",
    "bytes_text",
    "count_text",
    "duration_text",
    "printable",
    "rate_text",
    "share_text",
    "source_text",
]

UNITS = ("ns", "cycles")
STEPS = {
    "ns": (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)),
    "cycles": (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)),
}

BYTES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def duration_text(value: float, unit: str) -> str:
    """A duration with three significant digits, at most: "128ns", "1.86us", "49.1us"; cycles "3.69k"."""
    steps = STEPS[unit]
    for name, scale in steps:
        scaled = value / scale
        # 999.5 rounds to 1000, which the next unit says shorter.
        if abs(scaled) < 999.5 or (name, scale) == steps[-1]:
            break
    if scale == 1 and (value == int(value) or abs(value) >= 99.95):
        return f"{value:.0f}{name}"
    decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{decimals}f}{name}"


def count_text(value: int) -> str:
    """A whole number with commas."""
    return f"{value:,}"


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


def source_text(file: str, line: int) -> str:
    """ "matmul.py:26", or "" when the source is unknown."""
    name = printable(file.replace("\\", "/").rsplit("/", 1)[-1])
    return f"{name}:{line}" if file and line else name or (f":{line}" if line else "")


def printable(text: str) -> str:
    """Text with control characters written as escapes: a name in a trace must not steer the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
