"""The page in a real browser: no errors, tables that sort, words for figures, dark and light."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PROBE = """
<script>
console.log("probe");
const column = (head) => [...head.closest("table").tBodies[0].rows]
  .map((row) => row.cells[head.cellIndex].textContent.trim());
const heads = [...document.querySelectorAll("[aria-labelledby=leaderboard] th")];
const named = (name) => heads.find((head) => head.textContent.trim() === name);
const found = { sorted: {}, states: [] };
for (const name of ["NI, best of n", "agent"]) {
  const head = named(name);
  found.sorted[name] = [];
  for (let click = 0; click < 2; click++) {
    head.querySelector("button").click();
    found.sorted[name].push(column(head));
    found.states.push(head.getAttribute("aria-sort"));
  }
}
found.others = heads.filter((h) => h.hasAttribute("aria-sort") && h !== named("agent")).length;
const pictures = [...document.querySelectorAll("figure svg, details svg")];
found.pictures = pictures.length;
found.silent = pictures.filter((svg) => !(svg.getAttribute("aria-label") || "").trim()).length;
const paper = () => getComputedStyle(document.body).backgroundColor;
const ink = () => getComputedStyle(document.querySelector("figure svg text")).fill;
const theme = document.getElementById("theme");
found.light = [paper(), ink(), theme.getAttribute("aria-pressed")];
theme.click();
found.dark = [paper(), ink(), theme.getAttribute("aria-pressed")];
theme.click();
const find = document.getElementById("find");
find.value = "lift seed 1";
find.dispatchEvent(new Event("input"));
found.found = document.querySelectorAll(".run:not([hidden])").length;
document.getElementById("fold").click();
found.open = document.querySelectorAll(".run[open]").length;
found.ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
found.headings = [...document.querySelectorAll("h1, h2, h3")].map((element) => element.tagName);
found.dangling = [...document.querySelectorAll("a[href^='#']")]
  .filter((link) => !document.getElementById(link.hash.slice(1))).length;
found.overflow = document.documentElement.scrollWidth > document.documentElement.clientWidth;
found.unreachable = [...document.querySelectorAll(".wide")].filter((b) => b.tabIndex).length;
const result = document.createElement("pre");
result.id = "probe-result";
result.textContent = JSON.stringify(found);
document.body.append(result);
</script></body>"""


def opened(page: Path, width: int) -> tuple[dict[str, Any], str]:
    """What the script found on the page in a window of `width` pixels, and what was logged."""
    assert BROWSER
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [
        "--enable-logging=stderr",
        "--virtual-time-budget=4000",
        f"--window-size={width},900",
    ]
    command += [f"--user-data-dir={page.parent / 'browser'}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    result = re.search(r'<pre id="probe-result">(.*?)</pre>', done.stdout, re.S)
    assert result, done.stderr[-2000:]
    return json.loads(html.unescape(result[1])), done.stderr


@pytest.fixture(scope="module")
def browsed(study, tmp_path_factory) -> tuple[dict[str, Any], str]:
    if BROWSER is None:
        pytest.skip("no chromium on this machine")
    page = tmp_path_factory.mktemp("browser") / "probed.html"
    page.write_text(study.page.replace("</body>", PROBE))
    return opened(page, 1280)


def test_nothing_is_logged_but_the_probe(browsed):
    _, logged = browsed
    lines = [line for line in logged.splitlines() if "CONSOLE" in line]
    assert len(lines) == 1
    assert "probe" in lines[0]


def test_tables_sort_by_number_and_by_word(browsed):
    found, _ = browsed
    down, up = ([float(x) for x in values] for values in found["sorted"]["NI, best of n"])
    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert len(set(up)) > 1
    first, second = found["sorted"]["agent"]
    assert first == sorted(first)
    assert second == sorted(second, reverse=True)
    assert found["states"] == ["descending", "ascending", "ascending", "descending"]
    assert found["others"] == 0


def test_every_figure_can_be_heard(browsed):
    found, _ = browsed
    assert found["pictures"] > 20
    assert found["silent"] == 0


def test_dark_and_light(browsed):
    found, _ = browsed
    assert found["light"] == ["rgb(255, 255, 255)", "rgb(27, 31, 36)", "false"]
    assert found["dark"] == ["rgb(20, 23, 26)", "rgb(227, 230, 232)", "true"]


def test_runs_are_found_and_opened(browsed):
    found, _ = browsed
    assert found["found"] == 3
    assert found["open"] == 3


def test_the_page_is_sound(browsed):
    found, _ = browsed
    assert len(found["ids"]) == len(set(found["ids"]))
    assert found["headings"][0] == "H1"
    assert found["headings"].count("H1") == 1
    assert found["dangling"] == 0
    assert not found["overflow"]
    assert found["unreachable"] == 0


def test_the_page_needs_nothing_else(study):
    page = study.page
    assert not re.findall(r"<(?:link|img|iframe|script)[^>]*(?:src|href)=", page)
    assert not re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", page)
    assert "<h2" in page
    assert 'class="skip"' in page


def test_the_same_runs_give_the_same_bytes(study):
    from fml_hydra.report.build import figures_of
    from fml_hydra.report.style import saved

    figure = figures_of(study.sections)[0]
    again = saved(figure, ["png", "pdf"])
    assert again["svg"] == (study.folder / "figures" / f"{figure.name}.svg").read_bytes()
    assert again == saved(figure, ["png", "pdf"])
    assert again["png"].startswith(b"\x89PNG")
    assert again["pdf"].startswith(b"%PDF")
