"""Reports in a real browser, without a network: no request, no error, the same with scripts and without."""

from __future__ import annotations

import html
import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.reporting.officer.page import SECTIONS, report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.report import browser
from privpipe.reporting.run_documents import RunDocuments
from tests.report.accessibility import read

FOUND = browser()
pytestmark = pytest.mark.skipif(FOUND is None, reason="no chromium is installed")
RUNS = ("adult", "released", "public", "refused", "waiting", "masked")
PROBE = """<script>
addEventListener("error", e => document.documentElement.setAttribute("data-error", e.message));
addEventListener("load", () => {
  const root = document.documentElement;
  root.setAttribute("data-requests", performance.getEntriesByType("resource").length);
  root.setAttribute("data-wide", Math.max(0, root.scrollWidth - root.clientWidth));
  root.setAttribute("data-sections", [...document.querySelectorAll("main section")]
    .filter(each => each.getBoundingClientRect().height > 0).length);
  root.setAttribute("data-shapes", [...document.querySelectorAll("svg.chart")]
    .filter(each => each.getBoundingClientRect().width > 0).length);
});
</script>"""
FRAME = """<!doctype html><html><body><iframe width="1100" height="900" sandbox="allow-same-origin" srcdoc="{page}">
</iframe><script>
addEventListener("load", () => {{
  const inner = document.querySelector("iframe").contentDocument, root = document.documentElement;
  const seen = found => [...inner.querySelectorAll(found)].filter(each => each.getBoundingClientRect().height > 0);
  root.setAttribute("data-sections", seen("main section").length);
  root.setAttribute("data-shapes", seen("svg.chart").length);
  root.setAttribute("data-run", inner.title === "run");
}});
</script></body></html>"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


def open_page(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert FOUND is not None
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    given = (
        "--headless",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--enable-logging=stderr",
    )
    asked = [FOUND, *given, *root, f"--user-data-dir={place.parent / 'profile'}", *options]
    return subprocess.run([*asked, place.as_uri()], capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """All that leaves the browser goes here, and is written down."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(502)

        do_CONNECT = do_POST = do_GET  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Nothing is logged."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("name", RUNS)
def test_a_page_opens_without_scripts_errors_or_requests(
    name: str, documents: dict[str, RunDocuments], proxy: tuple[str, list[str]], tmp_path: Path
) -> None:
    page = report_page(ReportData.of(documents[name]))
    place = tmp_path / "report.html"
    place.write_text(page, encoding="utf-8")
    opened = open_page(place, f"--proxy-server={proxy[0]}", "--dump-dom")
    assert "CONSOLE" not in opened.stderr
    assert {"verdict", *SECTIONS} <= read(opened.stdout).ids
    # A frame that may run no script, whatever the page says: its look is asked from outside.
    framed = POLICY.sub("", page).replace("<title>", "<script>document.title = 'run'</script><title>", 1)
    place.write_text(FRAME.format(page=html.escape(framed, quote=True)), encoding="utf-8")
    shown = open_page(place, f"--proxy-server={proxy[0]}", "--dump-dom").stdout
    told = dict(re.findall(r'data-([a-z]+)="([^"]*)"', shown[: shown.index("<body")]))
    assert told == {"sections": str(len(SECTIONS) + 1), "shapes": str(page.count('class="chart"')), "run": "false"}
    # The browser asks its maker for updates; a page would ask someone else.
    assert [each for each in proxy[1] if "google" not in each and "gvt1" not in each] == []


@pytest.mark.parametrize("name", RUNS)
def test_a_page_with_scripts_allowed_is_laid_out_whole(
    name: str, documents: dict[str, RunDocuments], tmp_path: Path
) -> None:
    """A probe is put into the page, whose own policy would forbid it."""
    page = report_page(ReportData.of(documents[name]))
    place = tmp_path / "report.html"
    place.write_text(POLICY.sub("", page).replace("<style>", f"{PROBE}<style>", 1), encoding="utf-8")
    shown = open_page(place, "--dump-dom", "--window-size=1100,900").stdout
    told = dict(re.findall(r'data-([a-z]+)="([^"]*)"', shown[: shown.index("<head")]))
    assert "error" not in told
    assert told["requests"] == "0"
    assert told["wide"] == "0"
    assert int(told["sections"]) == len(SECTIONS) + 1
    assert int(told["shapes"]) == page.count('class="chart"')


def test_a_script_within_a_page_is_not_run(documents: dict[str, RunDocuments], tmp_path: Path) -> None:
    page = report_page(ReportData.of(documents["released"]))
    place = tmp_path / "report.html"
    place.write_text(page.replace("</main>", "<script>document.title = 'run'</script></main>"), encoding="utf-8")
    assert "<title>run</title>" not in open_page(place, "--dump-dom").stdout


def test_a_report_is_printed_on_a4(released: Any, tmp_path: Path) -> None:
    made = tmp_path / "report.pdf"
    done = CliRunner().invoke(app, ["report", released.record, "--lang", "de", "--pdf", str(made)])
    assert done.exit_code == 0, done.stderr
    assert "REPORTED" in done.stderr
    content = made.read_bytes()
    assert content.startswith(b"%PDF")
    sizes = {tuple(map(float, found)) for found in re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", content)}
    assert sizes
    assert all(abs(width - 595) < 2 and abs(height - 842) < 2 for width, height in sizes)
    assert len(content) < 2_000_000
    assert pp.report(released.record, format="html", lang="de")
