"""Contributors who know hidden cells: alone in them, or with nearly all of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import Refused, UsageError
from privpipe.tables.families import Family, families
from privpipe.tables.table_audit import contributors_who_know

TABLES = {
    "all": {"by": ["region", "age"], "responses": [{"sum": "cost"}]},
    "women": {"by": ["region"], "only": {"sex": "f"}, "responses": [{"sum": "cost"}]},
}
SHARE = Fraction(3, 10)


def records(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    number = int(draw.integers(6, 14))
    return pd.DataFrame(
        {
            "region": draw.choice(["N", "S", "W"], number),
            "age": draw.choice(["young", "old"], number),
            "sex": draw.choice(["f", "m"], number),
            "person": draw.integers(0, number, number),
            "cost": draw.integers(1, 60, number),
        }
    )


def hidden_family(rows: pd.DataFrame, person: str | None, seed: int) -> Family:
    """Two tables of other populations with some of their cells hidden."""
    made = pp.tables.Aggregate(tables=TABLES).apply(rows, person_id=person)
    draw = np.random.default_rng(seed)
    joint = next(iter(made.values())).joint
    hidden = {name: table.hiding(draw.random(len(table)) < 0.6) for name, table in made.items()}
    [family] = [each for each in families(hidden, joint) if each.key == "cost"]
    return family


def known_by_definition(family: Family, rows: pd.DataFrame, person: str | None) -> list[dict[int, tuple[int, int]]]:
    """For each contributor the hidden variables that it knows, between which values."""
    found: dict[Any, dict[int, tuple[int, int]]] = {}
    who = rows[person] if person else pd.Series(range(len(rows)))
    for table, variables in zip(family.tables[: family.published], family.cells.variables, strict=False):
        for codes, variable in zip(table.cells.codes, variables.tolist(), strict=True):
            inside = pd.Series(True, index=rows.index)
            for dimension, code in zip(table.cells.dimensions, codes, strict=True):
                if code:
                    inside &= rows[dimension.name] == dimension.labels[code]
            for column, label in table.cells.only.items():
                inside &= rows[column] == label
            given = rows[inside].groupby(who[inside])["cost"].sum()
            whole = int(given.sum())
            for name, value in given.items() if family.hidden[variable] else ():
                rest = whole - int(value)
                if rest < SHARE * whole:
                    found.setdefault(name, {})[variable] = (whole - rest, whole + rest)
    return sorted(found.values(), key=lambda known: sorted(known.items()))


@pytest.mark.parametrize("person", [None, "person"])
def test_they_are_those_of_the_definition(person: str | None) -> None:
    for seed in range(12):
        rows = records(seed)
        family = hidden_family(rows, person, seed)
        everything = np.append(np.flatnonzero(family.hidden), -1)  # one that no one knows: no insider is left out
        insiders = contributors_who_know(family, everything, {None: SHARE})
        got = [
            {int(at): (int(low), int(high)) for at, low, high in zip(each.known, each.low, each.high, strict=True)}
            for each in insiders
            if each.low is not None and each.high is not None
        ]
        assert sorted(got, key=lambda known: sorted(known.items())) == known_by_definition(family, rows, person), seed


def regions(**given: list[tuple[int, int]]) -> pd.DataFrame:
    """Records by region: (firm, cost)."""
    rows = [(region, firm, cost) for region, listed in given.items() for firm, cost in listed]
    return pd.DataFrame(rows, columns=["region", "firm", "cost"]).assign(branch=range(len(rows)))


def with_hidden(rows: pd.DataFrame, labels: str, person: str, rules: list[Any]) -> pp.tables.Table:
    table = pp.tables.Aggregate(by=["region"], responses=[{"sum": "cost"}]).apply(
        rows, person_id=person, guarantees=rules
    )
    names = [table.cells.dimensions[0].labels[code] for code in table.cells.codes[:, 0]]
    return table.hiding(np.isin(names, list(labels)))


OTHERS = [(each, 20) for each in range(10, 20)]
RULE = pp.tables.PPercent(at_least=10)


@pytest.mark.parametrize(
    ("insiders", "passes"),
    [("singles", True), ({"singles": "levels"}, True), ("holdings", True), ({"holdings": "levels"}, False)],
)
def test_who_has_nearly_all_of_a_cell_comes_close_to_the_other(insiders: Any, passes: bool) -> None:
    """Firm 1 has 95 of N, so it knows N to within 5, and S too; S needs 6."""
    rows = regions(N=[(1, 95), (2, 5)], S=[(3, 60), (4, 40)], W=OTHERS)
    asked = [RULE, pp.tables.TableAudit(insiders=insiders)]
    table = with_hidden(rows, "NS", "firm", [RULE])
    if passes:
        assert pp.check(table, asked).passed
    else:
        with pytest.raises(Refused, match="1 .* by a contributor"):
            pp.check(table, asked)
    safe = pp.tables.SuppressTable().apply(table, guarantees=asked)
    assert pp.check(safe, asked).passed
    assert int(safe.measures["cost"].hidden.sum()) == (2 if passes else 3)


def test_who_has_all_of_a_cell_next_to_contributions_of_0_knows_it() -> None:
    rows = regions(N=[(1, 100), (2, 0)], S=[(3, 60), (4, 40)], W=OTHERS)
    table = with_hidden(rows, "NS", "firm", [RULE])
    assert pp.check(table, [RULE, pp.tables.TableAudit(insiders="singles")]).passed
    with pytest.raises(Refused, match="1 can be computed by a contributor"):
        pp.check(table, [RULE, pp.tables.TableAudit(insiders="holdings")])


def test_a_holding_alone_in_a_cell_knows_it_though_its_branches_do_not() -> None:
    rule = pp.tables.MinimumFrequency(at_least=2, holding="firm")
    rows = regions(N=[(1, 10), (1, 20), (1, 30)], S=[(2, 10), (2, 40), (2, 40)], W=OTHERS)
    table = with_hidden(rows, "NS", "branch", [rule])
    assert pp.check(table, [rule, pp.tables.TableAudit(insiders="none")]).passed
    with pytest.raises(Refused, match="2 can be computed by a contributor"):
        pp.check(table, [rule, pp.tables.TableAudit()])


def test_the_share_of_holdings_is_that_of_a_rule() -> None:
    rule = pp.tables.MinimumFrequency(at_least=3)
    table = with_hidden(regions(N=[(1, 95), (2, 5)], W=OTHERS, S=OTHERS), "NS", "firm", [rule])
    with pytest.raises(UsageError, match="insiders: holdings"):
        pp.check(table, [rule, pp.tables.TableAudit(insiders="holdings")])


@pytest.mark.parametrize("insiders", [{"singles": "levels", "holdings": "levels"}, {}, {"none": "levels"}])
def test_insiders_of_no_kind_are_refused(insiders: Any) -> None:
    with pytest.raises(UsageError, match="insiders"):
        pp.tables.TableAudit(insiders=insiders)


def test_levels_for_insiders_and_sliding_are_not_judged_together() -> None:
    with pytest.raises(UsageError, match="sliding"):
        pp.tables.TableAudit(insiders={"singles": "levels"}, sliding=0.1)


def test_dominance_looks_at_ten_contributors() -> None:
    rows = regions(N=[(firm, 10) for firm in range(10)] + [(10, 5), (11, 5)], S=OTHERS, W=OTHERS)
    for most, unsafe in ((0.9, 1), (0.95, 0)):  # ten of N have 100 of 110
        rule = pp.tables.Dominance(contributors=10, at_most=most)
        found = pp.tables.Aggregate(by=["region"], responses=[{"sum": "cost"}]).apply(
            rows[rows["region"] == "N"], person_id="firm", guarantees=[rule]
        )
        assert int(rule.unsafe(found)["cost"].sum()) == 2 * unsafe
