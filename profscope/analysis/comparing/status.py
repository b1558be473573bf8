"""What a row of a comparison is called where it is shown."""

__all__ = ["status_text"]


def status_text(status: str, change: float, *, significant: bool) -> str:
    """ "noise" for a change that is no more than that. What takes no time and is gone "went": it is not the
    same. status, change, significant: as `profscope.diff()` has them."""
    return "noise" if change and not significant else status
