"""Related tables that readers cannot join: each is judged alone, and no key may be released."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PolicyError
from privpipe.relations import JointAlpha, JointKAnonymity
from tests.relations.related_cases import QUASI_IDENTIFIERS, random_set, related
from tests.relations.test_related_release import document, tables_of, with_pseudonyms


def persons_by_row(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> dict[tuple[Any, ...], set[Any]]:
    found: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for row in rows:
        found[tuple(row[name] for name in columns)].add(row["id"])
    return found


def test_each_table_by_its_definition(engine: Engine) -> None:
    for seed in range(15 if engine.name == "embedded" else 3):
        tables, knows, counted = random_set(seed)
        found = related(engine, tables)
        groups = [
            persons
            for name, rows in tables.items()
            for persons in persons_by_row(rows, QUASI_IDENTIFIERS[name]).values()
        ]
        verdict = JointKAnonymity(k=2, knows=knows, row_counts=counted).judge_alone(found)
        assert verdict.observed == min(map(len, groups)), seed
        assert verdict.passed == (min(map(len, groups)) >= 2)

        ill = {row["id"]: row["illness"] for row in tables["patients"]}
        shares = [
            Fraction(max([ill[who] for who in persons].count(value) for value in "xyz"), len(persons))
            for persons in persons_by_row(tables["patients"], QUASI_IDENTIFIERS["patients"]).values()
        ]
        alpha = JointAlpha(column="patients.illness", alpha=0.7).judge_alone(found)
        assert alpha.observed == pytest.approx(float(max(shares)), abs=1e-12), seed


def test_less_is_known_than_together(engine: Engine) -> None:
    model = JointKAnonymity(k=2)
    tables, _, _ = random_set(3)
    found = related(engine, tables)
    assert model.judge(found).observed <= model.judge_alone(found).observed


def test_the_policy_says_so() -> None:
    policy = pp.Policy.from_dict(document(joined=False))
    first = pp.assess(tables_of(), policy).verdicts[0]
    assert first.reason.startswith("each table by itself; least favourable is ")
    together = pp.Policy.from_dict(document())
    assert pp.assess(tables_of(), together).verdicts[0].observed <= first.observed


@pytest.mark.parametrize("released", ["insensitive", "a pseudonym"])
def test_a_released_key_joins(released: str) -> None:
    changed = document(joined=False)
    if released == "insensitive":
        changed["tables"]["patients"]["columns"]["patient"] = {"role": "insensitive"}
    else:
        changed |= {"tables": with_pseudonyms()}
    with pytest.raises(
        PolicyError, match=r"joined: is false, so that each table is judged alone, and the key 'patient'"
    ):
        pp.Policy.from_dict(changed)
