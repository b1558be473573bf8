"""How an error of somebody else's reads in a note or an answer of ours."""

__all__ = ["one_line"]


def one_line(error: BaseException, most_characters: int = 300) -> str:
    """Type and text of an error, as one line: "ValueError: no such kernel"."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:most_characters]}"
