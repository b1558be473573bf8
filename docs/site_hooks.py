"""What the site needs besides the pages: the README as its first page, the reference, and files linked to.

mkdocs calls the functions here; nothing else of profscope imports this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads a hook by its path alone

from site_links import COPIES, copied, pointed
from site_reference import PAGES as REFERENCE

__all__ = ["on_files", "on_page_markdown", "on_post_page"]

ROOT: Final = Path(__file__).parents[1]
_UNDER_OTHER_NAMES: Final = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
_FETCHED: Final = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
)


def on_files(files: Files, *, config: Any) -> Files:
    """Add what has another name or place, the reference, and files outside of docs/ that pages link to."""
    for source, name in _UNDER_OTHER_NAMES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for name, page_of in REFERENCE.items():
        files.append(File.generated(config, name, content=page_of()))
    for page in list(files.documentation_pages()):
        for path in copied(page.src_uri, page.content_string):
            if files.get_file_from_path(f"{COPIES}/{path}") is None:
                files.append(File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Point each link at what the site has in the place of the file it names."""
    return pointed(page.file.src_uri, markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Stop where a page would load anything from another site."""
    if fetched := _FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another site: {fetched[0]}")
    return output
