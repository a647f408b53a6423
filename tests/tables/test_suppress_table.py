"""The stage `suppress_table`: patterns over all tables of a release, and its options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import privpipe as pp
from privpipe.errors import DataError, NoSolutionError, Refused, UsageError
from privpipe.tables import suppress_table
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.entries import TableSet
from privpipe.tables.suppression import METHODS
from privpipe.tables.table import Table
from tests.tiers import deep

T = pp.tables
Tables = dict[str, Table]
SEVERAL: dict[str, dict[str, Any]] = {
    "another population": {
        "all": {"by": ["region", "age"], "responses": ["count"]},
        "women": {"by": ["region", "ill"], "only": {"sex": "f"}, "responses": ["count"]},
    },
    "shared margins": {
        "one": {"by": ["region", "age"], "responses": ["count"]},
        "two": {"by": ["age", "sex"], "responses": ["count"]},
        "three": {"by": ["region", "ill"], "responses": ["count"]},
    },
    "one inside the other": {
        "one": {"by": ["region", "age", "sex"], "responses": ["count"]},
        "two": {"by": ["age", "sex"], "responses": ["count"]},
    },
    "sums": {
        "all": {"by": ["region", "age"], "responses": ["count", {"sum": "cost"}]},
        "women": {"by": ["region"], "only": {"sex": "f"}, "responses": ["count", {"sum": "cost"}]},
    },
}


def people(seed: int, number: int) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "region": draws.choice(list("NSWE"), number, p=[0.45, 0.3, 0.15, 0.1]),
            "age": draws.choice(["a", "b", "c"], number, p=[0.6, 0.3, 0.1]),
            "sex": draws.choice(["f", "m"], number),
            "ill": draws.choice(["y", "z"], number, p=[0.8, 0.2]),
            "cost": np.exp(draws.normal(3, 1.2, number)).astype(np.int64),
            "person": draws.integers(0, int(number * 0.7), number),
        }
    )


def asked_for(kind: str, at_least: int) -> list[Any]:
    rules: list[Any] = [T.MinimumFrequency(at_least=at_least), T.TableAudit()]
    return [T.PPercent(at_least=10, response="cost"), *rules] if kind == "sums" else rules


def shown(table: Table) -> dict[str, list[bool]]:
    return {key: measure.hidden.tolist() for key, measure in table.measures.items()}


@pytest.mark.parametrize(
    ("kind", "seed", "method"),
    [
        *((kind, 1, method) for kind in sorted(SEVERAL) for method in METHODS),
        *(deep(kind, 2, "auto") for kind in sorted(SEVERAL)),
        deep("sums", 2, "optimal"),
    ],
)
def test_a_pattern_passes_the_joint_audit_or_there_is_none(kind: str, seed: int, method: Any) -> None:
    """Tables of other populations, linked tables, persons in several cells: what comes back passes the gate."""
    asked = asked_for(kind, [3, 5, 10][seed])
    person = {"person_id": "person"} if seed == 2 else {}
    tables = T.Aggregate(tables=SEVERAL[kind]).apply(people(seed, [60, 150, 300][seed]), guarantees=asked, **person)
    safe = T.SuppressTable(method=method).apply(tables, guarantees=asked)
    assert pp.check(safe, asked).passed


def test_a_difference_between_populations_is_hidden_though_no_cell_is_unsafe() -> None:
    """All of the North but one are women: 12 and 11 are safe by themselves, and their difference is one man."""
    frame = pd.DataFrame({"region": ["N"] * 12 + ["S"] * 20, "sex": ["f"] * 11 + ["m"] + ["f", "m"] * 10})
    tables = {
        "all": {"by": ["region"], "responses": ["count"]},
        "women": {"by": ["region"], "only": {"sex": "f"}, "responses": ["count"]},
    }
    asked = [T.MinimumFrequency(at_least=3), T.TableAudit()]
    made = T.Aggregate(tables=tables).apply(frame, guarantees=asked)
    with pytest.raises(Refused, match="populations implied by margins are unsafe"):
        pp.check(made, asked)
    safe = T.SuppressTable().apply(made, guarantees=asked)
    assert pp.check(safe, asked).passed
    # Each table alone asks for nothing.
    for table in made.values():
        assert not T.SuppressTable().apply(table, guarantees=asked).hidden.any()


def test_tables_that_were_counted_apart_are_not_judged_together() -> None:
    frame = people(0, 60)
    asked = [T.MinimumFrequency(at_least=3), T.TableAudit()]
    women = T.Aggregate(by=["region"], only={"sex": "f"}, responses=["count"]).apply(frame)
    everyone = T.Aggregate(by=["region"], responses=["count"]).apply(frame)
    with pytest.raises(UsageError, match="counted apart"):
        pp.check({"all": everyone, "women": women}, asked)
    with pytest.raises(UsageError, match="counted apart"):
        T.SuppressTable().apply({"all": everyone, "women": women}, guarantees=asked)


def test_a_stage_for_one_table_leaves_the_others_and_knows_them() -> None:
    asked = [T.MinimumFrequency(at_least=4), T.TableAudit()]
    made = T.Aggregate(tables=SEVERAL["another population"]).apply(people(1, 150), guarantees=asked)
    first = T.SuppressTable(tables=["all"]).apply(made, guarantees=asked)
    assert first["all"].hidden.any()
    assert not first["women"].hidden.any()
    both = T.SuppressTable(tables=["women"]).apply(first, guarantees=asked)
    assert shown(both["all"]) == shown(first["all"])
    assert pp.check(both, asked).passed


def test_what_cannot_be_protected_is_counted_by_rule() -> None:
    frame = pd.DataFrame({"region": ["N"] * 12 + ["S"] * 2, "sex": "f"})
    made = T.Aggregate(by=["region"], responses=["count"]).apply(frame)
    stage = T.SuppressTable(fixed=[{"region": "Total"}, {"region": "N"}])
    with pytest.raises(NoSolutionError, match="minimum_frequency: 1"):
        stage.apply(made, guarantees=[T.MinimumFrequency(at_least=3)])
    with pytest.raises(NoSolutionError, match="1 unsafe cells of table .* are `fixed`"):
        T.SuppressTable(fixed=[{"region": "S"}]).apply(made, guarantees=[T.MinimumFrequency(at_least=3)])


def one_table(seed: int = 1, at_least: int = 5, **more: Any) -> tuple[Table, list[Any]]:
    asked: list[Any] = [
        T.MinimumFrequency(at_least=at_least), T.PPercent(at_least=10, response="cost"), T.TableAudit()
    ]  # fmt: skip
    responses = ["count", {"sum": "cost"}, {"mean": "cost"}]
    stage = T.Aggregate(by=["region", "age"], responses=responses, **more)
    return stage.apply(people(seed, 120), guarantees=asked), asked


def labels_of(table: Table, cell: int) -> dict[str, str]:
    return {d.name: d.labels[c] for d, c in zip(table.cells.dimensions, table.cells.codes[cell], strict=True)}


def test_fixed_and_avoided_cells() -> None:
    table, asked = one_table()
    plain = T.SuppressTable().apply(table, guarantees=asked)
    first = int(np.flatnonzero(plain.hidden & ~plain.primary)[0])
    for option in ("fixed", "avoid"):
        found = T.SuppressTable(**{option: [labels_of(table, first)]}).apply(table, guarantees=asked)
        assert not found.hidden[first]
        assert pp.check(found, asked).passed
    with pytest.raises(UsageError, match="no table has all of 'county'"):
        T.SuppressTable(fixed=[{"county": "N"}]).apply(table, guarantees=asked)
    with pytest.raises(UsageError, match="has no such label"):
        T.SuppressTable(avoid=[{"region": "X"}]).apply(table, guarantees=asked)


@pytest.mark.parametrize("cost", ["value", "cells", "contributors", "root", "cost"])
def test_every_cost_gives_a_safe_pattern_of_the_least(cost: str) -> None:
    table, asked = one_table(3)
    asked = [T.MinimumFrequency(at_least=5), T.TableAudit()]
    found = T.SuppressTable(method="optimal", cost=cost).apply(table, guarantees=asked)
    assert pp.check(found, asked).passed


def test_a_cost_is_a_column_that_is_added_up() -> None:
    table, asked = one_table()
    with pytest.raises(UsageError, match="adds up no column 'income'"):
        T.SuppressTable(cost="income").apply(table, guarantees=asked)
    with pytest.raises(UsageError, match="cost is one of"):
        T.SuppressTable(cost="")


def test_each_sum_may_hide_its_own_cells() -> None:
    """Shared, a cell is hidden in every response; apart, sums hide more than the count, and never less."""
    frame = people(3, 200)
    frame.loc[frame.index[frame["region"] == "W"][0], "cost"] = 10**6
    asked = [T.MinimumFrequency(at_least=3), T.PPercent(at_least=10, response="cost"), T.TableAudit()]
    responses = ["count", {"sum": "cost"}, {"mean": "cost"}]
    table = T.Aggregate(by=["region", "age"], responses=responses).apply(frame, guarantees=asked)
    shared, apart = (T.SuppressTable(share_pattern=share).apply(table, guarantees=asked) for share in (True, False))
    for found in (shared, apart):
        assert pp.check(found, asked).passed
    assert np.array_equal(shared.measures["count"].hidden, shared.measures["cost"].hidden)
    count, cost = apart.measures["count"].hidden, apart.measures["cost"].hidden
    assert not (count & ~cost).any()
    assert (cost & ~count).any()
    public = apart.public()
    # A mean next to one of its parts gives the other away.
    assert public["mean_cost"].isna()[cost].all()
    assert (~public["count"].isna())[cost & ~count].all()


def test_cells_hidden_in_vain_are_published_if_all_is_still_safe() -> None:
    """A cell that is alone hidden in its row and column follows from them."""
    table, asked = one_table()
    safe = T.SuppressTable().apply(table, guarantees=asked)
    rows = [set(np.flatnonzero(row)) for row in np.abs(table.cells.relations.toarray())]
    hidden = set(np.flatnonzero(safe.hidden))
    alone = next(
        cell
        for cell in range(len(table))
        if cell not in hidden and not any(cell in row and row & hidden for row in rows)
    )
    more = np.zeros(len(table), dtype=np.bool_)
    more[alone] = True
    for share in (True, False):
        start = safe.hiding(more)
        kept = T.SuppressTable(share_pattern=share).apply(start, guarantees=asked)
        assert kept.hidden[alone]
        fewer = T.SuppressTable(restore=True, share_pattern=share).apply(start, guarantees=asked)
        assert not fewer.hidden[alone]
        assert not (fewer.primary & ~fewer.hidden).any()
        assert pp.check(fewer, asked).passed


def test_structural_zeros_are_never_hidden() -> None:
    frame = pd.DataFrame(
        {"age": ["0-14"] * 9 + ["15+"] * 40, "state": ["single"] * 9 + ["married"] * 3 + ["single"] * 37}
    )
    none = {"age": "0-14", "state": "married"}
    asked = [T.MinimumFrequency(at_least=5, structural=[none]), T.TableAudit()]
    table = T.Aggregate(by=["age", "state"], responses=["count"]).apply(frame, guarantees=asked)
    with pytest.raises(NoSolutionError):  # married and 15+ follows from its total, and so does that
        T.SuppressTable(zeros=True, fixed=[{"age": "Total"}]).apply(table, guarantees=asked)
    frame.loc[0, "state"] = "widowed"
    plain = [T.MinimumFrequency(at_least=5, structural=[none]), T.TableAudit(whole=True)]
    table = T.Aggregate(by=["age", "state"], responses=["count"]).apply(frame, guarantees=plain)
    safe = T.SuppressTable(zeros=True).apply(table, guarantees=plain)
    assert not (safe.hidden & suppress_table.bearing(table.cells, [none], "fixed")).any()
    assert pp.check(safe, plain).passed


def test_marks_tell_which_counts_are_small_and_the_audit_knows() -> None:
    frame = people(5, 260)
    asked = [T.MinimumFrequency(at_least=10), T.TableAudit()]
    table = T.Aggregate(by=["region", "age"], responses=["count"]).apply(frame, guarantees=asked)
    safe = T.SuppressTable(show="below").apply(table, guarantees=asked)
    assert pp.check(safe, asked).passed
    public = safe.public()
    counts = table.measures["count"].figures.contributors
    small = (counts > 0) & (counts < 10)
    assert ((public["count_status"] == "<10") == small).all()
    assert public["count"].isna()[small].all()
    other = public["count"].isna() & ~small
    assert (public["count_status"][other] == "c").all()
    assert other.any()


def test_a_blank_next_to_a_mark_is_at_least_n() -> None:
    """9 with a mark and 11 without one under a total of 20: 20 - 10 = 10 is the most that the marked can leave."""
    frame = pd.DataFrame({"region": ["N"] * 9 + ["S"] * 11})
    asked = [T.MinimumFrequency(at_least=10), T.TableAudit()]
    table = T.Aggregate(by=["region"], responses=["count"]).apply(frame, guarantees=asked)
    plain = T.SuppressTable().apply(table, guarantees=asked)
    assert plain.public()["count"].isna().tolist() == [False, True, True]
    safe = T.SuppressTable(show="below").apply(table, guarantees=asked)
    # S is at least 10 and N at most 9: 1 to 9 stay possible for N, so the same cells do.
    assert safe.public()["count_status"].tolist() == ["published", "<10", "c"]
    assert pp.check(safe, asked).passed
    # 1 next to 10 under 11: a blank of 10 is known to be at least 10, so 1 would be exact; the total is hidden.
    frame = pd.DataFrame({"region": ["N"] * 1 + ["S"] * 10})
    table = T.Aggregate(by=["region"], responses=["count"]).apply(frame, guarantees=asked)
    assert T.SuppressTable().apply(table, guarantees=asked).public()["count"].isna().tolist() == [False, True, True]
    marked = T.SuppressTable(show="below").apply(table, guarantees=asked)
    assert marked.public()["count_status"].tolist() == ["c", "<10", "published"]
    assert pp.check(marked, asked).passed


def test_marks_that_give_cells_away_have_no_pattern() -> None:
    """Two cells of 1 under a total of 2, all marked as below 3: each is 1."""
    frame = pd.DataFrame({"region": ["N"] * 9 + ["S"] * 8 + ["W"] * 2, "sex": ["f", "m"] * 9 + ["f"]})
    asked = [T.MinimumFrequency(at_least=3), T.TableAudit()]
    table = T.Aggregate(by=["region", "sex"], responses=["count"]).apply(frame, guarantees=asked)
    assert pp.check(T.SuppressTable().apply(table, guarantees=asked), asked).passed
    with pytest.raises(NoSolutionError, match="minimum_frequency: "):
        T.SuppressTable(show="below").apply(table, guarantees=asked)


def test_small_differences_between_tables_and_levels_are_hidden() -> None:
    """All but 2 are women of the North: no relation has that difference, and `differencing` refuses it."""
    frame = pd.DataFrame({"region": ["N"] * 21 + ["S"] * 20, "sex": ["f"] * 20 + ["m"] + ["f"] * 19 + ["m"]})
    frame = pd.concat([frame[frame["region"] == "N"], frame[frame["region"] == "S"].head(1)], ignore_index=True)
    asked = [T.MinimumFrequency(at_least=1), T.TableAudit(), T.Differencing(at_least=3)]
    table = T.Aggregate(by=["region", "sex"], responses=["count"]).apply(frame, guarantees=asked)
    with pytest.raises(Refused, match="differences of published cells"):
        pp.check(table, asked)
    safe = T.SuppressTable().apply(table, guarantees=asked)
    assert pp.check(safe, asked).passed
    # What is hidden for that cannot be worked out either.
    shown = safe.public().rename(columns={"count_status": "status"})
    attacked = pp.tables.audit(shown, ["region", "sex"], response="count")
    assert len(attacked)
    assert not attacked["recomputable"].any()
    with pytest.raises(NoSolutionError, match="differencing: [0-9]+ small differences"):
        T.SuppressTable(fixed=[{"region": "Total"}, {"region": "N"}, {"region": "S"}]).apply(table, guarantees=asked)


def test_marks_need_a_rule_about_contributors() -> None:
    table, _ = one_table()
    for asked in ([T.PPercent(at_least=10, response="cost")], [T.MinimumFrequency(at_least=5, count="nonzero")]):
        with pytest.raises(UsageError, match="show: below"):
            T.SuppressTable(show="below").apply(table, guarantees=asked)


def plan_of(stage: Any, tables: TableSet, folder: Path) -> str:
    """The plan as a private record holds it."""
    found = stage.run(tables)
    file = folder / "plan.json"
    file.write_text(json.dumps({"stages": [{"name": "suppress_table", "detail": found.steps[-1]}]}))
    return str(file)


def test_a_kept_pattern_is_hidden_again(tmp_path: Path) -> None:
    table, asked = one_table()
    tables = TableSet(tables={table.name: table}, guarantees=tuple(asked))
    file = plan_of(T.SuppressTable(cost="value"), tables, tmp_path)
    first = T.SuppressTable(cost="value").apply(table, guarantees=asked)
    # Another cost finds another pattern; two of them laid together show more than each.
    again = T.SuppressTable(cost="cells", method="optimal", pattern=file).apply(table, guarantees=asked)
    assert shown(again) == shown(first)
    labels = {label for dimension in table.cells.dimensions for label in dimension.labels}
    assert not any(f'"{label}"' in Path(file).read_text() for label in labels)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "not a private plan"),
        ("{", "not a private plan"),
        ('{"stages": [{"name": "suppress_table", "detail": {}}]}', "not a private plan"),
        ('{"stages": []}', "has no pattern of table"),
        ('{"stages": [{"name": "suppress_table", "detail": {"pattern": {"table": {"table": "00"}}}}]}', "other cells"),
    ],
)
def test_a_plan_that_is_none_is_an_error(text: str | None, why: str, tmp_path: Path) -> None:
    table, asked = one_table()
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text.replace('"table": {', f'"{table.name}": {{'))
    with pytest.raises(DataError, match=why):
        T.SuppressTable(pattern=str(file)).apply(table, guarantees=asked)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(METHODS))
def test_two_runs_hide_the_same(seed: int, method: Any) -> None:
    frame = people(seed, 80)
    asked = [T.MinimumFrequency(at_least=4), T.TableAudit()]
    made = T.Aggregate(by=["region", "age"], responses=["count"])
    try:
        first = T.SuppressTable(method=method).apply(made.apply(frame), guarantees=asked)
    except NoSolutionError:
        with pytest.raises(NoSolutionError):
            T.SuppressTable(method=method).apply(made.apply(frame.sample(frac=1, random_state=1)), guarantees=asked)
        return
    again = T.SuppressTable(method=method).apply(made.apply(frame.sample(frac=1, random_state=1)), guarantees=asked)
    assert again.public().equals(first.public())


def test_nothing_public_says_why_a_cell_is_hidden() -> None:
    table, asked = one_table()
    safe = T.SuppressTable().apply(table, guarantees=asked)
    public = safe.public_table()
    assert public.schema.metadata is None
    for response in ("count", "sum_cost", "mean_cost"):
        statuses = pa.compute.unique(public.column(f"{response}_status")).to_pylist()
        assert set(statuses) <= {"published", "zero", "c"}
        for value, status in zip(
            *(public.column(f"{response}{end}").to_pylist() for end in ("", "_status")), strict=True
        ):
            assert (value is None) == (status == "c" or (response == "mean_cost" and status == "zero"))
    labels = [public.column(name).to_pylist() for name in ("region", "age")]
    assert list(zip(*labels, strict=True)) == [
        (region, age) for region in ("Total", "E", "N", "S", "W") for age in ("Total", "a", "b", "c")
    ]
    stage = T.SuppressTable(fixed=[{"region": "Total", "age": "Total"}])
    assert {"cost", "fixed", "avoid", "nodes", "time_limit", "pattern"} <= set(stage.withheld)


def test_a_loss_is_reported_by_response_and_level() -> None:
    table, asked = one_table()
    safe = T.SuppressTable().apply(table, guarantees=asked)
    counted = table.measures["count"].figures.contributors
    hidden = safe.measures["count"].hidden
    verdict = T.TableLoss().judge(TableSet(tables={"visits": safe}))
    assert verdict.observed["visits.count"] == pytest.approx(counted[hidden].sum() / counted.sum())
    cells = T.TableLoss(of="cells").judge(TableSet(tables={"visits": safe}))
    assert cells.observed["visits.count"] == (hidden & (counted > 0)).sum() / (counted > 0).sum()
    assert cells.failing_classes == 3 * (hidden & (counted > 0)).sum()
    assessment = pp.check(safe, [*asked, T.TableLoss()])
    assert [each.name for each in assessment.measures] == ["table_loss"]
    with pytest.raises(Refused, match="figures are hidden"):
        pp.check(safe, [*asked, T.TableLoss(at_most=0.01)])


def test_a_loss_over_nothing_is_an_error() -> None:
    frame = pd.DataFrame({"region": ["N", "S"], "sex": ["m", "m"], "cost": [0, 0]})
    nobody = T.Aggregate(by=["region"], only={"sex": "f"}, responses=["count"]).apply(frame)
    nothing = T.Aggregate(by=["region"], responses=[{"sum": "cost"}]).apply(frame)
    for of, table, outcome in (("cells", nobody, "error"), ("value", nothing, "error"), ("cells", nothing, "pass")):
        verdict = T.TableLoss(of=of).judge(TableSet(tables={"visits": table}))
        assert verdict.outcome == outcome


def test_bearing_takes_cells_with_exactly_these_labels() -> None:
    cells = Cells.complete([Dimension.tree("a", {"1": "T", "2": "T", "1x": "1"}), Dimension.tree("b", {"u": "T"})])
    found = suppress_table.bearing(cells, [{"a": "1"}], "fixed")
    assert [cells.name(int(at)) for at in np.flatnonzero(found)] == ["a=1", "a=1, b=u"]
    assert not suppress_table.bearing(cells, [{"c": "1"}], "fixed").any()


def test_the_audit_of_a_finished_table_reads_marks() -> None:
    """1 next to 10 under 11: a blank without a mark is at least 10, so the marked one is 1."""
    rows = [("Total", 11, "published"), ("N", None, "<10"), ("S", None, "c"), ("W", 0, "zero")]
    table = pd.DataFrame(rows, columns=["region", "count", "status"])
    found = pp.tables.audit(table, ["region"], response="count")
    assert found[["integer_low", "integer_high"]].to_numpy().tolist() == [[1, 1], [10, 10]]
    # Where no 0 is published, the blank may be one: then 11 would have to be below 10.
    plain = pp.tables.audit(table.head(3), ["region"], response="count")
    assert plain[["integer_low", "integer_high"]].to_numpy().tolist() == [[1, 9], [2, 10]]
    true = table.assign(count=[11, 1, 10, 0]).drop(columns="status")
    known = pp.tables.audit(table.head(3), ["region"], response="count", original=true.head(3))
    assert known["exact"].all()


COLUMNS = {"region": "NSWE", "age": "abc", "sex": "fm", "ill": "yz"}


def attacked(
    public: Mapping[str, pd.DataFrame], specs: Mapping[str, Any], at_least: int
) -> dict[Any, tuple[float, float]]:
    """The interval of every blank count from published tables alone, by whole numbers of people in each combination.

    A programme of its own: no relation, level or bound of the product is used. What is blank in one table may be shown
    in another; a blank without a mark, next to marks, is taken for at least the number of the marks.
    """
    atoms = list(product(*COLUMNS.values()))
    names = list(COLUMNS)
    rows, low, high, blanks = [], [], [], []
    for name, frame in public.items():
        marked = frame["count_status"].str.startswith("<").any()
        for record in frame.to_dict("records"):
            wanted = {**specs[name].get("only", {}), **{by: record[by] for by in specs[name]["by"]}}
            inside = [all(label in ("Total", atom[names.index(by)]) for by, label in wanted.items()) for atom in atoms]
            rows.append(inside)
            if record["count_status"] in ("published", "zero"):
                ends = (record["count"], record["count"])
            elif record["count_status"].startswith("<"):
                ends = (1, at_least - 1)
            else:
                ends = (at_least if marked else 0, np.inf)
            low.append(ends[0])
            high.append(ends[1])
            if ends[0] != ends[1]:
                blanks.append((name, tuple(record[by] for by in specs[name]["by"]), inside))
    matrix = np.array(rows, dtype=np.float64)
    known = optimize.LinearConstraint(matrix, np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))
    found: dict[Any, tuple[float, float]] = {}
    for name, labels, inside in blanks:
        reached = []
        for sign in (1, -1):
            objective = sign * np.array(inside, dtype=np.float64)
            solved = optimize.milp(objective, integrality=np.ones(len(atoms), dtype=np.int64), constraints=known)
            assert solved.status in (0, 3, 4), solved.message
            reached.append(-np.inf if solved.x is None else round(solved.fun))
        found[name, labels] = (reached[0], -reached[1])
    return found


@pytest.mark.parametrize("show", [None, "below"])
@pytest.mark.parametrize("seed", [1, deep(3)])
@pytest.mark.parametrize("kind", ["another population", "shared margins", "one inside the other"])
def test_published_tables_do_not_tell_what_is_hidden(kind: str, seed: int, show: Any) -> None:
    """An attacker with all published tables finds every unsafe count as uncertain as 'from 1 to n - 1'."""
    frame, specs = people(seed, 80 + 40 * seed), SEVERAL[kind]
    at_least = 3 + seed
    asked = [T.MinimumFrequency(at_least=at_least), T.TableAudit()]
    tables = T.Aggregate(tables=specs).apply(frame, guarantees=asked)
    try:
        safe = T.SuppressTable(show=show).apply(tables, guarantees=asked)
    except NoSolutionError:
        assert show == "below"  # marks can give away what blanks do not
        return
    found = attacked({name: table.public() for name, table in safe.items()}, specs, at_least)
    unsafe = 0
    for name, table in tables.items():
        counts = table.measures["count"].figures.contributors
        for at in np.flatnonzero((counts > 0) & (counts < at_least)).tolist():
            labels = tuple(labels_of(table, at)[by] for by in specs[name]["by"])
            least, most = found[name, labels]
            assert least <= 1
            assert most >= at_least - 1
            unsafe += 1
    assert unsafe
