"""What the site needs besides the pages: the README as its first page, the reference, and files linked to.

Pages link to files of the repository as its readers need it (`../bench/results/x.json`). A site has only
what lies in `docs/`. So files that pages link to are copied into it, and links lead to the copies. mkdocs
calls the functions here; nothing else of profscope imports this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads a hook by its path alone

from site_reference import PAGES as REFERENCE

__all__ = ["on_files", "on_page_markdown", "on_post_page"]

ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = {"README.md": "index.md", "docs/README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md"}
_COPIES: Final = "files"
_FETCHED: Final = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)
_LINK: Final = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the README, the changelog, the reference, and every file outside of docs/ that a page links to."""
    for source in ("README.md", "CHANGELOG.md"):
        files.append(File.generated(config, _PAGES[source], content=(ROOT / source).read_text()))
    for name, page_of in REFERENCE.items():
        files.append(File.generated(config, name, content=page_of()))
    for page in list(files.documentation_pages()):
        for _, target, _ in _LINK.findall(page.content_string):
            outside = _outside(page.src_uri, target)
            if outside and files.get_file_from_path(f"{_COPIES}/{outside}") is None:
                copy = File.generated(config, f"{_COPIES}/{outside}", abs_src_path=str(ROOT / outside))
                files.append(copy)
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Point each link at what the site has in the place of the file it names."""
    here = PurePosixPath(page.file.src_uri)

    def pointed(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        there = _place(here.as_posix(), target)
        return match[0] if there is None else f"{before}{_from(here, there)}{after}"

    return _LINK.sub(pointed, markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Stop where a page would load anything from another site."""
    if fetched := _FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another site: {fetched[0]}")
    return output


def _place(page: str, target: str) -> str | None:
    """Where the site has the target of a link, from its root; None where the link is right as it is."""
    if "://" in target:
        return None
    path = _in_repository(page, target)
    if path in _PAGES:
        return _PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{_COPIES}/{path}" if (ROOT / path).is_file() else None


def _outside(page: str, target: str) -> str | None:
    """The file of the repository, outside of docs/ and no page, that a link leads to; None if it does not."""
    place = _place(page, target)
    return place.removeprefix(f"{_COPIES}/") if place and place.startswith(f"{_COPIES}/") else None


def _in_repository(page: str, target: str) -> str:
    """The path of a link's target, from the root of the repository."""
    folder = ROOT if page in _PAGES.values() else (ROOT / "docs" / page).parent
    resolved = (folder / target).resolve()
    return resolved.relative_to(ROOT).as_posix() if resolved.is_relative_to(ROOT) else target


def _from(page: PurePosixPath, there: str) -> str:
    return "../" * (len(page.parts) - 1) + there
