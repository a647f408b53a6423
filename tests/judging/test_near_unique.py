"""Columns in which most records have a value that no one else has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import notes
from privpipe.judging.notes import Values, near_unique_notes, values_of

DATA: dict[str, list[Any]] = {
    "income": [1, 1, 2, 3, 4, None, None, 5],
    "rent": [9, 9, 8, 7, 7, 6, None, 5],
    "home": ["x", "x", "y", "z", "w", "w", "v", "v"],
}


def found(engine: Engine, household: str | None, **more: list[Any]) -> dict[str, Values]:
    table = engine.scan(Source(data=pa.table({**DATA, **more})))
    return values_of(engine, table, ["income", "rent"], 8, household)


@pytest.mark.parametrize("held", [1_000_000, 0])
def test_values_of_one_record_are_its_own_and_a_missing_one_is_nobodys(
    engine: Engine, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "HELD", held)
    assert found(engine, None) == {"income": Values(5, 4), "rent": Values(5, 3)}


def test_what_a_household_alone_has_is_its_own(engine: Engine) -> None:
    assert found(engine, "home") == {"income": Values(5, 6), "rent": Values(5, 5)}


def test_records_without_a_household_are_not_one_household(engine: Engine) -> None:
    home = [None, None, *DATA["home"][2:]]
    assert found(engine, "home", home=home) == {"income": Values(5, 4), "rent": Values(5, 3)}


def test_more_than_half_of_the_records_make_a_note() -> None:
    assert near_unique_notes({"a": Values(9, 5)}, 10, None) == []
    assert near_unique_notes({"a": Values(9, 6)}, 10, None)[0].startswith("60 % of the records")
    assert "their household's" in near_unique_notes({"a": Values(9, 6)}, 10, "home")[0]
