"""A row counts as suppressed when nothing of a person is left in it; every other row is judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError, Refused
from privpipe.judging import Assessment
from privpipe.running.stage_run import DrawRoot
from tests.tiers import at_most
from tests.validated_frames import batch_of

Rows = dict[str, list[Any]]

# Ten people of two towns, three of each town ill of something, and one row more that says nothing of where.
BASE: Rows = {"zip": ["a"] * 5 + ["b"] * 5, "illness": ["flu", "cold"] * 5, "salary": list(range(10))}
HIERARCHY = "a;A;*\nb;B;*\n?;*;*\n"
GUARANTEES = [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}]
TYPES = {"zip": pa.string(), "job": pa.string(), "illness": pa.string(), "who": pa.string()}


def table_of(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array(cells, TYPES.get(name, pa.int64())) for name, cells in rows.items()})


def beside(rows: Rows, **more: Any) -> Rows:
    """The rows with one more, or several of them where a list says so."""
    count = max([len(cell) for cell in more.values() if isinstance(cell, list)], default=1)
    return {
        name: cells + (more[name] if isinstance(more[name], list) else [more[name]] * count)
        for name, cells in rows.items()
    }


def asking(rows: Rows, keys: tuple[str, ...] = ("zip",), **changes: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {name: {"role": "insensitive"} for name in rows}
    if "illness" in rows:
        columns["illness"] = {"role": "sensitive"}
    columns |= {name: {"role": "quasi_identifier"} for name in keys}
    if "salary" in rows:
        columns["salary"]["type"] = "integer"
    return {"version": 1, "columns": columns, "guarantees": GUARANTEES, **changes}


def releasing(folder: Path, rows: Rows, *stages: dict[str, Any], **changes: Any) -> dict[str, Any]:
    pq.write_table(table_of(rows), folder / "rows.parquet")
    (folder / "zip.csv").write_text(HIERARCHY, encoding="utf-8")
    policy = asking(rows, **changes)
    unknown = policy.pop("unknown", "refuse")
    policy["columns"]["zip"]["hierarchy"] = {"file": str(folder / "zip.csv"), "delimiter": ";", "unknown": unknown}
    paths = {"source": {"path": str(folder / "rows.parquet")}, "sink": {"path": str(folder / "out")}}
    return policy | paths | {"transform": list(stages)}


def read(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted((folder / "out").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def figures(found: Assessment) -> tuple[Any, ...]:
    return (found.passed, [verdict.observed for verdict in found.verdicts], found.records, found.suppressed_records)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"zip": "*", "illness": "hiv", "salary": 999}, (False, [1, 1], 11, 0)),  # one person, and all of it kept
        ({"zip": ["*"] * 6, "illness": "hiv", "salary": 3}, (False, [5, 1], 16, 0)),  # homogeneous
        ({"zip": ["*"] * 500, "illness": "hiv", "salary": 3}, (False, [5, 1], 510, 0)),
        ({"zip": ["*"] * 6, "illness": ["flu", "hiv"] * 3, "salary": 3}, (True, [5, 2], 16, 0)),  # a class like others
        ({"zip": "*", "illness": "*", "salary": 999}, (False, [1, 1], 11, 0)),  # an income is left
        ({"zip": "*", "illness": "hiv", "salary": None}, (False, [1, 1], 11, 0)),
        ({"zip": "*", "illness": None, "salary": None}, (False, [1, 1], 11, 0)),  # what is missing may say something
        ({"zip": None, "illness": "*", "salary": None}, (False, [1, 1], 11, 0)),
        ({"zip": "*", "illness": "*", "salary": None}, (True, [5, 2], 10, 1)),  # nothing is left
        ({"zip": ["*"] * 6, "illness": ["*"] * 5 + ["hiv"], "salary": [None] * 5 + [7]}, (False, [1, 1], 11, 5)),
    ],
)
def test_a_finished_table_made_by_others(more: dict[str, Any], expected: Any, engine: Engine) -> None:
    """The cases of a table that holds the mark, in `assess` and by a policy over the same columns."""
    rows = beside(BASE, **more)
    assert figures(pp.assess(table_of(rows), asking(rows), engine=engine)) == expected


def test_marks_in_every_quasi_identifier_are_not_suppression(embedded: Engine, tmp_path: Path) -> None:
    rows = beside(BASE | {"sex": ["m"] * 10}, zip="*", sex="*", illness="hiv", salary=1)
    policy = asking(rows, ("zip", "sex"))
    judged = pp.assess(pa.table(rows), policy, engine=embedded)
    assert figures(judged) == (False, [1, 1], 11, 0)
    # Over some of the columns alone, too.
    policy["guarantees"] = [{"k_anonymity": {"k": 5, "quasi_identifiers": ["sex"]}}, *GUARANTEES[1:]]
    assert pp.assess(pa.table(rows), policy, engine=embedded).verdicts[0].observed == 1
    # As files, typed by the policy: a text column that is a number there may be missing.
    pq.write_table(table_of(beside(BASE, zip="*", illness="*", salary=None)), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("zip,illness,salary\na,flu,1\na,cold,2\n*,*,\n", encoding="utf-8")
    for name, left in (("t.parquet", 10), ("t.csv", 2)):
        found = pp.assess(tmp_path / name, asking(BASE), engine=embedded)
        assert (found.records, found.suppressed_records) == (left, 1)


def test_a_number_among_the_quasi_identifiers(engine: Engine) -> None:
    """It cannot hold the mark: there a suppressed record has no value."""
    rows = {"zip": ["a"] * 4 + ["*"] * 4, "salary": [1] * 4 + [None] * 4, "illness": ["u", "v"] * 3 + ["*"] * 2}
    asked = [{"k_anonymity": {"k": 3}}]
    policy = asking(rows, ("zip", "salary"), guarantees=asked)
    policy["columns"]["illness"] = {"role": "insensitive"}
    found = pp.assess(table_of(rows), policy, engine=engine)
    assert figures(found) == (False, [2], 6, 2)
    alone = asking(rows, ("salary",), guarantees=[{"k_anonymity": {"k": 2}}])
    alone["columns"]["illness"] = {"role": "insensitive"}
    assert figures(pp.assess(table_of(rows), alone, engine=engine)) == (True, [2], 6, 2)
    nothing = {"salary": [1, 1, None]}  # without a text nothing has a mark, and every row is judged
    only = {
        "version": 1,
        "columns": {"salary": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    assert figures(pp.assess(table_of(nothing), only, engine=engine)) == (False, [1], 3, 0)


def test_a_rare_value_mapped_to_the_root(tmp_path: Path, engine: Engine) -> None:
    """At level 1 one value is `*` alone: a class that is judged, and its illness and salary with it."""
    rows = beside(BASE, zip="?", illness="hiv", salary=987654)
    with pytest.raises(Refused) as refused:
        pp.release(releasing(tmp_path, rows, {"generalize": {"levels": {"zip": 1}}}), engine=engine)
    found = refused.value.assessment
    assert figures(found) == (False, [1, 1], 11, 0)
    assert not (tmp_path / "out").exists()
    # A search sees what the gate sees; so does suppression, within its budget.
    result = pp.release(releasing(tmp_path, rows, {"generalize": {"search": "optimal"}}), engine=engine)
    assert figures(result.assessment) == (True, [11, 3], 11, 0)
    budget = {"generalize": {"levels": {"zip": 1}, "suppress_at_most": 0.1}}
    result = pp.release(releasing(tmp_path, rows, budget), engine=engine)
    assert figures(result.assessment) == (True, [5, 2], 10, 1)
    assert "hiv" not in [row["illness"] for row in read(tmp_path)]
    with pytest.raises(NoSolutionError, match="need 1 of 11 records suppressed, the limit allows 0"):
        none = {"generalize": {"levels": {"zip": 1}, "suppress_at_most": 0.05}}
        pp.release(releasing(tmp_path, rows, none), engine=engine)


@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("unknown", ["root", "suppress"])
def test_values_that_a_hierarchy_does_not_know(tmp_path: Path, unknown: str, mark: bool, engine: Engine) -> None:
    """`unknown: root` is a label and nothing more; `unknown: suppress` takes the whole row, blanked or removed."""
    rows = beside(BASE, zip="Ulaanbaatar", illness="hiv", salary=987654)
    plain = {"generalize": {"levels": {"zip": 0}}}
    with pytest.raises((Refused, NoSolutionError)) as caught:
        pp.release(releasing(tmp_path, rows, plain, unknown=unknown), engine=engine)
    assert isinstance(caught.value, Refused) == (unknown == "root")
    limited = {"generalize": {"levels": {"zip": 0}, "suppress_at_most": 0.1, "mark": mark}}
    result = pp.release(releasing(tmp_path, rows, limited, unknown=unknown), engine=engine)
    assert figures(result.assessment) == (True, [5, 2], 10, 1)
    gone = [row for row in read(tmp_path) if row["zip"] == "*"]
    assert gone == [{"zip": "*", "illness": "*", "salary": None}] * mark


STAGES: dict[str, dict[str, Any]] = {
    "add_noise": {"columns": ["salary"], "variance_ratio": 0.2},
    "rank_swap": {"columns": ["salary"], "p": 0.4},
    "microaggregate": {"columns": ["salary"], "k": 3},
    "pram": {"columns": ["illness"], "diagonal": 0.1},
    "top_code": {"columns": ["salary"], "at": 3},
    "bottom_code": {"columns": ["salary"], "at": 3},
    "round": {"columns": ["salary"], "base": 5},
    "shuffle": {"columns": ["salary"]},
    "suppress_records": {"suppress_at_most": 0.2},
    "pseudonymise": {"columns": ["who"], "key": {"from_env": "PRIVPIPE_TEST_SEED"}, "domain": "people"},
    "sample": {"records": 9},
}


@pytest.mark.parametrize("name", STAGES)
def test_no_later_stage_makes_a_value_of_a_blank(
    tmp_path: Path, name: str, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `mark: true` whatever stage leaves the blanked rows as they are, and does not learn of them."""
    # Draws hang on the policy; here on the seed alone, so that two policies can be compared.
    monkeypatch.setattr(DrawRoot, "of", classmethod(lambda cls, context, drawn, plan: cls(context.seed)))
    rows = beside(BASE, zip=["?"] * 3, illness=["hiv", "hiv", "flu"], salary=[1_000_000, 2_000_000, 3_000_000])
    rows["who"] = [f"person {at}" for at in range(13)]
    first = {"generalize": {"levels": {"zip": 1}, "suppress_at_most": 0.25, "mark": True}}
    policy = releasing(tmp_path, rows, first, {name: STAGES[name]})
    policy["columns"]["who"] = {"role": "identifier" if name == "pseudonymise" else "insensitive"}
    policy["seed"] = {"from_env": "PRIVPIPE_TEST_SEED"}
    policy["guarantees"] = [
        {"k_anonymity": {"k": 4}},
        {"distinct_l_diversity": {"column": "illness", "l": 1}},
    ]
    found = pp.release(policy, engine=embedded)
    released = read(tmp_path)
    gone = [row for row in released if row["zip"] == "*"]
    assert gone == [{"zip": "*", "illness": "*", "salary": None, "who": "*"}] * 3
    left = [row for row in released if row["zip"] != "*"]
    assert all("*" not in row.values() and row["salary"] is not None for row in left)
    assert max(row["salary"] for row in left) < 1000  # nothing came from who is suppressed
    assert len(left) == (9 if name == "sample" else 10)
    assert found.assessment.records == len(left)
    # Without the marks the same comes out of the others.
    first["generalize"]["mark"] = False
    pp.release(policy, engine=embedded)
    assert Counter(map(str, left)) == Counter(str(row) for row in read(tmp_path))


def test_a_marked_release_with_distances(tmp_path: Path, engine: Engine) -> None:
    """S is of all that entered, which the mark is not a value of; the marked rows are in no class."""
    rows = beside(BASE, zip="?", illness="hiv", salary=1)
    stage = {"generalize": {"levels": {"zip": 1}, "suppress_at_most": 0.1, "mark": True}}
    policy = releasing(tmp_path, rows, stage)
    policy["guarantees"] = [*GUARANTEES, {"t_closeness": {"column": "illness", "t": 0.3}}]
    found = pp.release(policy, engine=engine).assessment
    shares = {"flu": 5 / 11, "cold": 5 / 11, "hiv": 1 / 11}
    class_a = {"flu": 3 / 5, "cold": 2 / 5}
    assert found.verdicts[2].observed == pytest.approx(
        sum(abs(shares[value] - class_a.get(value, 0)) for value in shares) / 2
    )
    assert (found.records, found.suppressed_records) == (10, 1)
    assert [row for row in read(tmp_path) if row["zip"] == "*"] == [{"zip": "*", "illness": "*", "salary": None}]


def test_a_budget_counts_the_rows_that_were_suppressed_before(tmp_path: Path, embedded: Engine) -> None:
    """floor(0.2 x n) over the whole table: 11 rows, one of them blank from the start."""
    rows = beside({name: cells[:9] for name, cells in BASE.items()}, zip="c", illness="flu", salary=1)
    rows = beside(rows, zip="*", illness="*", salary=None)
    policy = asking(
        rows, guarantees=[{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]
    )
    policy["transform"] = [{"suppress_records": {"suppress_at_most": 1 / 11}}]
    assert pp.transform(table_of(rows), pp.plan(table_of(rows), policy), engine=embedded).num_rows == 10
    policy["transform"] = [{"suppress_records": {"suppress_at_most": 0.09}}]
    with pytest.raises(NoSolutionError, match="need 1 of 10 records suppressed, the limit allows 0"):
        pp.plan(table_of(rows), policy, engine=embedded)


def test_quasi_identifiers_alone(engine: Engine, tmp_path: Path) -> None:
    """Where nothing else is released a row of marks over them is suppressed, as it ever was."""
    rows = {"zip": ["a"] * 3 + ["*"], "job": ["x"] * 3 + ["*"]}
    policy = asking(rows, ("zip", "job"), guarantees=[{"k_anonymity": {"k": 3}}])
    assert figures(pp.assess(table_of(rows), policy, engine=engine)) == (True, [3], 3, 1)
    stage = {"generalize": {"levels": {"zip": 1}}}
    rows = {"zip": ["a"] * 3 + ["?"]}
    found = pp.release(releasing(tmp_path, rows, stage, guarantees=[{"k_anonymity": {"k": 3}}]), engine=engine)
    assert figures(found.assessment) == (True, [3], 3, 1)


def test_expectations_judge_them_too() -> None:
    pytest.importorskip("great_expectations")
    import pandas as pd

    import privpipe.gx as ppgx

    expectation = ppgx.EXPECTATIONS["k_anonymity"](k=5, quasi_identifiers=["zip"], sensitive=["illness"])
    for salary, illness, fine in ((999.0, "hiv", False), (None, "*", True)):
        frame = pd.DataFrame(beside(BASE, zip="*", illness=illness, salary=salary))
        result = batch_of(frame).validate(expectation)
        assert result.success == fine
        assert result.result["observed_value"] == (5 if fine else 1)
        assert result.result["details"]["suppressed_records"] == int(fine)


CELL = st.sampled_from(["a", "b", "*", None])
PERSON = st.tuples(CELL, CELL, st.sampled_from(["flu", "hiv", "*", None]), st.sampled_from([1, 2, None]))


def by_definition(rows: list[tuple[Any, ...]]) -> tuple[int, int, Any]:
    """Records judged, suppressed records, and k: straight from the words of the rule."""
    left = [row for row in rows if row != ("*", "*", "*", None)]
    sizes = Counter(row[:2] for row in left)
    return len(left), len(rows) - len(left), min(sizes.values(), default=None)


@settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PERSON, min_size=1, max_size=12), st.integers(0, 4))
@pytest.mark.parametrize("name", ["embedded", "dask_engine"])
def test_it_is_the_definition_and_nothing_rescues(
    name: str, request: pytest.FixtureRequest, people: list[tuple[Any, ...]], blank: int
) -> None:
    """On small random tables; and suppressed rows change no figure of the others, so they rescue no class."""
    engine: Engine = request.getfixturevalue(name)
    names = ("zip", "job", "illness", "salary")
    measures: list[dict[str, Any]] = [
        {"k_anonymity": {}},
        {"k_anonymity": {"quasi_identifiers": ["job"]}},
        {"distinct_l_diversity": {"column": "illness"}},
        {"average_risk": {}},
        {"risky_cells": {}},
    ]
    found = []
    for rows in (people, [*people, *[("*", "*", "*", None)] * blank]):
        cells = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        asked = [{"k_anonymity": {"k": 1}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]
        policy = asking(cells, ("zip", "job"), guarantees=asked, measures=measures)
        judged = pp.assess(table_of(cells), policy, engine=engine)
        assert (judged.records, judged.suppressed_records, judged.verdicts[0].observed) == by_definition(rows)
        found.append([measure.observed for measure in judged.measures])
    assert found[0] == found[1]
