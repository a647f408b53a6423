"""An entry with no column to compare records by is refused before a record is read, with what to give."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import privpipe as pp
from privpipe.blocks import Guarantee
from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked
from privpipe.errors import DataError, EngineError, PolicyError, PrivpipeError, UsageError
from privpipe.measures import ClosestRecord, InferenceAttack, RecordLinkage
from privpipe.roles import Roles
from privpipe.testing import people
from tests.gathering import gathered

SEED = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
ROWS = people(40).rows
ROLES = Roles(insensitive=[name for name in ROWS.column_names if name != "illness"], sensitive=["illness"])


def comparing() -> list[Guarantee]:
    """Every example of the catalogues that compares records by the quasi-identifiers where it names no columns."""
    found = []
    for room in (pp.models, pp.measures):
        for name in room.CATALOGUE.class_names:
            for entry in getattr(room, name).examples():
                try:
                    bare = replace(entry, **dict.fromkeys(marked(type(entry), Columns)))
                except UsageError:  # its columns are not a default
                    continue
                # A ledger with a key asks for a person's first.
                if bare.compared_columns(ROLES) == () and not getattr(bare, "key", None):
                    found.append(bare)
    return found


ENTRIES = comparing()


def test_the_catalogues_have_many_of_them() -> None:
    assert len({entry.name() for entry in ENTRIES}) >= 14, sorted({entry.name() for entry in ENTRIES})


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables that examples name."""
    monkeypatch.chdir(tmp_path)
    for name in ("others.csv", "census.csv", "more.csv", "earlier.csv"):
        pyarrow.csv.write_csv(ROWS, name)


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("engine", ["embedded", pytest.param("dask", marks=pytest.mark.dask)])
def test_it_is_refused_and_says_what_to_give(engine: str) -> None:
    with gathered() as case:
        for entry in ENTRIES:
            with case(repr(entry)):
                is_refused(entry, engine)


def is_refused(entry: Guarantee, engine: str) -> None:
    with pytest.raises(UsageError, match=f"{entry.name()} has no column to compare records by: write") as raised:
        pp.assess(ROWS, entry, original=ROWS, align="position", roles=ROLES, seed=SEED, engine=engine)
    field = "columns" if any(each.name == "columns" for each in fields(entry)) else "quasi_identifiers"
    assert f"`{field}: [...]`" in str(raised.value)


@pytest.mark.usefixtures("beside")
def test_no_entry_of_the_catalogues_ends_as_a_fault_of_the_engine() -> None:
    bad: list[str] = []
    for room in (pp.models, pp.measures):
        for name in room.CATALOGUE.class_names:
            for entry in getattr(room, name).examples():
                options: dict[str, Any] = {"population": ROWS} if entry.needs_population else {}
                try:
                    pp.assess(ROWS, entry, original=ROWS, align="position", roles=ROLES, seed=SEED, **options)
                except EngineError as error:
                    bad.append(f"{entry!r}: {error}")
                except PrivpipeError:
                    pass
    assert not bad, "\n".join(bad)


def test_a_policy_is_refused_where_it_is_read() -> None:
    document = {
        "columns": {"a": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": []}}],
        "measures": [{"closest_record": {"quasi_identifiers": []}}],
    }
    with pytest.raises(PolicyError, match=r"measures\[0\].closest_record: closest_record has no column to compare"):
        pp.Policy.from_dict(document)


def test_columns_that_are_named_are_enough() -> None:
    (verdict,) = pp.assess(
        ROWS, ClosestRecord(columns=("age",)), original=ROWS, align="position", roles=ROLES, seed=SEED
    ).measures
    assert verdict.observed["copies"] == 1.0


def test_a_block_or_a_secret_is_not_a_column_to_compare_by() -> None:
    roles = Roles(quasi_identifiers=["illness"])
    assert InferenceAttack(column="illness").compared_columns(roles) == ()
    linkage = RecordLinkage(block_by=("zip",))
    assert (linkage.compared_columns(Roles()), linkage.columns_read(Roles())) == ((), ("zip",))


def test_a_column_that_is_not_there_is_another_error() -> None:
    with pytest.raises(DataError, match="'agee'"):
        pp.assess(ROWS, ClosestRecord(columns=("agee",)), original=ROWS, roles=ROLES, seed=SEED)


def test_an_entry_over_pairs_of_a_plug_in_is_held_to_it_too() -> None:
    from privpipe.blocks.way import PAIRS
    from privpipe.judging.judging import nothing_compared

    class Paired(Guarantee):
        way = PAIRS

    assert "quasi_identifiers" in nothing_compared(Paired(), Roles())
    assert not nothing_compared(Paired(), Roles(quasi_identifiers=["a"]))
    assert not nothing_compared(pp.models.NoIdentifiers(), Roles())
    assert isinstance(ROWS, pa.Table)
