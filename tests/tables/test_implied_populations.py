"""Sums of hidden cells that published ones give away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import Refused
from privpipe.tables.cells import Cells, Dimension, linked
from privpipe.tables.implied_populations import implied_populations
from tests.tables.audit_cases import case_of


def test_hidden_children_of_a_relation_are_those_by_definition(audit_row: dict[str, Any]) -> None:
    case = case_of(audit_row)
    least = audit_row["options"].get("minimum", 0)
    found = implied_populations(case.cells, ~case.problem.published)
    sums = found.sums(np.array([row.get("n") or 0 for row in case.rows]))
    got = {
        (case.names[of], *sorted(case.names[each] for each in found.members(at)), n, 0 < n < least)
        for at, (of, n) in enumerate(zip(found.of.tolist(), sums.tolist(), strict=True))
        if not found.expanded[at]
    }
    expected = audit_row["expected"].get("implied")
    assert expected is None or got == {(i["of"], *sorted(i["cells"]), i["n"], i["unsafe"]) for i in expected}


REGION = Dimension.tree("region", {"N": "All", "S": "All", "W": "All", "S1": "S", "S2": "S", "S3": "S"})


def test_published_cells_below_a_hidden_one_are_taken_away() -> None:
    cells = linked([Cells.labelled([REGION], [(label,) for label in REGION.labels])])
    hidden = np.isin(REGION.labels, ["N", "S", "S2", "S3"])
    found = implied_populations(cells, hidden)
    sets = {tuple(REGION.labels[each] for each in found.members(at)) for at in range(len(found))}
    assert sets == {("N", "S"), ("N", "S2", "S3")}
    assert {REGION.labels[each] for each in found.of} == {"All"}


def test_contributions_of_one_contributor_are_added_over_the_cells_of_a_set() -> None:
    flat = Dimension.tree("region", {"N": "All", "S": "All", "W": "All"})
    cells = linked([Cells.labelled([flat], [(label,) for label in flat.labels])])
    found = implied_populations(cells, np.array([False, True, True, False]))
    largest = np.array([[9, 9], [50, 30], [25, 7], [9, 9]])
    holders = np.array([[1, 2], [7, 8], [8, 7], [1, 2]])
    values, who = found.largest(largest, holders)
    assert values.tolist() == [[57, 55]]
    assert who.tolist() == [[7, 8]]
    nameless, _ = found.largest(largest, np.zeros_like(holders))
    assert nameless.tolist() == [[50, 30]]
    assert found.sums(np.array([100, 80, 32, 9])).tolist() == [112]
    assert found.greatest(np.array([100, 80, 32, 9])).tolist() == [80]


def test_without_hidden_cells_nothing_is_implied() -> None:
    cells = linked([Cells.labelled([REGION], [(label,) for label in REGION.labels])])
    found = implied_populations(cells, np.zeros(len(REGION.labels), dtype=np.bool_))
    assert len(found) == 0
    values, who = found.largest(np.ones((7, 2), dtype=np.int64), np.ones((7, 2), dtype=np.int64))
    assert values.shape == who.shape == (0, 2)
    assert found.greatest(np.ones(7, dtype=np.int64)).tolist() == []


T = pp.tables
REGIONS = {"A": {"f": 5, "m": 12, "x": 3}, "B": {"f": 20, "m": 30, "x": 20}, "C": {"f": 40, "m": 40, "x": 40}}
ROWS = [{"region": region, "sex": sex} for region, row in REGIONS.items() for sex, n in row.items() for _ in range(n)]


def test_a_blank_that_follows_from_others_counts_as_published() -> None:
    """Of A 20 are known, and 12 of them follow from their column: the other 8 are a population below 11."""
    asked = [T.MinimumFrequency(at_least=11, protect="exact"), T.TableAudit()]
    table = T.Aggregate(by=["region", "sex"], responses=["count"]).apply(pd.DataFrame(ROWS), guarantees=asked)
    names = [table.cells.name(cell) for cell in range(len(table))]
    blank = {f"region={region}, sex={sex}" for region in "AB" for sex in "fx"}
    unsafe = table.measures["count"].figures.contributors < 11
    open_ = table.hiding(np.isin(names, [*blank]), unsafe)
    with pytest.raises(Refused, match="1 populations implied by margins are unsafe"):
        pp.check(open_, asked)
    followed = open_.hiding(np.isin(names, ["region=A, sex=m"]))
    with pytest.raises(Refused, match="1 populations implied by margins are unsafe"):
        pp.check(followed, asked)
    assert pp.check(followed, [asked[0], T.TableAudit(implied=False)]).passed
    closed = T.SuppressTable().apply(followed, guarantees=asked)
    assert pp.check(closed, asked).passed
    assert int(closed.hidden.sum()) > int(followed.hidden.sum())


def test_only_cells_of_published_tables_could_be_published() -> None:
    """All combinations of two tables follow from them here, and none is a suppressed figure of a table."""
    asked = [T.MinimumFrequency(at_least=3), T.TableAudit()]
    specs = {
        "all": {"by": ["region"], "responses": ["count"]},
        "women": {"by": ["region"], "only": {"sex": "f"}, "responses": ["count"]},
    }
    people = pd.DataFrame([(region, sex) for region in "AB" for sex in "fm"] * 9, columns=["region", "sex"])
    tables = T.Aggregate(tables=specs).apply(people, guarantees=asked)
    assert "could be published" not in pp.check(tables, asked).verdicts[1].reason


def test_the_one_who_did_not_waive_may_have_the_largest_of_two_hidden_cells() -> None:
    """Of A and B together person 1 has 100, person 2 has 16 and all others 7, which is less than a tenth of 100."""
    own = {"A": {1: 50, 2: 8, 3: 4}, "B": {1: 50, 2: 8, 4: 3}, "C": dict.fromkeys(range(5, 25), 10)}
    rows = pd.DataFrame(
        [(region, person, cost, person != 1) for region, of in own.items() for person, cost in of.items()],
        columns=["region", "person", "cost", "waived"],
    )
    asked = [pp.tables.PPercent(at_least=10), pp.tables.TableAudit(insiders="none")]
    table = pp.tables.Aggregate(by=["region"], responses=[{"sum": "cost"}], waived="waived").apply(
        rows, person_id="person", guarantees=asked
    )
    names = [table.cells.dimensions[0].labels[code] for code in table.cells.codes[:, 0]]
    with pytest.raises(Refused, match="1 populations implied by margins are unsafe"):
        pp.check(table.hiding(np.isin(names, ["A", "B"])), asked)
