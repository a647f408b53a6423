"""The hook of `mkdocs.yml`: pages that are made of the catalogues, docstrings and documents while the site is built."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api_pages import api_page, errors_page
from entry_pages import entry_page
from mkdocs.structure.files import File
from toy import Toy

from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.relations import JOINT_GUARANTEES
from privpipe.relations import STAGES as SET_STAGES
from privpipe.reporting.entry_rows import catalogue_tables
from privpipe.tables import CELL_GUARANTEES, STAGES
from privpipe.transforms import CATALOGUE as TRANSFORMS

__all__ = ["on_config", "on_files"]

ROOMS = {"transforms": ("Stages", TRANSFORMS), "models": ("Models", MODELS), "measures": ("Measures", MEASURES)}
OF_TABLES = {name: catalogue[name] for catalogue in (STAGES, CELL_GUARANTEES) for name in catalogue.built_in}
OF_SETS = {name: catalogue[name] for catalogue in (SET_STAGES, JOINT_GUARANTEES) for name in catalogue.built_in}
DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PROJECT = Path(__file__).resolve().parents[2]


def on_config(config: Any) -> Any:
    """Put what is made into the navigation, where `mkdocs.yml` has its title with nothing below it."""
    made: dict[str, list[Any]] = {
        title: [{name: f"{room}/{name}.md"} for name in catalogue.built_in]
        for room, (title, catalogue) in ROOMS.items()
    }
    made["Tables"] = [{name: f"tables/{name}.md"} for name in OF_TABLES]
    made["Related tables"] = [{name: f"relations/{name}.md"} for name in OF_SETS]
    numbered = sorted((PROJECT / "docs" / "decisions").glob("[0-9]*.md"))
    made["Decisions"] = ["decisions/README.md", *(f"decisions/{path.name}" for path in numbered)]
    config.nav = _filled(config.nav, made)
    return config


def _filled(nav: Any, made: dict[str, list[Any]]) -> Any:
    """The navigation with what is made below the titles that have nothing below them."""
    if isinstance(nav, list):
        return [_filled(part, made) for part in nav]
    if isinstance(nav, dict):
        return {title: _filled(below, made) if below else made[title] for title, below in nav.items()}
    return nav


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    for place, text in _pages():
        files.append(File.generated(config, place, content=text))
    return files


def _pages() -> Iterator[tuple[str, str]]:
    yield "catalogue.md", _catalogue()
    yield "reference/python.md", api_page()
    yield "reference/errors.md", errors_page()
    for name in DOCUMENTS:
        yield f"project/{name}", (PROJECT / name).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a solver says of eight records is no fault of the site
        toy = Toy(Path(folder))
        for room, (_, catalogue) in ROOMS.items():
            for name in catalogue.built_in:
                yield f"{room}/{name}.md", entry_page(catalogue[name], room, toy)
        for name, entry in OF_TABLES.items():
            yield f"tables/{name}.md", entry_page(entry, "tables", toy)
        for name, entry in OF_SETS.items():
            yield f"relations/{name}.md", entry_page(entry, "relations", toy)


def _catalogue() -> str:
    """The tables, each name a link to its page."""
    places = {name: room for room, (_, catalogue) in ROOMS.items() for name in catalogue.built_in}
    places |= dict.fromkeys(OF_TABLES, "tables") | dict.fromkeys(OF_SETS, "relations")
    tables = re.sub(
        r"^\| `(\w+)` \|", lambda row: f"| [`{row[1]}`]({places[row[1]]}/{row[1]}.md) |", catalogue_tables(), flags=re.M
    )
    tables = re.sub(r"^(\*\*.*)$", r"\1\n", tables, flags=re.M)
    return (
        "# The catalogue\n\nEvery entry has one name and the same parameters in a policy, in Python (CamelCase), on "
        "the command line (`privpipe explain k_anonymity`) and in Great Expectations.\n\n" + tables
    )
