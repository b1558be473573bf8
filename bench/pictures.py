"""The pictures of the pages: every view of the demo, and of a library's kernel recorded on a GPU.

    python -m bench.pictures                 # all of them, into docs/pictures
    python -m bench.pictures --only source   # those whose name has "source"

The views of the terminal become SVG by rich, report.html becomes PNG by
chromium, the figure by matplotlib. The demo is recorded here, on the emulator; recordings of an H200 are in
bench/results and tests/data/plotting: two kernels of the latter, one of them of 141 CTAs for 132 SMs.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import profscope
from profscope.viewer.cli import main as view
from tests.support.browser import opened, why_no_browser, window
from tests.support.pages import RECORDINGS

__all__ = ["main"]

_ROOT: Final = Path(__file__).parents[1]
_KEPT: Final = {"before": "delta-rule.pftrace.gz", "after": "delta-rule-3-stages.pftrace.gz"}
_COLUMNS: Final = 100
_COLOURS: Final = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
_SIZE: Final = (1200, 760)
_DRAWN_S: Final = 0.6
_UNUSED: Final = re.compile(
    r"@font-face\s*\{.*?\}"
    r"|<clipPath id=\"[^\"]*-line-\d+\">.*?</clipPath>\s*"
    r"| clip-path=\"[^\"]*-line-\d+\)\"",
    re.DOTALL,
)
_NUMBERED: Final = re.compile(r"[^└]{24,32}?\s(\d+)(?:  |$)")
_OURS: Final = "font-family: Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_CTA: Final = (
    "const t = profscope.timeline; t.goTo('cta', t.profile.ctas.first.findIndex((f) => f >= 0), 0);"
    "document.getElementById('timeline').scrollIntoView()"
)
_NOTEBOOK: Final = (
    '<html data-ready="true"><meta charset="utf-8">'
    '<body style="font: 14px sans-serif; margin: 16px">{}</body></html>'
)
_CLOSE: Final = (
    "const m = (t.from + t.to) / 2, w = (t.to - t.from) / 24;"
    "t.setWindow(m - w, m + w); document.getElementById('timeline').scrollIntoView()"
)


def _at(place: str) -> str:
    """The script that brings a part of the page into the window."""
    return f"document.querySelector({place!r}).scrollIntoView()"


@dataclass(frozen=True)
class Shot:
    """A picture of a page: which file it is of, and what is done in the browser before it is taken."""

    trace: str
    script: str
    size: tuple[int, int] = _SIZE


_TERMINAL: Final[Mapping[str, tuple[str, ...]]] = {
    "h200-first-screen": ("{before}",),
    "h200-source": ("{before}", "--source"),
    "h200-sass": ("{before}", "--source", "sass"),
    "h200-diff": ("diff", "{before}", "{after}"),
}
_LINES: Final[Mapping[str, tuple[int, int]]] = {"h200-source": (114, 138), "h200-sass": (114, 115)}
"""Of the views of the source: the lines that are shown, with what stands below each; the header always is."""
_MOST_ROWS: Final = 44
_PAGES: Final[Mapping[str, Shot]] = {
    "report-findings": Shot("before", "scrollTo(0, 0)"),
    "report-source": Shot("before", _at('details.row[data-line="114"]')),
    "report-timeline-launch": Shot("before", _at("#timeline")),
    "report-timeline-close": Shot("before", f"{_CTA};{_CLOSE}"),
    "h200-notebook": Shot("notebook", "scrollTo(0, 0)"),
    "demo-timeline-cta": Shot("demo", _CTA),
    "demo-distributions": Shot("demo", _at("#distributions")),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Take them; returns 1 where there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m bench.pictures", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name has this in it")
    parser.add_argument("--out", type=Path, default=_ROOT / "docs/pictures")
    options = parser.parse_args(argv)
    if why := why_no_browser():
        print(f"bench.pictures {why}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, _traces(Path(folder)) as traces:
        for name, words in _TERMINAL.items():
            if options.only in name:
                text = _terminal([word.format(**traces) for word in words], _LINES.get(name))
                _write(options.out / f"{name}.svg", text)
        _browser({name: shot for name, shot in _PAGES.items() if options.only in name}, traces, options.out)
    _figure(options.out, options.only)
    return 0


@contextmanager
def _traces(folder: Path) -> Iterator[dict[str, str]]:
    """By name: the demo, recorded now, and the recordings that are kept."""
    from profscope.demo.__main__ import main as demo

    demo([str(folder / "trace.pftrace.gz")])
    for short, name in RECORDINGS.items():
        (folder / short).symlink_to(_ROOT / name)
    kept = {name: str(folder / short) for name, short in _KEPT.items()}
    yield {"demo": str(folder / "trace.pftrace.gz"), **kept, "folder": str(folder)}


def _terminal(words: Sequence[str], lines: tuple[int, int] | None) -> str:
    """What `profscope view` prints, as SVG."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    shown = [Path(word).name if "/" in word else word for word in words]
    command = " ".join(["profscope", *([] if words[0] == "diff" else ["view"]), *shown])
    with patch.dict("os.environ", _COLOURS), redirect_stdout(out):
        view([*words, "--width", str(_COLUMNS)])
        out.seek(0)
        rows = out.read().splitlines()
    if lines is not None:
        rows = _between(rows, *lines)
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(rows)))
    return console.export_svg(title=command, theme=MONOKAI)


def _between(rows: Sequence[str], first: int, last: int) -> list[str]:
    """The rows of the header, and those of these source lines."""
    plain = [Text.from_ansi(row).plain for row in rows]
    numbers = [int(found[1]) if (found := _NUMBERED.match(row)) else 0 for row in plain]
    header = next(at for at, number in enumerate(numbers) if number)
    begin, end = numbers.index(first), numbers.index(last + 1)
    return [*rows[:header], *rows[begin : min(end, begin + _MOST_ROWS)]]


def _write(path: Path, svg: str) -> None:
    """Write a picture that asks no other site for a font, and whose lines are not clipped each by itself."""
    path.write_text(re.sub(r"font-family: [^;]*", _OURS, _UNUSED.sub("", svg)))
    print(path.name, f"{path.stat().st_size:,} bytes")


def _browser(shots: Mapping[str, Shot], traces: Mapping[str, str], out: Path) -> None:
    if not shots:
        return
    pages: dict[str, Path] = {}
    for name in {shot.trace for shot in shots.values()}:
        pages[name] = Path(traces["folder"]) / f"{name}.html"
        if name == "notebook":
            pages[name].write_text(_NOTEBOOK.format(profscope.load(traces["before"])._repr_html_()))
        else:
            profscope.load(traces[name]).save(pages[name])
    with window(*_SIZE) as driver:
        for name, shot in shots.items():
            opened(driver, pages[shot.trace])
            driver.set_window_size(*shot.size)
            time.sleep(_DRAWN_S)
            driver.execute_script(shot.script)
            time.sleep(_DRAWN_S)
            path = out / f"{name}.png"
            driver.save_screenshot(str(path))
            _with_few_colours(path)
            print(name, f"{path.stat().st_size:,} bytes", driver.get_log("browser") or "")


def _with_few_colours(path: Path) -> None:
    Image.open(path).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def _figure(out: Path, only: str) -> None:
    path = out / "plot-timeline.png"
    if only in path.stem:
        profscope.load(_ROOT / "tests/data/plotting/matmul.pftrace.gz").plot.timeline().savefig(path, dpi=100)
        _with_few_colours(path)
        print(path.name, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
