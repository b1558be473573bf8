"""Pictures of report.html, as a browser shows it: of any trace, at three zooms and two widths.

    python -m bench.report_pictures trace.pftrace.gz [more ...] --out FOLDER

It needs chromium, chromedriver and selenium (Debian: apt-get install chromium-driver).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import profscope
from tests.support.browser import opened, why_no_browser, window

__all__ = ["main"]

_WIDTHS: Final = (1400, 640)
_TALLEST: Final = 5000
_DRAWN_S: Final = 0.4
_CTA: Final = "const t = profscope.timeline; t.goTo('cta', t.profile.ctas.first.findIndex((f) => f >= 0), 0)"
_CLOSE: Final = (
    "const t = profscope.timeline, s = t.profile.spans, a = t.level.arcs[t.level.arcs.length >> 1];"
    "const m = a ? s.start[a.flight] : (t.from + t.to) / 2, w = (t.to - t.from) / 12;"
    "t.setWindow(m - w / 4, m + w);"
    "const row = t.level.rows.find((r) => r.count && (!a || r.items.includes(a.wait)));"
    "if (a) t.reveal({ row, i: row.items.indexOf(a.wait), item: a.wait })"
)
_OPEN: Final = "document.querySelectorAll('details.row.hot').forEach((each) => (each.open = true))"


def main(argv: Sequence[str] | None = None) -> int:
    """Take them; returns 1 where there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m bench.report_pictures", description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args(argv)
    if why := why_no_browser():
        print(f"bench.report_pictures {why}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with window(*(1400, 900)) as driver:
        for trace in options.traces:
            name = trace.name.partition(".")[0]
            page = options.out / f"{name}.html"
            profscope.load(trace).save(page)
            opened(driver, page)
            if options.dark:
                driver.find_element("id", "theme").click()
            for width in _WIDTHS:
                _whole(driver, width, options.out / f"{name}-{width}.png")
            driver.set_window_size(1400, 900)
            has_timeline = driver.execute_script("return Boolean(profscope.timeline)")
            for zoom, code in (("cta", _CTA), ("close", _CLOSE)) if has_timeline else ():
                driver.execute_script(code)
                _taken(driver, options.out / f"{name}-{zoom}.png")
            driver.execute_script(_OPEN)
            _whole(driver, 1400, options.out / f"{name}-open.png")
            print(name, f"{page.stat().st_size:,} bytes", driver.get_log("browser"))
    return 0


def _whole(driver: Any, width: int, path: Path) -> None:
    driver.set_window_size(width, 900)
    time.sleep(_DRAWN_S)
    tall = driver.execute_script("return document.documentElement.scrollHeight")
    driver.set_window_size(width, min(tall + 100, _TALLEST))
    _taken(driver, path)


def _taken(driver: Any, path: Path) -> None:
    time.sleep(_DRAWN_S)
    driver.save_screenshot(str(path))


if __name__ == "__main__":
    raise SystemExit(main())
