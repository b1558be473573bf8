"""Where the links of a page lead on the site.

Pages link to files of the repository as its readers need it (`../bench/results/x.json`). A site has only
what lies in `docs/`. So files that pages link to are copied into it, below `files/`, and links lead to the
copies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["COPIES", "copied", "pointed"]

ROOT: Final = Path(__file__).parents[1]
COPIES: Final = "files"
_PAGES: Final = {"README.md": "index.md", "docs/README.md": "pages.md", "CHANGELOG.md": "CHANGELOG.md"}
_SOURCES: Final = {page: source for source, page in _PAGES.items()}
_LINK_OR_CODE: Final = re.compile(
    r"^```.*?^```|^ {4}.*?$|`[^`\n]*`|(?P<before>\]\()(?P<target>[^)#\s]+)(?P<after>(?:#[^)\s]*)?\))",
    re.DOTALL | re.MULTILINE,
)
"""In code, `kernel[grid](...)` is no link."""


def copied(page: str, markdown: str) -> Iterator[str]:
    """The files outside of docs/, and no pages, that a page links to: their paths in the repository."""
    for match in _LINK_OR_CODE.finditer(markdown):
        place = _place(page, match["target"]) if match["target"] else None
        if place and place.startswith(f"{COPIES}/"):
            yield place.removeprefix(f"{COPIES}/")


def pointed(page: str, markdown: str) -> str:
    """A page's text, each link pointed at what the site has in the place of the file it names."""
    up = "../" * (len(PurePosixPath(page).parts) - 1)

    def there(match: re.Match[str]) -> str:
        place = _place(page, match["target"]) if match["target"] else None
        return match[0] if place is None else f"{match['before']}{up}{place}{match['after']}"

    return _LINK_OR_CODE.sub(there, markdown)


def _place(page: str, target: str) -> str | None:
    """Where the site has the target of a link, from its root; None where the link is right as it is."""
    if "://" in target:
        return None
    path = _in_repository(page, target)
    if path in _PAGES:
        return _PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{COPIES}/{path}" if (ROOT / path).is_file() else None


def _in_repository(page: str, target: str) -> str:
    """The path of a link's target, from the root of the repository."""
    source = ROOT / _SOURCES.get(page, f"docs/{page}")
    resolved = (source.parent / target).resolve()
    return resolved.relative_to(ROOT).as_posix() if resolved.is_relative_to(ROOT) else target
