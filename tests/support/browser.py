"""Pages in a real browser: Debian's chromium, driven by selenium, without a window or a network."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NEEDED = "PROFSCOPE_NEEDS_BROWSER"
"""The environment variable that makes a missing browser a failure, as in CI."""

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--force-device-scale-factor=1", "--force-color-profile=srgb",
)  # fmt: skip
_READY_S = 30


def why_no_browser() -> str:
    """Why pages cannot be opened here; "" where they can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    try:
        import selenium  # noqa: F401
    except ImportError:
        missing.append("selenium")
    return f"needs {', '.join(missing)} (Debian: apt-get install chromium-driver)" if missing else ""


@contextmanager
def window(width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A browser with nothing of anybody's in it."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(prefix="profscope-browser-") as folder:
        for flag in (*_FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(str(shutil.which("chromedriver")), env=_environment(folder))
        driver = webdriver.Chrome(options, service)
        try:
            yield driver
        finally:
            driver.quit()


def _environment(home: str) -> dict[str, str]:
    return {**os.environ, "HOME": home}


def opened(driver: Any, page: Path) -> Any:
    """Open a file, and wait until its script has drawn it; returns the driver."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(page.resolve().as_uri())
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(driver, _READY_S).until(lambda each: each.execute_script(ready))
    assert driver.execute_script(ready) == "true", driver.get_log("browser")
    return driver
