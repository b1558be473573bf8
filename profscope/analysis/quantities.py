"""Numbers as a reader wants them, whoever shows them: three digits and a unit. Nothing heavy is imported."""

from typing import Final

__all__ = ["NO_TIME", "STEPS", "count_text", "three_digits"]

NO_TIME: Final = "A time of 0: that of a mark, or of what took no longer than recording it does."
"""What is left of such a span, once the cost is taken off; a remark below a view that shows one."""

STEPS: Final = {
    "ns": (("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)),
    "cycles": (("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9)),
}
"""By unit of the tables, the units that a duration is shown in, and what each is of it."""


def three_digits(value: float, unit: str) -> tuple[str, str]:
    """A duration's number, three significant digits at most, and its unit: ("1.86", "us"), ("3.69", "k")."""
    steps = STEPS[unit]
    # 999.5 rounds to 1000, which the next unit says shorter.
    name, scale = next((step for step in steps if abs(value) / step[1] < 999.5), steps[-1])
    scaled = value / scale
    decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    is_whole = scale == 1 and scaled == int(scaled)
    return f"{scaled:.{0 if is_whole else decimals}f}", name


def count_text(value: int, one: str = "", many: str = "") -> str:
    """A whole number with commas, and of what: "1 launch", "1,024 launches"."""
    word = (one if value == 1 else many or f"{one}s") if one else ""
    return f"{value:,} {word}".rstrip()
