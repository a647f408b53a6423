"""Texts that spreadsheets run as formulas: noted, written behind an apostrophe and read back, or refused."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, PolicyError

ILLNESS = ["=1+1", "-5", "'=quoted", "plain", '"+x"', "@home", "\ttab", "'just a quote"]
AGES = {"young": "-40", "old": "+40"}
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A policy over a table with such texts in a sensitive column, in labels, and in the name of a column."""
    (tmp_path / "ages.csv").write_text(
        "".join(f"{age};{AGES['young' if age < 40 else 'old']};*\n" for age in range(20, 60))
    )

    def policy(rule: str | None, *, name: str = "=home", format: str = "csv") -> dict[str, Any]:
        rows = {"age": [20 + at % 40 for at in range(160)], "ill": [ILLNESS[at % 8] for at in range(160)]}
        pd.DataFrame({**rows, name: [-1.5] * 160}).to_parquet(tmp_path / "people.parquet")
        return {
            "source": {"path": str(tmp_path / "people.parquet")},
            "columns": {
                "age": {
                    "role": "quasi_identifier",
                    "type": "integer",
                    "hierarchy": {"file": str(tmp_path / "ages.csv")},
                },
                "ill": {"role": "sensitive"},
                name: {"role": "insensitive"},
            },
            "transform": [{"generalize": {"levels": {"age": 1}}}],
            "guarantees": [{"k_anonymity": {"k": 80}}, {"distinct_l_diversity": {"column": "ill", "l": 8}}],
            "measures": [{"record_linkage": {"columns": ["age"]}}],
            "sink": {"path": str(tmp_path / "out"), "format": format, **({"formula_cells": rule} if rule else {})},
        }

    return policy


def cells(folder: Path) -> list[list[str]]:
    """Fields as a spreadsheet program reads them."""
    found = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as lines:
            found += list(csv.reader(lines))
    return found


def formulas(folder: Path) -> int:
    """Texts that it would run; the numbers in the last column are none."""
    rows = cells(folder)
    return sum(cell[:1] in ("=", "+", "-", "@", "\t", "\r") for row in rows for cell in row[:-1]) + rows[0][
        -1
    ].startswith("=")


@pytest.mark.parametrize("rule", [None, "keep"])
def test_by_default_they_are_kept_and_noted(engine: Engine, make: Make, rule: str | None) -> None:
    result = pp.release(make(rule), engine=engine)
    (note,) = [note for note in result.assessment.notes if "spreadsheet" in note]
    assert "160 cells of column 'age'" in note
    assert "80 cells of column 'ill'" in note  # four of eight values begin with a sign
    assert "the name of column '=home'" in note
    assert formulas(Path(result.path)) == 160 + 80 + 1


def test_escaped_ones_are_not_formulas_and_read_back_as_they_were(engine: Engine, make: Make) -> None:
    document = make("escape")
    result = pp.release(document, engine=engine)
    assert result.assessment.passed
    assert formulas(Path(result.path)) == 0
    header, *rows = cells(Path(result.path))
    assert header == ["age", "ill", "'=home"]
    assert {row[0] for row in rows} == {"'-40", "'+40"}
    assert sorted({row[1] for row in rows}) == sorted(
        ["'=1+1", "'-5", "''=quoted", "plain", '"+x"', "'@home", "'\ttab", "'just a quote"]
    )
    assert {row[2] for row in rows} == {"-1.5"}  # a number stays one
    judged = pp.assess(result.path, document, engine=engine)
    assert judged.passed
    assert [verdict.observed for verdict in judged.verdicts] == [
        verdict.observed for verdict in result.assessment.verdicts
    ]


def test_refused_ones_publish_nothing(engine: Engine, make: Make) -> None:
    document = make("refuse", name="home")
    with pytest.raises(DataError, match=r"160 cells of column 'age', 80 cells of column 'ill' begin with") as caught:
        pp.release(document, engine=engine)
    assert "1+1" not in str(caught.value)
    assert not Path(document["sink"]["path"]).exists()


def test_the_name_of_a_column_alone_is_refused_too(make: Make, embedded: Engine) -> None:
    document = make("refuse")
    document["columns"]["ill"] = {"role": "identifier"}
    document["guarantees"] = document["guarantees"][:1]
    document["transform"] = []
    document["guarantees"] = [{"k_anonymity": {"k": 4}}]
    with pytest.raises(DataError, match="the name of column '=home' begin with"):
        pp.release(document, engine=embedded)


def test_other_formats_have_no_formulas(make: Make, embedded: Engine) -> None:
    result = pp.release(make(None, format="parquet"), engine=embedded)
    assert not [note for note in result.assessment.notes if "spreadsheet" in note]
    with pytest.raises(PolicyError, match="formula_cells.*is for `format: csv`"):
        pp.Policy.from_dict(make("escape", format="json"))
    with pytest.raises(PolicyError, match="must be one of keep, escape, refuse"):
        pp.Policy.from_dict(make("drop"))
