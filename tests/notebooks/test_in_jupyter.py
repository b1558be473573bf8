"""In a kernel of Jupyter's, and in a browser: what cells give, the report in its frame, and the examples."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from profscope.profiles import load
from profscope.traces.html.notebook import framed
from tests.support.browser import NEEDED, why_no_browser, window

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
RECORDING = ROOT / "tests" / "data" / "findings" / "starving-partition.json.gz"
_TIMEOUT_S = 300
LAST = {"1-first-profile": "prof", "2-find-a-stall": "after", "3-a-program": "prof"}
"""A profile of each example."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of Jupyter's own
]


def run(notebook: Any, folder: Path) -> list[list[Any]]:
    """Run it in a kernel of its own; the outputs of each cell of code."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "IPYTHONDIR": str(folder)}
    client = NotebookClient(notebook, timeout=_TIMEOUT_S, kernel_name="python3")
    client.execute(cwd=str(folder), env=environment)
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(path: Path, tmp_path: Path) -> None:
    """On the emulator, from the first cell to the last; what is checked in shows as much."""
    notebook = nbformat.read(path, as_version=4)
    kept = [kinds(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any("image/png" in each for outputs in kept for each in outputs)  # though nobody imported pyplot
    assert any("Verdict: " in text for cell in notebook["cells"] for text in htmls(cell))
    notebook["cells"].append(nbformat.v4.new_code_cell(f"{LAST[path.stem]}.show(height=300)"))
    *outputs, report = run(notebook, tmp_path)
    assert [kinds(each) for each in outputs] == kept
    html = report[0]["data"]["text/html"]
    assert html.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert 'height="300"' in html


def htmls(cell: Any) -> list[str]:
    return [output["data"].get("text/html", "") for output in cell.get("outputs", ()) if "data" in output]


def kinds(outputs: list[Any]) -> list[list[str]]:
    """What each output is made of; figures of the emulator may change with the kernels' binaries."""
    return [sorted(output.get("data") or [output["output_type"]]) for output in outputs]


def test_the_examples_are_small() -> None:
    assert len(EXAMPLES) == 3
    for path in EXAMPLES:
        assert path.stat().st_size < 400_000, path.name


class Frame(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.attributes: dict[str, str | None] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        self.attributes = dict(attrs)


def test_the_report_runs_in_its_frame(tmp_path: Path) -> None:
    """Its script runs, its links stay in it, and it cannot reach the page around it."""
    if why_no_browser() and not os.environ.get(NEEDED):
        pytest.skip(why_no_browser())
    html = framed(load(RECORDING).tables, 600)
    assert Frame(html).attributes["sandbox"] == "allow-scripts"
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{html}")
    from selenium.webdriver.support.ui import WebDriverWait

    with window() as driver:
        driver.get(page.as_uri())
        driver.switch_to.frame(0)
        ready = "return document.documentElement.dataset.ready"
        WebDriverWait(driver, 30).until(lambda each: each.execute_script(ready))
        assert driver.execute_script(ready) == "true", driver.get_log("browser")
        driver.find_element("css selector", "header nav a[href='#about']").click()
        assert driver.execute_script(ready) == "true"  # still the report, not the page around it
        assert driver.execute_script("return document.location.href").startswith("about:srcdoc")
        reach = "try { return parent.document.title } catch (error) { return error.name }"
        assert driver.execute_script(reach) == "SecurityError"
        assert [entry for entry in driver.get_log("browser") if "SecurityError" not in entry["message"]] == []
