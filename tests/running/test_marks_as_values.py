"""A suppression mark in some quasi-identifiers only is a value like any other: no guarantee may pass over it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import Refused


def policy(folder: Path, rows: dict[str, Any], *guarantees: dict[str, Any], **changes: Any) -> dict[str, Any]:
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    kinds = {"age": {"type": "integer"}} if isinstance(rows["age"][0], int) else {}
    columns = {name: {"role": "quasi_identifier", **kinds.get(name, {})} for name in ("town", "age")}
    return {
        "version": 1,
        "source": {"path": str(folder / "rows.parquet")},
        "columns": {**columns, "illness": {"role": "sensitive"}},
        "guarantees": [*guarantees, {"distinct_l_diversity": {"column": "illness", "l": 1}}],
        "sink": {"path": str(folder / "out")},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
        **changes,
    }


@pytest.mark.parametrize("age", [30, "30"])
def test_a_class_of_marks_over_some_columns_is_judged(tmp_path: Path, age: Any, engine: Engine) -> None:
    """One record of an unknown town is alone over towns, though its age is released."""
    rows = {"town": ["a"] * 3 + ["*"], "age": [age] * 4, "illness": ["flu", "gout", "flu", "ulcer"]}
    asked = {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}
    diverse = {"distinct_l_diversity": {"column": "illness", "l": 2, "quasi_identifiers": ["town"]}}
    with pytest.raises(Refused) as refused:
        pp.release(policy(tmp_path, rows, asked, diverse), engine=engine)
    first, second, _ = refused.value.assessment.verdicts
    assert (first.observed, first.failing_records, second.observed) == (1, 1, 1)
    assert refused.value.assessment.records == 4
    # Suppression works for what the gate asks.
    stage = {"suppress_records": {"suppress_at_most": 0.25}}
    result = pp.release(policy(tmp_path, rows, asked, diverse, transform=[stage]), engine=engine)
    assert (result.assessment.records, result.assessment.suppressed_records) == (3, 1)


def test_one_class_of_roots_is_judged(tmp_path: Path, embedded: Engine) -> None:
    rows = {"town": ["*"] * 4, "age": ["30", "40"] * 2, "illness": ["flu", "gout", "flu", "ulcer"]}
    asked = {"k_anonymity": {"k": 4, "quasi_identifiers": ["town"]}}
    result = pp.release(policy(tmp_path, rows, asked), engine=embedded)
    assert result.assessment.verdicts[0].observed == 4


def test_rows_of_the_mark_are_left_out(tmp_path: Path, embedded: Engine) -> None:
    """Where a number is a quasi-identifier too, a suppressed record is missing there: nothing of it is left."""
    rows = {"town": ["a"] * 3 + ["b"], "age": [30] * 4, "illness": ["flu", "gout", "flu", "ulcer"]}
    asked = {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}
    asked = policy(tmp_path, rows, asked)
    asked["guarantees"][-1]["distinct_l_diversity"]["quasi_identifiers"] = ["town"]
    asked["columns"]["town"]["hierarchy"] = {"tree": {"*": ["a", "b"]}}
    asked["transform"] = [{"generalize": {"levels": {"town": 0}, "suppress_at_most": 0.25, "mark": True}}]
    result = pp.release(asked, engine=embedded)
    assert (result.assessment.records, result.assessment.suppressed_records) == (3, 1)
    assert result.assessment.verdicts[0].observed == 3


def test_rows_of_the_mark_do_not_thin_out_an_attack(tmp_path: Path, embedded: Engine) -> None:
    """No one links a record of which nothing is left: kept as rows, suppressed records change no share."""
    draw = random.Random(3)
    rows = {
        "id": [f"p{at}" for at in range(60)],
        "town": draw.choices("abcdef", k=60),
        "age": draw.choices(["30", "40", "50"], k=60),
        "income": [float(draw.randint(0, 500)) for _ in range(60)],
        "illness": draw.choices(["flu", "gout"], k=60),
    }
    asked = policy(tmp_path, rows, {"k_anonymity": {"k": 4}}, record_id="id")
    asked["columns"]["town"]["hierarchy"] = {"tree": {"*": list("abcdef")}}
    asked["columns"] |= {"id": {"role": "identifier"}, "income": {"role": "insensitive", "type": "number"}}
    asked["measures"] = [
        {"record_linkage": {"columns": ["income"]}},
        {"transparency_attack": {"columns": ["income"]}},
    ]
    figures = []
    for mark in (False, True):
        levels = {"generalize": {"levels": {"town": 0}, "suppress_at_most": 0.8, "mark": mark}}
        asked["transform"] = [{"rank_swap": {"columns": ["income"], "p": 0.02}}, levels]
        found = pp.release(asked, engine=embedded).assessment
        assert found.suppressed_records > 10
        figures.append([verdict.observed for verdict in found.measures])
    assert figures[0] == figures[1]
    asked["guarantees"].append({"record_linkage": {"columns": ["income"], "at_most": figures[0][0]["share"] - 0.01}})
    with pytest.raises(Refused):
        pp.release(asked, engine=embedded)


@pytest.mark.parametrize("method", ["greedy", "optimal"])
@pytest.mark.parametrize("nulls", ["own_value", "wildcard"])
def test_a_table_of_marks_alone_leaves_no_cell_to_blank(
    tmp_path: Path, embedded: Engine, method: str, nulls: str
) -> None:
    """Nothing is left of records whose illness is the mark too; with an illness the three are a class of their own."""
    for illness in ("*", "flu"):
        rows = {"town": ["*"] * 3, "age": ["*"] * 3, "illness": [illness] * 3}
        asked = policy(tmp_path, rows, transform=[{"suppress_cells": {"k": 2, "method": method}}], nulls=nulls)
        asked["columns"]["illness"]["role"] = "insensitive"
        asked["guarantees"] = [{"k_anonymity": {"k": 2}}]
        if illness == "flu":
            judged = pp.release(asked, engine=embedded).assessment
            assert (judged.records, judged.verdicts[0].observed) == (3, 3)
        else:
            with pytest.raises(Refused, match="every record is suppressed"):
                pp.release(asked, engine=embedded)


def test_cells_are_suppressed_for_what_the_gate_asks(tmp_path: Path, embedded: Engine) -> None:
    rows = {"town": ["a"] * 5 + ["*"], "age": ["30", "40"] * 3, "illness": ["flu"] * 6}
    asked = {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}
    result = pp.release(policy(tmp_path, rows, asked, transform=[{"suppress_cells": {}}]), engine=embedded)
    assert result.assessment.verdicts[0].observed >= 2
    assert result.assessment.records == 6


@pytest.mark.parametrize(("age", "kind"), [(30, str), ("30", str), ("30", int)])
def test_of_a_suppressed_record_no_person_is_reported(tmp_path: Path, age: Any, kind: Any, engine: Engine) -> None:
    """A person's key that is released goes with the rest of the record; the run counts by it all the same."""
    rows = {
        "town": ["a"] * 4 + ["b"],
        "age": [age] * 5,
        "illness": ["flu", "gout", "flu", "gout", "ulcer"],
        "who": [kind(who) for who in (1, 2, 3, 3, 4)],
    }
    asked = policy(tmp_path, rows, {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}, person_id="who")
    asked["guarantees"][-1]["distinct_l_diversity"]["quasi_identifiers"] = ["town"]
    asked["columns"]["town"]["hierarchy"] = {"tree": {"*": ["a", "b"]}}
    asked["columns"]["who"] = {"role": "insensitive", "type": "text" if kind is str else "integer"}
    asked["transform"] = [{"generalize": {"levels": {"town": 0}, "suppress_at_most": 0.25, "mark": True}}]
    result = pp.release(asked, engine=engine)
    assert (result.assessment.records, result.assessment.suppressed_records) == (4, 1)
    assert result.assessment.verdicts[0].observed == 3  # persons, of four records
    table = pq.read_table(next(Path(result.path).glob("part-*.parquet")))
    marked = next(row for row in table.to_pylist() if row["town"] == "*")
    assert set(marked.values()) <= {"*", None}
    assert set(table.column("who").to_pylist()) - {"*", None} == {kind(who) for who in (1, 2, 3)}


def test_a_ledger_passes_over_suppressed_records_alone(tmp_path: Path, embedded: Engine) -> None:
    """A mark in the ledger's own columns is a value where more of the record is released: it is remembered."""
    rows = {"town": ["*"] * 3 + ["a"] * 3, "age": ["30"] * 6, "illness": ["flu", "gout"] * 3, "who": list("abcdef")}
    entry = {"ledger": str(tmp_path / "ledger"), "key": {"from_file": str(tmp_path / "key")}, "k": 2}
    (tmp_path / "key").write_text("a key of thirty-two bytes or more")
    asked = policy(tmp_path, rows, {"complementary_release": {**entry, "quasi_identifiers": ["town"]}}, person_id="who")
    asked["columns"]["who"] = {"role": "identifier"}
    found = pp.release(asked, engine=embedded).assessment.verdicts[0]
    assert (found.outcome, found.observed["k"]) == ("pass", 3)
    rows["town"][:3] = ["*", "b", "b"]
    with pytest.raises(Refused) as refused:  # alone, although over towns it has the mark
        pp.release({**asked, **policy(tmp_path, rows)} | {key: asked[key] for key in ("columns", "guarantees")})
    assert refused.value.assessment.verdicts[0].observed["k"] == 1


def test_earlier_releases_are_read_without_their_suppressed_records(tmp_path: Path, embedded: Engine) -> None:
    rows = {"town": ["a", "b"] * 4, "age": ["30"] * 4 + ["40"] * 4, "illness": ["flu", "gout"] * 4}
    figures = []
    for name, marks in (("plain", 0), ("marked", 1)):
        earlier = {key: values + ["*"] * marks for key, values in rows.items()}
        pq.write_table(pa.table(earlier), tmp_path / f"{name}.parquet")
        entry = {"complementary_release": {"earlier": [str(tmp_path / f"{name}.parquet")], "k": 2}}
        judged = pp.assess(pa.table(earlier), policy(tmp_path, rows, entry), engine=embedded)
        assert judged.records == 8
        figures.append(judged.verdicts[0].observed)
    assert figures[0] == figures[1]


def test_a_suppressed_record_has_no_pseudonym(tmp_path: Path, embedded: Engine, monkeypatch: Any) -> None:
    """Pseudonyms are made after the marks: a person who is gone has the mark for one, and nothing is left."""
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", "a key of thirty-two bytes or more")
    rows = {"town": ["a"] * 4 + ["b"], "age": [30] * 5, "illness": ["flu"] * 5, "who": ["p1", "p2", "p3", "p3", "p4"]}
    asked = policy(tmp_path, rows, {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}, person_id="who")
    asked["guarantees"][-1]["distinct_l_diversity"]["quasi_identifiers"] = ["town"]
    asked["columns"]["town"]["hierarchy"] = {"tree": {"*": ["a", "b"]}}
    asked["columns"]["who"] = {"role": "identifier"}
    asked["transform"] = [
        {"generalize": {"levels": {"town": 0}, "suppress_at_most": 0.25, "mark": True}},
        {"pseudonymise": {"columns": ["who"], "key": {"from_env": "PRIVPIPE_TEST_KEY"}, "domain": "people"}},
    ]
    result = pp.release(asked, engine=embedded)
    assert (result.assessment.records, result.assessment.suppressed_records) == (4, 1)
    table = pq.read_table(next(Path(result.path).glob("part-*.parquet")))
    marked = next(row for row in table.to_pylist() if row["town"] == "*")
    assert set(marked.values()) == {"*", None}
    assert marked["who"] == "*"
    assert len(set(table.column("who").to_pylist())) == 4
