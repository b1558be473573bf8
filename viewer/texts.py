"""The texts of functions that a profile has, line by line; and of those it has not, where the disk does."""

import textwrap
from dataclasses import dataclass
from functools import cached_property

from profscope.analysis.sources import file_with_source
from profscope.profiles import Profile
from viewer.source import SourceLines

__all__ = ["Text", "texts_of"]


@dataclass(frozen=True)
class Text:
    """A function's text, from `first` on. known: the files whose texts are known."""

    name: str
    file: str
    first: int
    text: str
    known: frozenset[str]

    @cached_property
    def _lines(self) -> list[str]:
        return textwrap.dedent(self.text.expandtabs(4)).splitlines()

    def lines(self) -> list[tuple[int, str]]:
        """Numbers and texts, without the indentation that all have."""
        return list(enumerate(self._lines, self.first))

    def is_called(self, function: str) -> bool:
        """Whether it is the text of a function of that name; one inside another has the names of both."""
        return self.name.rsplit(".", 1)[-1] == function

    def holds(self, file: str, line: int) -> bool:
        """Whether a place is in it; a file of another copy of the program counts as this one."""
        return (
            self.first <= line < self.first + len(self._lines)
            and file_with_source(file, self.known) == self.file
        )


def texts_of(profile: Profile, disk: SourceLines) -> list[Text]:
    """Those of all functions, each place once: the last one is that which was compiled last."""
    entries = profile.metadata.get("sources") or []
    known = frozenset(str(entry["file"]) for entry in entries)
    texts = {(str(entry["file"]), int(entry["line"])): entry for entry in entries}
    return [
        Text(str(entry["name"]), file, line, str(entry["text"]), known)
        for (file, line), entry in texts.items()
    ]
