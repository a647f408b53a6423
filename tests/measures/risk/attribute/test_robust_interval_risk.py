"""Intervals that widen for outlying records.

Source of the census figures: reference/sdcmicro.json, dRiskRMD.census.noise10 (sdcMicro 5.8.1), an indication only:
the figure depends on the robust estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.kernels.linkage.interval_disclosure import centre_distances
from privpipe.measures import RobustIntervalRisk


def by_definition(x: np.ndarray, y: np.ndarray, k: float, k2: float) -> tuple[float, float, float]:
    z, w = ((side - side.mean(axis=0)) / side.std(axis=0, ddof=1) for side in (x, y))
    inverse = np.linalg.pinv(np.atleast_2d(np.cov(z, rowvar=False)), rcond=1e-10)
    radius = [0.05 * float(row @ inverse @ row) ** 0.5 for row in z]
    inside = [any(abs(a - b) < k * radius[i] for a, b in zip(z[i], w[i], strict=True)) for i in range(len(z))]
    alone = [
        inside[i] and all(np.linalg.norm(w[i] - w[j]) > k2 for j in range(len(w)) if j != i) for i in range(len(w))
    ]
    near = np.array(inside)
    return near.mean(), float(np.mean(alone)), near.sum() * np.array(radius)[near].sum() / len(x)


def test_every_engine_gives_the_definition(engine: Engine, judged_pair: Any) -> None:
    rng = np.random.default_rng(8)
    x = np.column_stack([rng.normal(0, 3, 80), rng.exponential(2, 80)])
    y = x + rng.normal(0, 0.1, x.shape)
    tables = [pa.table({"a": side[:, 0], "b": side[:, 1]}) for side in (x, y)]
    measure = RobustIntervalRisk(k=0.5, k2=0.3, estimator="classical", at_most=0.1)
    verdict = judged_pair(engine, measure, *tables, order=rng.permutation(80).tolist())
    inside, isolated, weighted = by_definition(x, y, 0.5, 0.3)
    assert 0 < isolated < inside < 1
    assert verdict.observed["inside"] == verdict.observed["share"] == pytest.approx(inside)
    assert verdict.observed["isolated"] == pytest.approx(isolated)
    assert verdict.observed["weighted"] == pytest.approx(weighted)
    assert verdict.outcome == "fail"
    alone = RobustIntervalRisk(k=0.5, k2=0.3, estimator="classical", figure="isolated", at_most=isolated)
    assert judged_pair(engine, alone, *tables).outcome == "pass"


def test_collinear_columns_do_no_harm(embedded: Engine, judged_pair: Any, casc: Callable[[str], pa.Table]) -> None:
    census, masked = casc("census.csv"), casc("reference/sdcmicro_census_noise10.csv")
    measure = RobustIntervalRisk(estimator="classical")
    whole = judged_pair(embedded, measure, census, masked.select(census.schema.names))
    assert 0 < whole.observed["inside"] < 1  # exactly collinear: the reference stops here
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 2))
    twice = np.column_stack([x, x @ [1.0, 2.0]])
    inverse = np.linalg.pinv(np.cov(twice, rowvar=False))
    wanted = np.sqrt(np.einsum("ij,jk,ik->i", twice, inverse, twice))
    assert centre_distances(twice, "classical") == pytest.approx(wanted, rel=1e-7)
    assert centre_distances(x, "classical") == pytest.approx(
        np.sqrt(np.einsum("ij,jk,ik->i", x, np.linalg.inv(np.cov(x, rowvar=False)), x))
    )
    assert centre_distances(np.zeros((3, 2)), "classical").tolist() == [0.0] * 3


def test_the_robust_estimator(embedded: Engine, judged_pair: Any, casc: Callable[[str], pa.Table]) -> None:
    pytest.importorskip("sklearn")
    names = ["AGI", "FEDTAX", "INTVAL", "EMCONTRB"]
    tables = [casc(name).select(names) for name in ("census.csv", "reference/sdcmicro_census_noise10.csv")]
    found = judged_pair(embedded, RobustIntervalRisk(), *tables)
    assert found.observed["inside"] == pytest.approx(0.1, abs=0.03)  # another MCD gives 0.089
    assert judged_pair(embedded, RobustIntervalRisk(), *tables).observed == found.observed
    everything = [casc(name) for name in ("census.csv", "reference/sdcmicro_census_noise10.csv")]
    everything[1] = everything[1].select(everything[0].schema.names)
    assert judged_pair(embedded, RobustIntervalRisk(), *everything).outcome == "pass"


@pytest.mark.parametrize("at_most", [None, 1.0])
def test_records_that_are_mostly_alike_have_no_robust_scatter(
    embedded: Engine, judged_pair: Any, at_most: float | None
) -> None:
    """Most incomes are 0: every interval would have no width, and no record lie inside."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(5)
    numbers = np.where(np.arange(60)[:, None] < 40, 0.0, rng.exponential(3.0, (60, 2)))
    table = pa.table({"a": numbers[:, 0], "b": numbers[:, 1]})
    found = judged_pair(embedded, RobustIntervalRisk(at_most=at_most), table, table)
    assert (found.outcome, found.observed) == ("error", None)
    assert "more than half of the records are alike" in found.reason
    assert centre_distances(numbers, "mcd") is None
    classical = judged_pair(embedded, RobustIntervalRisk(at_most=at_most, estimator="classical"), table, table)
    assert classical.observed["inside"] == 1.0
    half = numbers[20:]
    assert centre_distances(half[1:], "mcd") is not None, "19 of 39 are alike"


@pytest.mark.parametrize("side", [0, 1])
def test_a_column_that_is_constant_on_one_side_tells_no_one_apart(
    embedded: Engine, judged_pair: Any, side: int
) -> None:
    rng = np.random.default_rng(9)
    told = [rng.normal(size=(60, 2))]
    told.append(told[0] + rng.normal(0, 0.05, (60, 2)))
    measure = RobustIntervalRisk(estimator="classical", k2=0.1)
    tables = [pa.table({"a": each[:, 0], "b": each[:, 1]}) for each in told]
    wanted = judged_pair(embedded, measure, *tables).observed
    more = [
        table.append_column("c", pa.array(np.full(60, 7.0) if at == side else rng.normal(size=60)))
        for at, table in enumerate(tables)
    ]
    assert 0 < wanted["inside"] < 1
    assert judged_pair(embedded, measure, *more).observed == pytest.approx(wanted)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_distances_from_the_centre_have_no_unit(scale: float) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, 2))
    points = np.column_stack([x, x @ [0.3, 0.7]])
    inverse = np.linalg.pinv(np.cov(points, rowvar=False), rcond=1e-10)
    wanted = np.sqrt(np.einsum("ij,jk,ik->i", points, inverse, points))
    assert centre_distances(scale * points, "classical") == pytest.approx(wanted, rel=1e-6)


def test_two_points_have_a_scatter_and_one_has_none() -> None:
    assert centre_distances(np.array([[1.0], [-1.0]]), "classical") == pytest.approx([0.5**0.5] * 2)
    assert centre_distances(np.array([[1.0]]), "classical") == [0.0]


def test_outliers_do_not_hide_each_other_from_the_robust_scatter() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(7)
    points = np.concatenate([rng.normal(0, 1, (70, 2)), rng.normal((20, 0), 1, (30, 2))])
    points = (points - np.median(points, axis=0)) / points.std(axis=0)
    robust, classical = (centre_distances(points, estimator) for estimator in ("mcd", "classical"))
    assert robust[70:].min() > 4 * classical[70:].max()
    assert robust[:70] == pytest.approx(np.sqrt(np.einsum("ij,jk,ik->i", points[:70], _inverse(points), points[:70])))


def _inverse(points: np.ndarray) -> np.ndarray:
    from sklearn.covariance import MinCovDet

    found = MinCovDet(support_fraction=51 / 100, random_state=0).fit(points)
    return np.linalg.inv(found.covariance_)


def test_without_the_extra_it_says_what_to_install(
    embedded: Engine, judged_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.covariance", None)
    table = pa.table({"a": [1.0, 2.0, 4.0]})
    with pytest.raises(UnsupportedError, match=r"privpipe\[utility\]"):
        judged_pair(embedded, RobustIntervalRisk(at_most=0.5), table, table)


def test_missing_values_texts_and_constants(embedded: Engine, judged_pair: Any) -> None:
    measure = RobustIntervalRisk(estimator="classical", at_most=1.0)
    table = pa.table({"a": [1.0, None, 4.0, 5.0], "b": [7.0] * 4})
    found = judged_pair(embedded, measure, table, table)
    assert (found.outcome, found.observed["left_out"], found.observed["inside"]) == ("pass", 1, 1.0)
    constant = pa.table({"a": [1.0, 1.0]})
    assert judged_pair(embedded, measure, constant, constant).outcome == "error"
    with pytest.raises(DataError, match="not a number"):
        judged_pair(embedded, measure, table, table.set_column(1, "b", pa.array(["x"] * 4)))
    for wrong in ({"k": 0}, {"k2": -1}, {"figure": "outside"}, {"estimator": "mve"}, {"at_most": 3}):
        with pytest.raises(UsageError):
            RobustIntervalRisk(**wrong)


@pytest.mark.parametrize("estimator", ["classical", "mcd"])
@pytest.mark.parametrize("infinite", [float("inf"), float("-inf")])
@pytest.mark.parametrize("side", [0, 1])
def test_an_infinite_value_on_either_side_is_refused_by_column(
    embedded: Engine, judged_pair: Any, estimator: str, infinite: float, side: int
) -> None:
    table = pa.table({"a": [1.0, 2.0, 4.0, 5.0], "b": [3.0, 1.0, 7.0, 2.0]})
    tables = [table, table]
    tables[side] = table.set_column(1, "b", pa.array([3.0, infinite, 7.0, 2.0]))
    with pytest.raises(DataError, match=r"column 'b' holds infinite values.*leave it out of columns"):
        judged_pair(embedded, RobustIntervalRisk(estimator=estimator, at_most=1.0), *tables)


def test_two_records_are_enough_and_one_is_not(embedded: Engine, judged_pair: Any) -> None:
    measure = RobustIntervalRisk(estimator="classical", at_most=1.0)
    for records, outcome in ((1, "error"), (2, "pass")):
        table = pa.table({"a": [1.0, 2.0][:records]})
        assert judged_pair(embedded, measure, table, table).outcome == outcome
