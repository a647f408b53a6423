"""Names of tables: what is one, and that none becomes part of a statement."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks.table_name import TableName
from privpipe.errors import UsageError

HOSTILE = [
    "",
    " ",
    ".",
    "visits.",
    ".visits",
    "db..visits",
    "a.b.c.d",
    "visits; DROP TABLE visits",
    "visits -- and more",
    "visits WHERE 1=1",
    "(SELECT * FROM secret)",
    "visits/*x*/",
    "db.visits` UNION SELECT * FROM `secret",
    "`db.visits",
    "``",
    "db.` `",
    "`a`b",
    "visits\n",
    "visits\x00",
    "`vis\x1b[31mits`",
    "delta.`/data/raw",
    "vísits",
    '"visits"',
    "${spark.secret}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_anything_but_a_name_is_refused_and_shown_escaped(text: str) -> None:
    with pytest.raises(UsageError, match=r"table") as refused:
        TableName.parse(text)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("visits", ("visits",)),
        ("db.visits", ("db", "visits")),
        ("lake.db.visits_2026", ("lake", "db", "visits_2026")),
        ("`my db`.visits", ("my db", "visits")),
        ("db.`a.b`", ("db", "a.b")),
        ("db.`a``; DROP TABLE x`", ("db", "a`; DROP TABLE x")),
        ("`vísits`", ("vísits",)),
        ("2026.visits", ("2026", "visits")),
    ],
)
def test_a_name_is_its_parts(text: str, parts: tuple[str, ...]) -> None:
    assert TableName.parse(text).parts == parts


PARTS = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda t: t.isprintable() and t.strip()),
    min_size=1,
    max_size=3,
)


@given(PARTS)
def test_any_name_is_read_back_and_quoted_whole(parts: list[str]) -> None:
    """An oracle of quoting: between backquotes stand pairs of backquotes or other signs, and nothing stands outside."""
    name = TableName(tuple(parts))
    assert TableName.parse(str(name)) == TableName.parse(name.sql) == name
    assert re.fullmatch(r"`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)*", name.sql)
    assert re.fullmatch(r'"(?:[^"]|"")+"(?:\."(?:[^"]|"")+")*', name.duckdb)


def test_a_place_is_said_and_counts_for_nothing() -> None:
    placed = TableName.parse("visits", "release.yaml:3: source.table")
    assert placed == TableName.parse("visits")
    assert placed.located("gone") == "release.yaml:3: source.table: gone"
    assert TableName.parse("visits").located("gone") == "gone"
