"""The pages point at things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import profscope
from profscope.schema import LAUNCH_DTYPES, SPAN_DTYPES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
README = PAGES[0].read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`|^    .*$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_the_readme_names_what_there_is() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for name in set(re.findall(r"profscope\.(\w+)\(", README)):
        assert name in profscope.__all__
    table = README[README.index("## The tables") : README.index("## How to read")]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    columns = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert columns == [*SPAN_DTYPES, *LAUNCH_DTYPES]


def test_every_page_is_in_the_readme() -> None:
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT)) in README, page.name
