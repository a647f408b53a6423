"""Licences: the page lists every direct dependency, and each may be used, changed and passed on."""

from __future__ import annotations

import re

from tests.packages.asked import DEVELOPERS, asked_for, extras
from tests.packages.licences import ALLOWED, PAGE, direct, licence_of, page, rows_of

TEXT = PAGE.read_text(encoding="utf-8")
LISTED = rows_of(TEXT)
USERS = direct(tuple(name for name in extras() if name not in DEVELOPERS))
OF_TESTS = {"psycopg": "LGPL-3.0-only"}
"""What no user installs may be under other free licences."""


def parts_of(expression: str) -> set[str]:
    return set(re.split(r"\s+(?:AND|OR|WITH)\s+|[()\s]+", expression)) - {""}


def test_the_page_lists_every_direct_dependency() -> None:
    base = {re.sub(r"[-_.]+", "-", each.name).lower() for each in asked_for(())}
    assert set(LISTED) == base | set(direct(tuple(extras())))


def test_the_page_is_the_one_that_is_written() -> None:
    def without_licences(text: str) -> list[str]:
        return [line.rpartition("| ")[0] if line.startswith("| ") else line for line in text.splitlines()]

    assert without_licences(page(LISTED)) == without_licences(TEXT), "run `make licences`"


def test_each_licence_is_one_of_those_allowed() -> None:
    refused = [
        (name, said)
        for name in LISTED
        for said in (LISTED[name], licence_of(name) or LISTED[name])
        if not (parts_of(said) <= ALLOWED or (name not in USERS and OF_TESTS.get(name) == said))
    ]
    assert refused == []
