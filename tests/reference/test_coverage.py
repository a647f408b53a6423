"""The site's table of references is the one that `coverage.py` makes."""

from __future__ import annotations

from pathlib import Path

from privpipe.models import CATALOGUE

from .coverage import SHARED, counted, with_table


def test_the_site_says_what_is_checked(project: Path) -> None:
    text = (project / "docs" / "checked-against.md").read_text(encoding="utf-8")
    assert text == with_table(text, SHARED), "run: python -m tests.reference.coverage docs/checked-against.md"


def test_every_referenced_model_is_in_the_catalogue(shared: Path) -> None:
    assert {name for found in counted(shared) for name in found} <= set(CATALOGUE)
