"""Utility of tables whose rows belong to no one: by definition, the same on every engine, by groups, next to chance."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import TableFiles
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.measures import InformationLoss
from privpipe.roles import Roles

WHOLE = ("moments", "correlation", "eigen", "propensity", "kl", "hellinger", "wasserstein", "contingency", "specks")


def people(seed: int, rows: int, shift: float = 0.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.normal(40 + shift, 10, rows).round(1)
    pay = (age * 2 + rng.normal(0, 8, rows)).round(1)
    gaps = [None if at % 11 == 0 else value for at, value in enumerate(pay.tolist())]
    return pa.table({"age": age, "pay": gaps, "town": rng.choice(["a", "b", "c"], rows).tolist()})


def judged(engine: Engine, entries: list[InformationLoss], original: pa.Table, released: pa.Table) -> list[Verdict]:
    """Over two tables that share no ids."""
    first, second = (engine.scan(Source(data=table)) for table in (original, released))
    rules = JudgingRules(order=RunKey.of(Seed.insecure("whole"), "", "").attacks())
    roles = Roles(quasi_identifiers=tuple(original.schema.names))
    found = assess(engine, second, guarantees=entries, roles=roles, rules=rules, original=first)
    return list(found.verdicts)


def observed(entry: InformationLoss, x: pa.Table, y: pa.Table, h: pa.Table | None = None) -> Any:
    verdict = entry.judge_tables(TableFiles(original=x, released=y, holdout=h))
    assert verdict.observed is not None, verdict.reason
    return verdict.observed


def test_a_synthetic_release_is_judged_with_the_same_bits_everywhere(engine: Engine, embedded: Engine) -> None:
    x, y = people(1, 120), people(2, 90)
    entries = [InformationLoss(measure=name, at_most=1e9) for name in WHOLE]
    entries.append(InformationLoss(measure="regression", target="pay", at_most=1e9))
    turned = [table.take(np.random.default_rng(3).permutation(table.num_rows)) for table in (x, y)]
    here, there = judged(embedded, entries, x, y), judged(engine, entries, *turned)
    for one, other in zip(here, there, strict=True):
        assert one.outcome == "pass", (one.entry, one.reason)
        assert one.observed == other.observed, one.entry
    paired = judged(embedded, [InformationLoss(measure="il1s", at_most=1.0)], x, y)[0]
    assert paired.outcome == "error"


def binned(x: list[Any], values: list[Any], bins: int) -> list[Any]:
    """Bins of the definition: equal edges merged, open ends, null a value."""
    edges = sorted(set(np.quantile([v for v in x if v is not None], np.linspace(0, 1, bins + 1)).tolist()))
    return [None if v is None else sum(v >= edge for edge in edges[1:-1]) for v in values]


def test_distributions_by_their_definitions() -> None:
    x, y = people(4, 70), people(5, 45, shift=3)
    sides = [table.to_pydict() for table in (x, y)]
    columns, pairs = {}, []
    for name in ("age", "pay", "town"):
        own, shown = (side[name] for side in sides)
        if name != "town":
            own, shown = binned(sides[0][name], own, 20), binned(sides[0][name], shown, 20)
        p, q = Counter(own), Counter(shown)
        columns[name] = np.sqrt(max(0.0, 1 - sum(np.sqrt(p[v] / 70 * q[v] / 45) for v in {*p, *q})))
    found = observed(InformationLoss(measure="hellinger"), x, y)
    assert found["columns"] == pytest.approx(columns, abs=1e-9)
    assert (found["loss"], found["largest"]) == pytest.approx((np.mean(list(columns.values())), max(columns.values())))
    for one, other in combinations(("age", "pay", "town"), 2):
        tables = []
        for side in sides:
            both = [side[n] if n == "town" else binned(sides[0][n], side[n], 5) for n in (one, other)]
            tables.append(Counter(zip(*both, strict=True)))
        pairs.append(sum(abs(tables[0][v] / 70 - tables[1][v] / 45) for v in {*tables[0], *tables[1]}) / 2)
    found = observed(InformationLoss(measure="contingency"), x, y)
    assert (found["loss"], found["largest"]) == pytest.approx((np.mean(pairs), max(pairs)))
    moved = []
    for name in ("age", "pay"):
        own, shown = ([v for v in side[name] if v is not None] for side in sides)
        union = sorted({*own, *shown})
        area = sum(
            abs(sum(v <= a for v in own) / len(own) - sum(v <= a for v in shown) / len(shown)) * (b - a)
            for a, b in pairwise(union)
        )
        moved.append(area / np.std(own, ddof=1))
    found = observed(InformationLoss(measure="wasserstein"), x, y)
    assert (found["loss"], found["largest"]) == pytest.approx((np.mean(moved), max(moved)))


@pytest.mark.parametrize("measure", WHOLE)
def test_an_equal_table_loses_nothing(measure: str) -> None:
    x = people(6, 60)
    assert observed(InformationLoss(measure=measure), x, x)["loss"] == pytest.approx(0.0, abs=1e-9)


def test_the_gap_of_scores_is_next_to_their_error() -> None:
    one, other = pa.table({"a": [0.0, 1.0] * 30}), pa.table({"a": [10.0, 11.0] * 20})
    both = observed(InformationLoss(measure="propensity"), one, other)
    assert both["specks"] == pytest.approx(1.0)
    alone = observed(InformationLoss(measure="specks"), one, other)
    assert (alone["loss"], alone["pmse"]) == (both["specks"], both["loss"])
    assert both["loss"] == pytest.approx(0.4 * 0.6, abs=1e-3)  # of c (1 - c) at most, c = n' / (n + n')


def test_a_constant_column_that_varies_is_not_an_equal_one() -> None:
    flat, varied = pa.table({"a": [5.0] * 30}), pa.table({"a": [4.0, 5.0, 6.0] * 10})
    for measure in ("hellinger", "wasserstein"):
        assert observed(InformationLoss(measure=measure), flat, flat)["loss"] == 0.0
        assert observed(InformationLoss(measure=measure), flat, varied)["loss"] > 0.5


def test_the_ruined_group_decides() -> None:
    rng = np.random.default_rng(8)
    age = rng.normal(40, 5, 600)
    town = ["a"] * 540 + ["b"] * 60
    x = pa.table({"age": age, "town": town})
    y = pa.table({"age": [*age[:540], *(age[540:] + 40)], "town": town})
    whole = observed(InformationLoss(measure="wasserstein", columns=("age",)), x, y)["loss"]
    entry = InformationLoss(measure="wasserstein", columns=("age",), by="town", at_most=1.0)
    ruined = entry.judge_tables(TableFiles(original=x, released=y))
    assert whole < 1.0 < ruined.observed["loss"]
    assert (ruined.outcome, ruined.observed["groups"]) == ("fail", 2)
    gone = entry.judge_tables(TableFiles(original=x, released=y.slice(0, 540)))
    assert (gone.outcome, "has no released row" in gone.reason) == ("error", True)
    many = x.set_column(1, "town", pa.array([str(at) for at in range(600)]))
    assert entry.judge_tables(TableFiles(original=many, released=many)).outcome == "error"
    few = entry.judge_tables(TableFiles(original=x.slice(500, 80), released=y))
    assert few.outcome == "error"


def test_chance_is_the_loss_next_to_as_many_others() -> None:
    x, y, h = people(1, 200), people(2, 150), people(3, 120)
    entry = InformationLoss(measure="hellinger", holdout="others.csv")
    found = observed(entry, x, y, h)
    assert found["chance"] == observed(InformationLoss(measure="hellinger"), x.slice(0, 120), h)["loss"]


@pytest.mark.parametrize("model", [None, "tree"])
def test_a_classifier_is_trained_on_either_table_and_tested_on_others(
    embedded: Engine, tmp_path: Path, model: str | None
) -> None:
    pytest.importorskip("sklearn")

    def told(seed: int, rows: int, flipped: bool) -> pa.Table:
        rng = np.random.default_rng(seed)
        a = rng.normal(0, 1, rows)
        ill = (a > 0) ^ flipped
        return pa.table({"a": a, "ill": np.where(ill, "yes", "no").tolist()})

    pq.write_table(told(3, 200, False), tmp_path / "others.parquet")
    entry = InformationLoss(
        measure="classifier",
        target="ill",
        columns=("a",),
        holdout=str(tmp_path / "others.parquet"),
        model=model,
        at_most=0.1,
    )
    same, other = (judged(embedded, [entry], told(1, 300, False), told(2, 250, flip))[0] for flip in (False, True))
    assert (same.outcome, other.outcome) == ("pass", "fail")
    assert same.observed["accuracy_original"] > 0.9 > 0.2 > other.observed["accuracy_released"]
    without = InformationLoss(measure="classifier", target="ill", columns=("a",), at_most=1.0)
    assert judged(embedded, [without], told(1, 300, False), told(2, 250, False))[0].outcome == "error"


def test_labels_are_learnt_as_the_narrowest_that_covers() -> None:
    x = pa.table({"age": [20, 25, 40, 45] * 20, "ill": ["no", "no", "yes", "yes"] * 20})
    y = pa.table({"age": ["[20, 30[", "[40, 50["] * 40, "ill": ["no", "yes"] * 40})
    found = observed(InformationLoss(measure="classifier", target="ill", columns=("age",), holdout="h"), x, y, x)
    assert found["accuracy_released"] == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"measure": "il1s", "holdout": "others.csv"},
        {"measure": "il1s", "by": "town"},
        {"measure": "classifier", "target": "ill", "by": "town"},
        {"measure": "regression", "target": "pay", "by": "pay"},
        {"measure": "hellinger", "model": "tree"},
    ],
)
def test_what_belongs_to_whole_tables_is_refused_elsewhere(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        InformationLoss(**wrong)
