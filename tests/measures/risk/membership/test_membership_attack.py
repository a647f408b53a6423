"""Membership by the closest released record."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import Verdict
from privpipe.blocks.file_pair import TableFiles, TableMeasure
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.kernels.linkage.attack_figures import advantage_limit, member_figures
from privpipe.measures import ClosestRecord, MembershipAttack
from privpipe.roles import Roles

from ..joined import adult, adult_cases, need_reference


def judged(engine: Engine, entry: TableMeasure, original: pa.Table, released: pa.Table) -> Verdict:
    first, second = (engine.scan(Source(data=table)) for table in (original, released))
    rules = JudgingRules(order=RunKey.of(Seed.insecure("members"), "", "").attacks())
    roles = Roles(quasi_identifiers=tuple(original.schema.names))
    found = assess(engine, second, guarantees=[entry], roles=roles, rules=rules, original=first)
    return found.verdicts[0]


def tables(n: int = 300, seed: int = 4) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        a = rng.normal(50, 10, n)
        sides.append(pa.table({"a": a.round(2), "b": (a + rng.normal(0, 5, n)).round(2)}))
    return sides[0], sides[1]


def by_definition(members: list[Any], others: list[Any]) -> dict[str, float]:
    advantage, tpr = 0.0, 0.0
    for d in {*members, *others}:
        hits, misses = sum(m <= d for m in members) / len(members), sum(o <= d for o in others) / len(others)
        advantage = max(advantage, hits - misses)
        tpr = max(tpr, hits) if misses <= 0.01 else tpr
    auc = sum((m < o) + (m == o) / 2 for m in members for o in others) / (len(members) * len(others))
    return {"advantage": advantage, "auc": auc, "tpr": tpr}


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members, others = rng.integers(0, 6, 30).astype(float), rng.integers(seed, 9, 17).astype(float)
    assert member_figures(members, others) == pytest.approx(by_definition(members.tolist(), others.tolist()))
    assert member_figures(others, others)["auc"] == pytest.approx(0.5)
    assert member_figures(members + 100, members)["advantage"] == 0.0


def test_every_engine_gives_the_distances_of_the_definition(engine: Engine, tmp_path: Path) -> None:
    original, holdout = tables()
    pq.write_table(holdout, tmp_path / "holdout.parquet")
    rng = np.random.default_rng(9)
    released = pa.table({name: original[name].to_numpy() + rng.normal(0, 1, 300) for name in ("a", "b")})
    path = str(tmp_path / "holdout.parquet")
    verdict = judged(engine, MembershipAttack(holdout=path, at_most=0.1), original, released.slice(0, 250))
    x, h, y = (np.column_stack([t["a"], t["b"]]) for t in (original, holdout, released.slice(0, 250)))
    mean, sd = x.mean(axis=0), x.std(axis=0, ddof=1)
    near = [
        np.sqrt((((side - mean) / sd)[:, None] - ((y - mean) / sd)[None]) ** 2 @ np.ones(2)).min(axis=1)
        for side in (x, h)
    ]
    wanted = by_definition(near[0].tolist(), near[1].tolist())
    for name, value in wanted.items():
        assert verdict.observed[name] == pytest.approx(value), name
    assert verdict.observed["upper"] == pytest.approx(wanted["advantage"] + 2 * math.sqrt(math.log(20) / 600))
    assert (verdict.outcome, verdict.observed["attacked"]) == ("fail", 300)
    sampled = judged(engine, MembershipAttack(holdout=path, at_most=1.0, sample=100), original, released)
    assert (sampled.outcome, sampled.observed["attacked"]) == ("pass", 100)


def test_a_verdict_tells_which_attack_was_larger_and_where_its_reference_is_from() -> None:
    original, holdout = tables(300)
    more = tables(50, seed=9)[0]
    halved = "the reference is half of the holdout"

    def verdict(score: Any, reference: pa.Table | None = None) -> Verdict:
        files = TableFiles(original=original, released=original, holdout=holdout, reference=reference)
        entry = MembershipAttack(holdout="h", score=score, reference=None if reference is None else "r")
        return entry.judge_tables(files)

    closest, density, both = (verdict(score) for score in ("closest", "density", "both"))
    assert [halved in each.reason for each in (closest, density, both)] == [False, True, True]
    assert halved not in verdict("density", more).reason
    assert halved not in verdict("both", more).reason
    assert both.observed["score"] == max(("closest", "density"), key=lambda name: both.observed[name]["upper"])
    assert both.observed["upper"] == both.observed[both.observed["score"]]["upper"]
    assert "score" not in closest.observed
    assert "score" not in density.observed


TREE = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"], "Asia": ["Pune"]}}, column="town")


def test_labels_are_no_further_from_what_they_cover() -> None:
    original = pa.table({"town": ["Bonn", "Graz"], "age": [20.0, 40.0]})
    files = TableFiles(
        original=original,
        released=pa.table({"town": ["Europe", "Europe"], "age": [20.0, 40.0]}),
        holdout=pa.table({"town": ["Pune", "Bonn"], "age": [20.0, 25.0]}),
        hierarchies={"town": TREE},
    )
    verdict = MembershipAttack(holdout="h", sample=None).judge_tables(files)
    assert verdict.observed["metric"] == "gower"
    assert (verdict.observed["advantage"], verdict.observed["auc"]) == (1.0, 1.0)


@pytest.mark.parametrize("measure", [MembershipAttack, ClosestRecord])
def test_suppressed_records_that_stay_as_marks_change_no_figure(
    embedded: Engine, tmp_path: Path, measure: type[TableMeasure]
) -> None:
    """Nothing is left of them but the mark, which every value would be near to; one with an age left is looked at."""
    original = pa.table({"town": ["Bonn", "Graz", "Pune"] * 20, "age": [float(at) for at in range(60)]})
    pq.write_table(original.slice(30), tmp_path / "holdout.parquet")
    released = original.slice(0, 24)
    entry = measure(holdout=str(tmp_path / "holdout.parquet"))
    plain = judged(embedded, entry, original.slice(0, 30), released).observed

    def beside(age: float | None) -> Any:
        rows = pa.table({"town": ["*"] * 6, "age": pa.array([age] * 6, pa.float64())})
        return judged(embedded, entry, original.slice(0, 30), pa.concat_tables([released, rows])).observed

    assert beside(None) == plain
    assert beside(27.0) != plain


def test_what_cannot_be_judged_is_an_error(embedded: Engine, tmp_path: Path) -> None:
    original, holdout = tables(20)
    measure = MembershipAttack(at_most=1.0)
    assert judged(embedded, measure, original, original).outcome == "error"
    pq.write_table(holdout.select(["a"]), tmp_path / "narrow.parquet")
    narrow = MembershipAttack(holdout=str(tmp_path / "narrow.parquet"), at_most=1.0)
    with pytest.raises(DataError, match="holdout: .*not in the data"):
        judged(embedded, narrow, original, original)
    constant = pa.table({"a": [1.0] * 5})
    pq.write_table(constant, tmp_path / "constant.parquet")
    same = MembershipAttack(holdout=str(tmp_path / "constant.parquet"), at_most=1.0)
    assert "distinguishes records" in judged(embedded, same, constant, constant).reason
    scanned = embedded.scan(Source(data=original))
    roles = Roles(quasi_identifiers=["a", "b"])
    alone: list[Any] = [MembershipAttack(holdout=str(tmp_path / "narrow.parquet"), at_most=1.0)]
    assert assess(embedded, scanned, guarantees=alone, roles=roles).verdicts[0].outcome == "error"
    assert advantage_limit(0.99, 10, 10) == 1.0
    for wrong in ({"at_most": 2}, {"sample": 0}, {"confidence": 1}, {"columns": ()}, {"score": "near"}, {"radius": 0}):
        with pytest.raises(UsageError):
            MembershipAttack(**wrong)


def test_the_density_is_that_of_the_definition_on_every_engine(engine: Engine, tmp_path: Path) -> None:
    original, holdout = tables(60)
    released, more = tables(50, seed=9)
    for name, table in (("holdout", holdout.slice(0, 40)), ("more", more)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    places = {"holdout": str(tmp_path / "holdout.parquet"), "reference": str(tmp_path / "more.parquet")}
    entry = MembershipAttack(**places, score="density", radius=0.15, at_most=1.0, sample=None)  # type: ignore[arg-type]
    observed = judged(engine, entry, original, released).observed
    x, y, h, r = (np.column_stack([t["a"], t["b"]]) for t in (original, released, holdout.slice(0, 40), more))
    spans = np.ptp(np.vstack([x, y]), axis=0)

    def score(z: Any) -> Fraction:
        counts = [int(((np.abs(side - z) / spans).mean(axis=1) <= 0.15).sum()) for side in (y, r)]
        return -Fraction(counts[0] + 1, len(y) + 1) / Fraction(counts[1] + 1, len(r) + 1)

    wanted = by_definition([score(z) for z in x], [score(z) for z in h])
    for name, value in wanted.items():
        assert observed[name] == pytest.approx(value), name
    assert (observed["attacked"], observed["others"], observed["reference"]) == (60, 40, 50)


@need_reference()
@pytest.mark.parametrize("case", adult_cases("membership_attack"), ids=lambda case: str(case["data"]))
def test_published_figures(case: dict[str, Any]) -> None:
    x, y, h = adult(case["data"])
    files = TableFiles(original=x, released=y, holdout=h.slice(0, 150), reference=h.slice(150))
    entry = MembershipAttack(holdout="h", reference="r", score="both", radius=case["radius"], sample=None)
    observed, expected = entry.judge_tables(files).observed, case["expected"]
    assert observed["closest"]["auc"] == pytest.approx(expected["auc_closest"])
    assert observed["density"]["auc"] == pytest.approx(expected["auc_domias_radius"])
    assert observed["density"]["advantage"] == pytest.approx(expected["advantage_domias_radius"])
    each = 1 - 0.05 / 2
    larger = max(observed[name]["advantage"] for name in ("closest", "density"))
    assert observed["upper"] == pytest.approx(advantage_limit(larger, 300, 150, each))


def test_a_reference_holds_no_one_who_is_attacked(embedded: Engine, tmp_path: Path) -> None:
    original, holdout = tables(200)
    pq.write_table(holdout, tmp_path / "holdout.parquet")
    path = str(tmp_path / "holdout.parquet")
    verdict = judged(embedded, MembershipAttack(holdout=path, score="density", at_most=1.0), original, original)
    assert (verdict.observed["others"], verdict.observed["reference"]) == (100, 100)
    assert "half of the holdout" in verdict.reason
    assert "false-positive rate" in verdict.reason
    pq.write_table(holdout.slice(1), tmp_path / "holdout.parquet")
    assert judged(embedded, MembershipAttack(holdout=path, score="both", at_most=1.0), original, original).blocks
    with pytest.raises(UsageError, match="no record that is attacked"):
        MembershipAttack(holdout=path, reference=path, score="density")
    with pytest.raises(UsageError, match="belongs to score"):
        MembershipAttack(holdout=path, reference="more.csv")


def test_a_reference_is_compared_value_by_value_though_labels_are_released() -> None:
    """The codes of its values are not codes of labels: read as such they would be outside the table of what covers."""
    towns = ["Bonn", "Graz", "Pune", "Oslo"]
    tree = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz", "Oslo"], "Asia": ["Pune"]}}, column="town")
    files = TableFiles(
        original=pa.table({"town": ["Bonn", "Graz", "Pune"]}),
        released=pa.table({"town": ["Europe", "Europe", "Asia"]}),
        holdout=pa.table({"town": ["Pune", "Oslo"]}),
        reference=pa.table({"town": [*towns, "Oslo", "Oslo"]}),
        hierarchies={"town": tree},
    )
    observed = MembershipAttack(holdout="h", reference="r", score="density", sample=None).judge_tables(files).observed
    in_reference = {"Bonn": 1, "Graz": 1, "Pune": 1, "Oslo": 3}
    released = {"Bonn": 2, "Graz": 2, "Pune": 1, "Oslo": 2}
    scores = {town: -Fraction(released[town] + 1, 4) / Fraction(in_reference[town] + 1, 7) for town in towns}
    wanted = by_definition([scores[town] for town in ("Bonn", "Graz", "Pune")], [scores["Pune"], scores["Oslo"]])
    for name, value in wanted.items():
        assert observed[name] == pytest.approx(value), name


def test_scores_that_rounding_alone_separates_are_equal() -> None:
    """Equal shares of different counts differ in the last bit; also below -1, where densities of members lie."""
    members, others = np.array([-3.0, -1.1 * 3]), np.array([-3.0 * (1 + 1e-15), -3.3000000000000003 * (1 - 1e-15)])
    assert member_figures(members, others)["auc"] == 0.5
