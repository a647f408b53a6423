"""The stage `round_table`: every method as a stage, what readers know, and attacks on what is published."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.errors import DataError, PolicyError, Refused, UsageError
from privpipe.tables import MinimumFrequency, RoundTable, TableAudit
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cells import linked
from privpipe.tables.rounding import rounded_small_counts, small_count_intervals
from privpipe.tables.table import Table
from tests.tables.random_tables import added_up, inner_cells, random_table

SEED = Seed.insecure("rounds")
Documents = Callable[..., dict[str, Any]]


def people(number: int = 60, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": range(number),
            "region": draw.choice(["north", "south", "west"], number),
            "sex": draw.choice(["f", "m"], number),
            "cost": draw.integers(0, 90, number),
        }
    )


def table(frame: pd.DataFrame, stage: RoundTable, *responses: Any, seed: Any = SEED, **more: Any) -> Table:
    count = pp.tables.Aggregate(**{"by": ["region", "sex"], "responses": [*(responses or ("count",))], **more})
    made: Table = count.apply(frame, person_id="person", seed=seed, stages=[stage])
    return made


def test_random_rounding_belongs_to_the_people_of_a_cell() -> None:
    stage = RoundTable(base=5, method="random")
    frame = people(200)
    one = stage.apply(table(frame, stage, "count", {"sum": "cost"})).public()
    again = stage.apply(table(frame[::-1], stage, {"sum": "cost"}, "count")).public()
    assert one["count"].tolist() == again["count"].tolist()
    assert one["sum_cost"].tolist() == again["sum_cost"].tolist()
    by_region = stage.apply(table(frame, stage, by=["region"])).public().set_index("region")["count"]
    whole = one[one["sex"] == "Total"].set_index("region")["count"]
    assert by_region.to_dict() == whole.to_dict()
    assert (one["count"] % 5 == 0).all()
    other = RoundTable(base=5, method="random", purpose="other")
    assert other.apply(table(frame, other)).public()["count"].tolist() != one["count"].tolist()
    seeded = stage.apply(table(frame, stage, seed=Seed.insecure("another"))).public()
    assert seeded["count"].tolist() != one["count"].tolist()


@pytest.mark.deep
def test_random_rounding_is_unbiased_over_many_tables() -> None:
    """Within four standard deviations over 100,000 cells of two persons each, counted and keyed by the engine."""
    number = 100_000
    frame = pd.DataFrame({"person": range(2 * number), "cell": np.repeat(np.arange(number), 2)})
    stage = RoundTable(base=5, method="random")
    made = pp.tables.Aggregate(by=["cell"], responses=["count"]).apply(
        frame, person_id="person", seed=SEED, stages=[stage]
    )
    shown = stage.apply(made).measures[COUNT].shown[1:]
    assert set(shown.tolist()) == {0, 5}
    assert abs(shown.mean() - 2) <= 4 * (6 / number) ** 0.5


@pytest.mark.parametrize("method", ["nearest", "midpoint", "random", "controlled"])
def test_readers_intervals_hold_the_truth(method: str) -> None:
    stage = RoundTable(base=5, method=method)
    responses = ["count"] if method == "midpoint" else ["count", {"sum": "cost"}]
    made = stage.apply(table(people(100), stage, *responses))
    for measure in made.measures.values():
        assert ((measure.low <= measure.figures.totals) & (measure.figures.totals <= measure.high)).all()
    assert set(made.public()["count_status"]) == {"rounded"}


def test_controlled_rounding_gives_a_cell_of_two_tables_one_figure() -> None:
    frame = people(300).assign(age=np.arange(300) % 4)
    count = pp.tables.Aggregate(
        tables={
            "a": {"by": ["region", "sex"], "responses": ["count"]},
            "b": {"by": ["region", "age"], "responses": ["count"]},
        }
    )
    stage = RoundTable(base=7, method="controlled")
    both = stage.apply(count.apply(frame, person_id="person"))
    a, b = (both[name].public() for name in ("a", "b"))
    shared = [each[each.iloc[:, 1] == "Total"].set_index("region")["count"].to_dict() for each in (a, b)]
    assert shared[0] == shared[1]
    for each in both.values():
        assert not (linked([each.cells]).relations @ each.measures[COUNT].shown).any()


def test_means_are_of_rounded_parts() -> None:
    stage = RoundTable(base=5)
    public = stage.apply(table(people(200), stage, "count", {"sum": "cost"}, {"mean": "cost"})).public()
    some = public["count"] > 0
    wanted = [a / b for a, b in zip(public["sum_cost"][some], public["count"][some], strict=True)]
    assert public["mean_cost"][some].tolist() == wanted


def test_four_twos_under_a_rounded_total_are_found() -> None:
    frame = pd.DataFrame({"person": range(8), "region": list("aabbccdd"), "sex": "f"})
    stage = RoundTable(base=5)
    made = stage.apply(table(frame, stage, by=["region"]))
    assert made.public()["count"].tolist() == [10, 0, 0, 0, 0]
    asked = [MinimumFrequency(at_least=3), TableAudit()]
    with pytest.raises(Refused, match="4 follow from signs and bounds"):
        pp.check(made, asked)


def test_rounding_after_suppression_passes_and_alone_does_not() -> None:
    frame = people(60)
    stage = RoundTable(base=5)
    asked = [MinimumFrequency(at_least=12), TableAudit()]
    made = table(frame, stage)
    with pytest.raises(Refused, match="MinimumFrequency"):
        pp.check(stage.apply(made), asked)
    safe = stage.apply(pp.tables.SuppressTable().apply(made, guarantees=asked))
    assert pp.check(safe, asked).passed
    public = safe.public()
    assert set(public["count_status"]) == {"c", "rounded"}
    assert public["count"].isna().equals(public["count_status"] == "c")


def test_small_counts_are_published_without_small_ones() -> None:
    stage = RoundTable(base=5, method="small_counts")
    frame = people(40)
    made = stage.apply(table(frame, stage))
    public = made.public()
    assert not public["count"].between(1, 4).any()
    assert not (made.cells.relations @ made.measures[COUNT].shown).any()
    assert pp.check(made, [MinimumFrequency(at_least=5), TableAudit()]).passed
    with pytest.raises(Refused, match="unsafe"):
        pp.check(made, [MinimumFrequency(at_least=11), TableAudit()])
    again = stage.apply(table(frame.sample(frac=1, random_state=2), stage)).public()
    assert again.equals(public)


@pytest.mark.parametrize("seed", range(15))
def test_intervals_of_small_counts_are_all_tables_that_round_the_same_cells(seed: int) -> None:
    cells, values = random_table(seed, mean=1.5)
    done = rounded_small_counts(cells, values, 4, np.ones(len(cells), dtype=np.bool_), np.arange(len(cells)))
    inner = inner_cells(cells)
    changed = np.flatnonzero(done.rounded[inner])[:5]
    held = done.rounded.copy()
    held[inner[changed]] = False
    every = []
    for chosen in product(range(1, 4), repeat=len(changed)):
        leaves = values[inner].copy()
        leaves[changed] = chosen
        every.append(added_up(cells, leaves.tolist()))
    low, high = small_count_intervals(cells, values, done.rounded & ~held, 4)
    assert np.min(every, axis=0).tolist() == low.tolist()
    assert np.max(every, axis=0).tolist() == high.tolist()


def test_what_rounding_cannot_do() -> None:
    frame, random, small = people(), RoundTable(base=5, method="random"), RoundTable(base=5, method="small_counts")
    with pytest.raises(UsageError, match="give the seed"):
        table(frame, random, seed=None)
    with pytest.raises(UsageError, match="was counted without cell keys"):
        random.apply(pp.tables.Aggregate(by=["region"], responses=["count"]).apply(frame, person_id="person"))
    with pytest.raises(UsageError, match="small_counts is for counts"):
        table(frame, small, {"sum": "cost"})
    with pytest.raises(UsageError, match="round once"):
        random.apply(random.apply(table(frame, random)))
    with pytest.raises(UsageError, match="midpoint is for counts"):
        stage = RoundTable(base=5, method="midpoint")
        stage.apply(table(frame, stage, {"sum": "cost"}))
    several = pd.concat([frame, frame.assign(region="east")])
    with pytest.raises(DataError, match="counts that add up"):
        small.apply(table(several, small))


@pytest.fixture
def document(tmp_path: Path) -> Documents:
    people(80).to_parquet(tmp_path / "people.parquet")

    def made(**changes: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "columns": {
                "region": {"role": "quasi_identifier"},
                "sex": {"role": "quasi_identifier"},
                "cost": {"role": "insensitive"},
                "person": {"role": "identifier"},
            },
            "source": {"path": str(tmp_path / "people.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "person_id": "person",
            "seed": {"insecure": "tables"},
            "allow_insecure_seed": True,
            "transform": [
                {"aggregate": {"by": ["region", "sex"], "responses": ["count", {"sum": "cost"}, {"mean": "cost"}]}},
                {"suppress_table": {}},
                {"round_table": {"base": 5, "method": "random"}},
            ],
            "guarantees": [{"minimum_frequency": {"at_least": 12}}, {"table_audit": {}}],
            **changes,
        }

    return made


def test_a_policy_suppresses_and_rounds_at_random_and_always_alike(document: Documents, tmp_path: Path) -> None:
    assert pp.release(document()).published
    first = (tmp_path / "out" / "table.parquet").read_bytes()
    shown = pd.read_parquet(tmp_path / "out" / "table.parquet")
    assert (shown["count"].dropna() % 5 == 0).all()
    assert "parts need not add up" in (tmp_path / "out" / "_privpipe" / "verdict.json").read_text()
    pp.release(document())
    assert (tmp_path / "out" / "table.parquet").read_bytes() == first


def test_random_rounding_without_a_kept_seed_is_refused(document: Documents) -> None:
    without = {name: value for name, value in document().items() if name not in ("seed", "allow_insecure_seed")}
    with pytest.raises(PolicyError, match="give `seed:`"):
        pp.Policy.from_dict(without)


def test_two_bases_for_the_same_people_are_read_together(document: Documents) -> None:
    """Multiples of 5 and of 7 of one count leave fewer values than each: the audit sees both tables."""
    frame = pd.DataFrame({"person": range(12), "region": list("aaabbbbccccc"), "sex": "f"})
    count = pp.tables.Aggregate(tables={name: {"by": ["region"], "responses": ["count"]} for name in ("five", "seven")})
    five, seven = (RoundTable(base=b, tables=(name,)) for b, name in ((2, "five"), (3, "seven")))
    tables = seven.apply(five.apply(count.apply(frame, person_id="person")))
    with pytest.raises(Refused, match="TableAudit.*bounded|TableAudit.*follow|TableAudit.*can be computed"):
        pp.check(tables, [MinimumFrequency(at_least=5, severity="warn"), TableAudit()])
