"""The site is built without the network and without a warning, is complete, and refers to nothing outside."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from ruamel.yaml import YAML

import privpipe as pp
from privpipe.blocks import Catalogue
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.transforms import CATALOGUE as TRANSFORMS

from .page_blocks import FENCE

ROOMS: dict[str, Catalogue] = {"transforms": TRANSFORMS, "models": MODELS, "measures": MEASURES}
# Whatever asks for the network ends the build.
BUILD = """
import socket, sys
def refuse(*_): raise OSError("the network was asked for")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--quiet", "--site-dir", sys.argv[1]])
"""


class Page(HTMLParser):
    """Ids and links of a page, and what a browser would load with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "link", "img", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if name in given]


def build(project: Path, folder: Path) -> Path:
    """The site, with every page that is made while it is built."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert not done.stdout + done.stderr, "the build is not silent"
    return folder


def broken_links(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Links within the site that lead nowhere, by page."""
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            place = unquote(parts.path)
            # The page of lost readers alone begins at the root: it is shown at any address.
            base = site if path.name == "404.html" else path.parent
            target = (base / place.lstrip("/")).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            lost = (
                bool(parts.fragment) and unquote(parts.fragment) not in pages[target].ids if target in pages else False
            )
            if not target.exists() or lost:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def from_outside(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Scripts, styles, pictures and fonts of other hosts."""
    found = [f"{path.name}: {place}" for path, page in pages.items() for place in page.loaded if urlsplit(place).netloc]
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        found += [path.name for sign in ("url(http", "url(//", "@import") if sign in text]
    return found


@pytest.mark.deep
def test_the_site_is_built_whole_and_refers_to_nothing_outside(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    site = build(project, tmp_path / "site")
    pages = {path: Page(path) for path in site.rglob("*.html")}
    missing = [
        f"{room}/{name}"
        for room, catalogue in ROOMS.items()
        for name in catalogue.built_in
        if site / room / f"{name}.html" not in pages
    ]
    assert missing == []
    assert broken_links(site, pages) == []
    assert from_outside(site, pages) == []
    told = pages[site / "reference" / "python.html"].ids
    assert {name.lower() for name in pp.__all__} - {*ROOMS, "errors", "__version__"} <= told
    assert not list(site.rglob("*.py"))


def test_examples_are_spelt_so_that_they_build(project: Path) -> None:
    """A policy's line and a Python call of every example give the example again."""
    spec = importlib.util.spec_from_file_location("spelling", project / "docs" / "site" / "spelling.py")
    assert spec is not None
    assert spec.loader is not None
    spelling = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(spelling)
    for room, catalogue in ROOMS.items():
        for name in catalogue.built_in:
            for example in catalogue[name].examples():
                call = spelling.as_python(example, room)
                assert eval(call, {"pp": pp}) == example  # our own text
                [(_, [line])] = YAML(typ="safe").load(spelling.as_policy(example, room)).items()
                assert catalogue[name].build(line[name]) == example


def test_make_docs_builds_as_the_test_does(project: Path) -> None:
    recipe = (project / "Makefile").read_text(encoding="utf-8").partition("\ndocs: setup\n")[2].splitlines()[0]
    assert recipe.endswith("-m mkdocs build --strict --quiet")


def test_no_page_of_a_catalogue_is_kept_by_hand(project: Path) -> None:
    assert not any((project / "docs" / room).exists() for room in ROOMS)


def test_fences_say_their_language(project: Path) -> None:
    for path in (project / "docs").rglob("*.md"):
        labels = {label.strip() for label, _ in FENCE.findall(path.read_text(encoding="utf-8"))}
        assert labels <= {"python", "yaml", "yml", "console", "text", "json", "sql", "pycon", "python spark", ""}, path
