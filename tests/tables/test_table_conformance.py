"""Every entry on cells, on hostile tables of every engine: what the embedded engine has; frequencies by definition."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import PrivpipeError
from privpipe.tables import CELL_GUARANTEES, STAGES, Aggregate, MinimumFrequency, PPercent, SuppressTable, TableAudit
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage
from privpipe.testing import HOSTILE_TABLES, HostileTable
from tests.hostile_kinds import KINDS
from tests.tables.test_hostile_tables import normalised
from tests.tiers import deep

MAGNITUDES = {
    "place": ["Ö", "Ö", "Ö", "a,b", "a,b", "a,b", "", "", None, None, "Ö", "a,b", "", None, "Ö"],
    "kind": ["x", "x", "y", "x", "y", "y", "x", "y", "x", "y", "y", "x", "x", "x", None],
    "amount": [5, 5, 900, 7, 7, 7, 0, 0, 1, 2, 12, None, 40, 6, 3],
    "holder": ["1", "1", "2", "3", "4", "5", "6", "7", "8", "9", "2", "3", "10", "11", "ß"],
}
"""Ties, a giant, zeros, nulls, an empty text, and a holder in two cells."""


def entries(catalogue: Any, kind: type[Any]) -> Iterator[Any]:
    """Examples of every entry of a catalogue."""
    for name in catalogue.class_names:
        entry = catalogue.attribute(name)
        assert issubclass(entry, kind)
        if entry is not Aggregate:
            yield from entry.examples()


def counted(engine: Engine, frame: Any, by: list[str], responses: list[Any], person: str | None) -> TableSet:
    guarantees: tuple[CellGuarantee, ...] = (MinimumFrequency(at_least=3), TableAudit())
    if len(responses) > 1:
        guarantees = (*guarantees, PPercent(at_least=10))
    stage = Aggregate(by=by, responses=responses, total="*total*")
    seed = Seed.insecure("conformance")
    return stage.tables_over(
        engine,
        engine.scan(Source(data=frame)),
        person=person,
        seed=seed,
        hierarchies={},
        guarantees=guarantees,
        sensitive=by[-1:],
    )


def said(tables: TableSet) -> dict[str, Any]:
    """What every entry makes of tables: figures, or the kind of the error and its message."""
    found: dict[str, Any] = {"tables": rows(tables)}
    hidden = tables
    for stage in entries(STAGES, TableStage):
        try:
            after = stage.run(tables)
            found[repr(stage)] = rows(after)
            hidden = after if isinstance(stage, SuppressTable) else hidden
        except PrivpipeError as error:
            found[repr(stage)] = (type(error).__name__, str(error))
    for guarantee in entries(CELL_GUARANTEES, CellGuarantee):
        for name, shown in (("before", tables), ("hidden", hidden)):
            try:
                verdict = guarantee.judge(shown)
                found[f"{guarantee} {name}"] = (verdict.outcome, verdict.observed, verdict.reason)
            except PrivpipeError as error:
                found[f"{guarantee} {name}"] = (type(error).__name__, str(error))
    return found


def rows(tables: TableSet) -> list[Any]:
    """Public rows, in no order: labels are in the order in which engines sort values."""
    return sorted(map(repr, next(iter(tables.public().values())).to_pylist()))


def on(engine: str, tables: Any, usual: int) -> list[Any]:
    judged = [table for table in tables if table.refused is None]
    make = [pytest.param if at < usual else deep for at in range(len(judged))]
    return [one(engine, table, id=f"{engine}-{table}") for one, table in zip(make, judged, strict=True)]


@pytest.mark.parametrize(
    ("engine", "table"),
    [*on("embedded", HOSTILE_TABLES.values(), 4), *on("dask", KINDS, 1), *on("spark", KINDS[:3], 0)],
    indirect=["engine"],
)
def test_every_entry_says_the_same_of_a_hostile_table(engine: Engine, embedded: Engine, table: HostileTable) -> None:
    by = [*table.roles.quasi_identifiers[:1], "illness"]
    tables = counted(engine, table.frame(), by, ["count"], None)
    sizes = Counter(zip(*([normalised(value) for value in table.rows[name]] for name in by), strict=True))
    cells = [
        sum(size for key, size in sizes.items() if all(a is None or a[0] == b for a, b in zip(shown, key, strict=True)))
        for labels in sizes
        for shown in itertools.product(*((None, (label,)) for label in labels))
    ]
    verdict = MinimumFrequency(at_least=3).judge(tables)
    if cells:
        assert verdict.observed == min(cells)
        assert verdict.outcome == ("pass" if min(cells) >= 3 else "fail")
    else:
        assert verdict.outcome == "error"
    if engine is not embedded:
        assert said(tables) == said(counted(embedded, table.frame(), by, ["count"], None))
    else:
        assert said(tables) == said(tables)
    for stage in (SuppressTable(), SuppressTable(method="gauss", zeros=True)):
        try:
            after = stage.run(tables)
        except PrivpipeError:
            continue
        assert [each.judge(after).outcome for each in tables.guarantees] in (["pass"] * 2, ["error", "pass"])


@pytest.mark.parametrize(
    ("engine", "person"), [("dask", "holder"), deep("dask", None), deep("spark", "holder")], indirect=["engine"]
)
def test_every_entry_says_the_same_of_magnitudes(engine: Engine, embedded: Engine, person: str | None) -> None:
    import pyarrow as pa

    frame = pa.table(MAGNITUDES)
    found = [
        said(counted(each, frame, ["place", "kind"], ["count", {"sum": "amount"}], person))
        for each in (engine, embedded)
    ]
    assert found[0] == found[1]
    assert found[0][f"{PPercent(at_least=10)} before"][0] == "fail"
