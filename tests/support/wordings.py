"""Counts wordings that readers read twice.

    python -m tests.support.wordings             # the counts
    python -m tests.support.wordings --list      # and each place

Texts are of five kinds: pages without their code; the site's reference, made of public docstrings; the first
sentence of each module; error texts; and all other docstrings of names without an underscore.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("instrument_passes", "profscope", "viewer")
_START: Final = r"(?:^|(?<=[.:;]\s)|(?<=^[-*] ))"
WORDINGS: Final = {
    "inversion": re.compile(
        rf"{_START}(?:Of|Where|Beside|Nor|Whose|To whom|In what|From what|What) (?!it does\b)", re.MULTILINE
    ),
    "which ... of": re.compile(r"\b(?:of (?:which|whom|what)|which [^.,;:()]{0,40}\bof)\b"),
    "what is": re.compile(r"(?<!\w)what (?:is|are|was|were|has|have)\b", re.IGNORECASE),
    "nobody": re.compile(r"\bnobody\b", re.IGNORECASE),
    "where ... says": re.compile(
        r"\bwhere\b[^.;:()]{0,60}\b(?:says?|said|tells?|told|knows?|known|states?|named)\b", re.IGNORECASE
    ),
}


def prose_of_pages() -> Iterator[tuple[str, str]]:
    """Each page of the documentation without code, with its name."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
        yield str(page.relative_to(ROOT)), text


def _public(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The module, its public classes and functions, and the public methods of these classes."""
    yield tree
    bodies: list[list[ast.stmt]] = [tree.body]
    for body in bodies:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not node.name.startswith("_"):
                yield node
                if isinstance(node, ast.ClassDef):
                    bodies.append(node.body)


def prose_of_reference() -> Iterator[tuple[str, str]]:
    """Each page of the site's reference without code, with its name."""
    spec = importlib.util.spec_from_file_location("site_reference", ROOT / "docs/site_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, page in module.PAGES.items():
        yield name, re.sub(r"```.*?```", "", page(), flags=re.DOTALL)


def texts_of_code() -> Iterator[tuple[str, str, str]]:
    """Kind ("modules", "errors" or "docstrings"), place and text."""
    for path in (each for package in PACKAGES for each in sorted((ROOT / package).rglob("*.py"))):
        name = str(path.relative_to(ROOT))
        tree = ast.parse(path.read_text())
        for node in _public(tree):
            text = ast.get_docstring(node)
            if not text:
                continue
            if isinstance(node, ast.Module):
                first = re.split(r"\.(?:\s|$)|\n\n", text)[0]
                yield "modules", name, first
                text = text[len(first) :]
            yield "docstrings", f"{name}:{node.body[0].lineno}", text
        for raised in ast.walk(tree):
            if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call):
                parts = [
                    each.value
                    for argument in raised.exc.args
                    for each in ast.walk(argument)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
                yield "errors", f"{name}:{raised.lineno}", " ".join(parts)


def found() -> Iterator[tuple[str, str, str, str]]:
    """Each place: kind of text, wording, place, the words around it."""
    texts = [
        *(("pages", *each) for each in prose_of_pages()),
        *(("reference", *each) for each in prose_of_reference()),
        *texts_of_code(),
    ]
    for kind, place, text in texts:
        joined = re.sub(r"(?<![.:])\n(?=[^\s\-*|])", " ", text)
        for wording, pattern in WORDINGS.items():
            for match in pattern.finditer(joined):
                around = joined[max(0, match.start() - 20) : match.end() + 60]
                yield kind, wording, place, " ".join(around.split())


def main(words: Sequence[str]) -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args(words)
    places = list(found())
    if chosen.list:
        for kind, wording, place, text in places:
            print(f"{kind}  {wording}  {place}: {text}")
    counts = Counter((kind, wording) for kind, wording, _, _ in places)
    kinds = ("pages", "reference", "modules", "errors", "docstrings")
    print(f"{'':16}{''.join(f'{kind:>12}' for kind in kinds)}")
    for wording in WORDINGS:
        print(f"{wording:16}{''.join(f'{counts[kind, wording]:12}' for kind in kinds)}")
    print(f"{'all':16}{''.join(f'{sum(counts[kind, each] for each in WORDINGS):12}' for kind in kinds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
