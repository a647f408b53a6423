"""Tables with noise by cell keys: keys on every engine, what readers know, and attacks on what is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import privpipe as pp
from privpipe.blocks import RowBlock
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.tables.aggregation import COUNT, TableSpec, aggregated
from privpipe.tables.cell_keys import NoiseTable, averaged_variance, averages
from privpipe.tables.contribution_rows import key_of_sums, record_keys
from privpipe.tables.entries import TableSet
from privpipe.tables.perturbed_tables import CellKey, keyed_spec, sum_intervals
from privpipe.tables.responses import responses_of
from privpipe.tables.table import Table
from tests.tables.definition import cells_by_definition
from tests.tables.random_tables import added_up, inner_cells
from tests.tables.test_aggregation import AGES, LABELS, in_one_leaf, load, rows_of
from tests.tiers import deep_beyond

SEED = Seed.insecure("cells")
NOISE = CellKey(D=3, V=2.0, delta=0.5)
Documents = Callable[..., dict[str, Any]]


def record_one(key: bytes, contributor: str) -> int:
    return int(record_keys(key, [contributor])[0])


def people(number: int = 60, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": draw.permutation(number),
            "region": draw.choice(["north", "south", "west"], number),
            "sex": draw.choice(["f", "m"], number),
            "cost": draw.integers(0, 90, number),
        }
    )


def table(frame: pd.DataFrame, *responses: Any, stage: CellKey = NOISE, seed: Any = SEED, **more: Any) -> Table:
    count = pp.tables.Aggregate(by=["region", "sex"], responses=[*(responses or ("count",))], **more)
    made: Table = count.apply(frame, person_id="person", seed=seed, stages=[stage])
    return made


@pytest.mark.parametrize("alone", [True, False])
def test_cell_keys_on_every_engine_by_their_definition(engine: Engine, alone: bool) -> None:
    """The sum over contributors of their keys; of a sum over those who contribute something."""
    rows = rows_of(3, 200, 60)
    rows = in_one_leaf(rows) if alone else rows
    spec = TableSpec(by=("town", "age"), responses=responses_of(["count", {"sum": "cost"}]))
    spec = keyed_spec("test", spec, SEED, "p", sums=True)
    found = aggregated(engine, load(engine, rows), spec, person="person", hierarchies={"age": AGES})
    held = cells_by_definition(found.cells, rows, LABELS, "cost", person="person")
    counts, sums = key_of_sums(SEED, "p", "count"), key_of_sums(SEED, "p", "cost")
    assert counts != sums
    assert found.additive == alone
    wanted = [sum(record_one(counts, str(who)) for who in cell.records) % 2**32 for cell in held]
    assert found.keys["p", COUNT].tolist() == wanted
    wanted = [sum(record_one(sums, str(who)) for who, value in cell.values.items() if value) % 2**32 for cell in held]
    assert found.keys["p", "cost"].tolist() == wanted
    assert found.figures["cost"].totals.tolist() == [sum(cell.values.values()) for cell in held]
    assert found.figures["cost"].records.tolist() == [sum(cell.records.values()) for cell in held]


def test_the_same_people_have_one_figure_in_every_table_and_release() -> None:
    frame = people()
    whole = NOISE.apply(table(frame)).public().set_index(["region", "sex"])["count"]
    alone = pp.tables.Aggregate(by=["region"], responses=["count"], only={"sex": "f"})
    women = NOISE.apply(
        alone.apply(frame.sample(frac=1, random_state=1), person_id="person", seed=SEED, stages=[NOISE])
    )
    shown = women.public().set_index("region")["count"]
    for region in ("Total", "north", "south", "west"):
        assert shown[region] == whole[region, "f"]
    again = NOISE.apply(table(frame.assign(cost=0))).public()["count"]
    assert again.tolist() == whole.tolist()
    other = NOISE.apply(table(frame, seed=Seed.insecure("other"))).public()["count"]
    assert other.tolist() != whole.tolist()


def test_a_key_is_of_the_whole_person() -> None:
    """Records of one person, split or not, are one contributor."""
    frame = people(40)
    split = pd.concat([frame.assign(cost=0), frame], ignore_index=True)
    one = NOISE.apply(table(frame, "count", {"sum": "cost"})).public()
    two = NOISE.apply(table(split, "count", {"sum": "cost"})).public()
    assert one.equals(two)


def test_means_are_of_perturbed_parts() -> None:
    public = NOISE.apply(table(people(), "count", {"sum": "cost"}, {"mean": "cost"})).public()
    some = public["count"] > 0
    wanted = [a / b for a, b in zip(public["sum_cost"][some], public["count"][some], strict=True)]
    assert public["mean_cost"][some].tolist() == wanted
    assert set(public["mean_cost_status"]) == {"perturbed"}


def test_readers_intervals_hold_the_truth() -> None:
    made = NOISE.apply(table(people(300), "count", {"sum": "cost"}))
    for measure in made.measures.values():
        assert (measure.low <= measure.figures.totals).all()
        assert (measure.figures.totals <= measure.high).all()
        assert (measure.shown != measure.figures.totals).any()


def test_sums_stay_within_what_who_knows_the_largest_concludes() -> None:
    figures = table(people(300), {"sum": "cost"}).measures["cost"].figures
    noise = NOISE.noise
    for key in (0, 2**31, 2**32 - 1):
        keys = np.full(len(figures), key)
        shown = noise.noisy_sums(figures.totals, figures.largest[:, 0], keys, Fraction(1, 2))
        low, high = sum_intervals(figures, shown, noise, Fraction(1, 2))
        assert ((low <= figures.totals) & (figures.totals <= high)).all()


def test_a_count_below_n_is_kept_by_noise_and_one_that_follows_is_found() -> None:
    frame = people(30)
    asked = [pp.tables.MinimumFrequency(at_least=10), pp.tables.TableAudit()]
    made = NOISE.apply(table(frame))
    assert pp.check(made, asked).passed
    # One reading of all figures together: bounds of parts and totals meet in one value.
    measure = made.measures[COUNT]
    at = int(np.flatnonzero((measure.figures.totals > 0) & (measure.figures.totals < 10))[0])
    low, high = measure.low.copy(), measure.high.copy()
    low[at] = high[at] = measure.figures.totals[at]
    told = replace(made, measures={COUNT: replace(measure, low=low, high=high)})
    with pytest.raises(Refused, match="1 of .* published figures are unsafe"):
        pp.check(told, asked)
    with pytest.raises(Refused, match="TableAudit.*: 1 can be computed"):
        pp.check(told, [pp.tables.MinimumFrequency(at_least=10, severity="warn"), pp.tables.TableAudit()])


def test_a_total_that_leaves_its_parts_one_value_is_found() -> None:
    """Cells of 1 that may be 0 to 2 each, under a total that says that all are as large as can be."""
    frame = pd.DataFrame({"person": range(4), "region": list("abcd")})
    stage = CellKey(D=1, V=0.5)
    count = pp.tables.Aggregate(by=["region"], responses=["count"])
    made = count.apply(frame, person_id="person", seed=SEED, stages=[stage])
    noise, measure = stage.noise, made.measures[COUNT]
    shown = np.array([5, 0, 0, 0, 0])  # the total deviates by 1, and so does every part
    low, high = noise.reader_intervals(shown)
    assert (low[0], high[1:].tolist()) == (4, [1, 1, 1, 1])
    told = replace(
        made,
        measures={
            COUNT: replace(measure, shown=shown, low=low, high=high, status="perturbed", noise=noise, by_interval=True)
        },
    )
    asked = [pp.tables.MinimumFrequency(at_least=3), pp.tables.TableAudit()]
    with pytest.raises(Refused, match="4 follow from signs and bounds"):
        pp.check(told, asked)


def test_averages_of_one_table_are_those_of_the_definition() -> None:
    made = NOISE.apply(table(people(200)))
    figures = made.measures[COUNT].figures
    ways = averages(made.cells, figures.contributors, NOISE.noise)
    wanted = averaged_variance(variance for _, variance in ways).min()
    verdict = pp.check(made, [pp.tables.Averaging(at_least=0.1)]).verdicts[0]
    assert verdict.observed == pytest.approx(float(wanted))
    with pytest.raises(Refused, match="averages to less"):
        pp.check(made, [pp.tables.Averaging(at_least=float(wanted) + 0.01)])


def test_averages_of_two_tables_count_each_sum_once() -> None:
    frame = people(200).assign(age=np.arange(200) % 3)
    count = pp.tables.Aggregate(
        tables={
            "a": {"by": ["region", "sex"], "responses": ["count"]},
            "b": {"by": ["region", "age"], "responses": ["count"]},
        }
    )
    both = NOISE.apply(count.apply(frame, person_id="person", seed=SEED, stages=[NOISE]))
    observed = pp.check(both, [pp.tables.Averaging(at_least=0.01)]).verdicts[0].observed
    figures, noise = both["a"].measures[COUNT].figures, NOISE.noise
    v = float(noise.rows[-1].variance)
    assert figures.totals.min() >= 3  # so that every cell has the variance of the last row
    # The total: itself, 3 regions, 2 sexes, 6 of both; 3 ages, 9 of regions and ages.
    assert observed == pytest.approx(v / (1 + 1 / 3 + 1 / 2 + 1 / 6 + 1 / 3 + 1 / 9))


def test_a_table_without_noise_is_not_a_pass() -> None:
    with pytest.raises(Refused, match="no noise to be averaged"):
        pp.check(table(people()), [pp.tables.Averaging(at_least=1)])


def test_the_same_people_never_have_two_figures() -> None:
    count = pp.tables.Aggregate(
        tables={name: {"by": ["region"], "responses": ["count"]} for name in ("a", "b")},
    )
    one = CellKey(D=3, V=2.0, tables=("a",))
    for changes in ({"D": 5}, {"V": 1.0}, {"purpose": "other"}, {"delta": 0.5}):
        other = replace(one, tables=("b",), **changes)
        tables = count.apply(people(), person_id="person", seed=SEED, stages=[one, other])
        with pytest.raises(UsageError, match="two figures"):
            other.apply(one.apply(tables))
    with pytest.raises(UsageError, match="perturb once"):
        one.apply(one.apply(tables))


def test_what_cell_keys_cannot_do() -> None:
    frame = people()
    with pytest.raises(UsageError, match="give the seed"):
        table(frame, seed=None)
    with pytest.raises(UsageError, match="person_id"):
        pp.tables.Aggregate(by=["region"], responses=["count"]).apply(frame, seed=SEED, stages=[NOISE])
    with pytest.raises(UsageError, match="was counted without cell keys"):
        NOISE.apply(pp.tables.Aggregate(by=["region"], responses=["count"]).apply(frame, person_id="person"))
    with pytest.raises(UsageError, match="sums need `delta`"):
        table(frame, {"sum": "cost"}, stage=CellKey(D=3, V=2.0))
    with pytest.raises(UsageError, match="leave `weight` out"):
        table(frame, weight="cost")
    with pytest.raises(UsageError, match="js must be below D"):
        CellKey(D=3, V=2.0, js=3)


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
                {"cell_key": {"D": 3, "V": 2.0, "delta": 0.5}},
            ],
            "guarantees": [
                {"minimum_frequency": {"at_least": 15}},
                {"table_audit": {}},
                {"averaging": {"at_least": 0.2}},
            ],
            **changes,
        }

    return made


def test_a_policy_publishes_noise_and_its_table(document: Documents, tmp_path: Path) -> None:
    assert pp.release(document()).published
    shown = pd.read_parquet(tmp_path / "out" / "table.parquet")
    assert set(shown["count_status"]) == {"perturbed"}
    first = (tmp_path / "out" / "table.parquet").read_bytes()
    plan = json.loads((tmp_path / "out" / "_privpipe" / "plan.json").read_text())
    stage = plan["stages"][1]
    noise = NoiseTable.of_greatest_entropy(3, 2.0)
    assert stage["parameters"]["delta"] == 0.5
    assert stage["parameters"]["p_table"] == [
        {"values": list(row.values), "bounds": list(row.bounds)} for row in noise.rows
    ]
    assert "add up" in (tmp_path / "out" / "_privpipe" / "verdict.json").read_text()
    # Twenty releases of the same people say no more than one.
    pp.release(document())
    assert (tmp_path / "out" / "table.parquet").read_bytes() == first


def test_no_key_and_no_largest_contribution_leaves(document: Documents, tmp_path: Path) -> None:
    pp.release(document())
    frame = people(80)
    key = key_of_sums(Seed.insecure("tables"), "tables", "count")
    total = str(sum(record_one(key, str(who)) for who in frame["person"]) % 2**32)
    for file in (tmp_path / "out").rglob("*"):
        if file.is_file():
            assert total.encode() not in file.read_bytes()


def test_a_policy_without_a_seed_is_refused(document: Documents) -> None:
    without = {name: value for name, value in document().items() if name not in ("seed", "allow_insecure_seed")}
    with pytest.raises(PolicyError, match="give `seed:`"):
        pp.Policy.from_dict(without)
    both = document()
    both["transform"][1]["cell_key"].pop("delta")
    with pytest.raises(PolicyError, match="sums need `delta`"):
        pp.Policy.from_dict(both)


def test_records_without_persons_have_keys_of_their_own(document: Documents, tmp_path: Path) -> None:
    policy = {name: value for name, value in document().items() if name != "person_id"}
    assert pp.release(policy).published
    first = (tmp_path / "out" / "table.parquet").read_bytes()
    people(80).sample(frac=1, random_state=3).reset_index(drop=True).to_parquet(tmp_path / "people.parquet")
    pp.release(policy)
    assert (tmp_path / "out" / "table.parquet").read_bytes() == first


def test_exact_means_would_undo_the_noise_of_counts() -> None:
    """Counts 9, 14, 19 with means 90/8, 95/12, 185/20 leave 8 and 12: so means are of perturbed parts only."""
    low, high = NoiseTable.of_greatest_entropy(2, 1.5).reader_intervals(np.array([9, 14, 19]))
    left = []
    for mean, least, greatest in zip([Fraction(90, 8), Fraction(95, 12), Fraction(185, 20)], low, high, strict=True):
        left.append([n for n in range(least, greatest + 1) if (mean * n).denominator == 1])
    assert left[:2] == [[8], [12]]


@pytest.mark.parametrize("seed", deep_beyond(1, range(3)))
def test_many_releases_of_the_same_people_average_to_one_figure(seed: int) -> None:
    frame = people(50, seed)
    figures = {tuple(NOISE.apply(table(frame.sample(frac=1, random_state=at))).public()["count"]) for at in range(10)}
    assert len(figures) == 1


def left_values(made: Table) -> list[set[int]]:
    """The true counts that each cell can have, by going through all tables of inner cells."""
    measure, relations = made.measures[COUNT], made.cells.relations.toarray()
    inner = inner_cells(made.cells)
    ranges = [range(int(measure.low[at]), int(measure.high[at]) + 1) for at in inner]
    chosen = np.array(list(product(*ranges)))
    whole = np.array([added_up(made.cells, each.tolist()) for each in np.eye(len(inner), dtype=np.int64)])
    tables = chosen @ whole
    assert not (relations @ tables.T).any()
    able = tables[((measure.low <= tables) & (tables <= measure.high)).all(axis=1)]
    return [set(column.tolist()) for column in able.T]


@pytest.mark.parametrize("seed", deep_beyond(8, range(20)))
def test_the_audit_of_noise_finds_what_going_through_all_tables_finds(seed: int) -> None:
    """Two by two cells with noise of one step, most of it as far as it can be: a second program says what is left."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(0, 5, 4)
    rows = [(a, b) for at, (a, b) in enumerate(product("xy", "fm")) for _ in range(counts[at])]
    rows += [("x", "f")] if not rows else []
    frame = pd.DataFrame(rows, columns=["region", "sex"]).assign(person=range(len(rows)))
    stage = CellKey(D=1, V=0.5)
    made = table(frame, stage=stage)
    noise, measure = stage.noise, made.measures[COUNT]
    true = measure.figures.totals
    far = np.array([0 if not each else draw.choice([-1, 1, 1, -1, 0]) for each in true])
    shown = true + far
    low, high = noise.reader_intervals(shown)
    told = replace(
        made,
        measures={
            COUNT: replace(measure, shown=shown, low=low, high=high, status="perturbed", noise=noise, by_interval=True)
        },
    )
    left = left_values(told)
    assert all(int(each) in able for each, able in zip(true, left, strict=True))
    failing = sum(0 < each < 4 and len(able) == 1 for each, able in zip(true.tolist(), left, strict=True))
    asked = pp.tables.MinimumFrequency(at_least=4)
    verdict = pp.tables.TableAudit().judge(TableSet(tables={"table": told}, guarantees=[asked]))
    assert verdict.observed == failing


@pytest.mark.deep
def test_noise_of_100_000_cells_has_its_distribution() -> None:
    """Cells of two persons, keyed and counted by the engine: unbiased within four deviations, and by chi-square."""
    number = 100_000
    frame = pd.DataFrame({"person": range(2 * number), "cell": np.repeat(np.arange(number), 2)})
    stage = CellKey(D=3, V=2.0)
    made = pp.tables.Aggregate(by=["cell"], responses=["count"]).apply(
        frame, person_id="person", seed=SEED, stages=[stage]
    )
    found = stage.apply(made).measures[COUNT].shown[1:] - 2
    row = stage.noise.rows[2]
    assert abs(found.mean()) <= 4 * (float(row.variance) / number) ** 0.5
    seen = [int((found == value).sum()) for value in row.values]
    wanted = [weight / 2**32 * number for weight in row.weights]
    assert chisquare(seen, wanted).pvalue > 1e-5


class Seen:
    """Record ids as a function of blocks sees them, with the first column of their rows."""

    def __call__(self, rows: RowBlock) -> RowBlock:
        words = np.ascontiguousarray(rows.record_ids).view(np.uint64)
        texts = [f"{high:016x}{low:016x}" for high, low in words.tolist()]
        return rows.with_batch(pa.record_batch([rows.column("town"), pa.array(texts)], names=["town", "id"]))


def test_keys_of_records_without_persons(engine: Engine) -> None:
    """A record's own id is its contributor."""
    rows = rows_of(3, 80, 30)
    spec = keyed_spec("test", TableSpec(by=("town",), responses=responses_of(["count"])), SEED, "p", sums=True)
    records = engine.with_record_ids(load(engine, rows), None, SEED)
    found = aggregated(engine, records, spec)
    schema = pa.schema([("town", pa.string()), ("id", pa.string())])
    seen = engine.collect(engine.map_rows(records, Seen(), schema)).to_pylist()
    key = key_of_sums(SEED, "p", "count")
    wanted = []
    for label in found.cells.dimensions[0].labels:
        town = None if label == "(missing)" else label
        own = [each["id"] for each in seen if label == "Total" or each["town"] == town]
        wanted.append(sum(record_one(key, text) for text in own) % 2**32)
    assert found.keys["p", COUNT].tolist() == wanted
