"""Sampling weights that are not a number of people: an error that counts them, never a figure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.blocks import Guarantee
from privpipe.blocks.marks import Weight
from privpipe.blocks.parameters import marked
from privpipe.errors import DataError
from privpipe.transforms import SuppressCells
from privpipe.transforms.local_suppression.suppress_cells_stage import ByRisk

FAULTS: dict[str, tuple[list[Any], str]] = {
    "negative": ([-9.0, 20, 20, 5, 5, 5], "1 of 6 records .* (1 negative)"),
    "zero": ([0, 0, 60.0, 5, 5, 5], "2 of 6 records .* (2 zero)"),
    "infinite": ([math.inf, -math.inf, 3, 5, 5, 5], "2 of 6 records .* (2 infinite)"),
    "not a number": ([math.nan, 3, 3, 5, 5, 5], "1 of 6 records .* (1 missing)"),
    "missing": ([None, None, 3, 5, 5, 5], "2 of 6 records .* (2 missing)"),
    "below 1": ([0.5] * 6, "6 of 6 records .* (6 below 1)"),
    "below 1 among large ones": ([0.5, 30, 30, 5, 5, 5], "1 of 6 records .* (1 below 1)"),
    "sums that overflow": ([1.7e308, 1.7e308, 3, 5, 5, 5], "2 of 6 records .* (2 above 2^53)"),
    "all at once": ([None, -1, 0, 0.1, math.inf, 5], "5 of 6 records .* (1 missing, 1 infinite, 1 negative, 1 zero"),
}


def weighted_entries() -> list[type[Guarantee]]:
    """Every entry of the catalogues with a sampling weight."""
    catalogues = (pp.models, pp.measures)
    found = [getattr(room, name) for room in catalogues for name in room.CATALOGUE.class_names]
    return [entry for entry in found if marked(entry, Weight)]


def test_the_entries_with_a_weight_are_found() -> None:
    assert {entry.name() for entry in weighted_entries()} >= {"individual_risk", "loglinear_risk"}


def rows_with(weights: list[Any]) -> pa.Table:
    return pa.table({"age": list("aaabbb"), "zip": list("xxyxyy"), "weight": pa.array(weights, pa.float64())})


@pytest.mark.parametrize("engine", ["embedded", pytest.param("dask", marks=pytest.mark.dask)])
@pytest.mark.parametrize("entry", weighted_entries(), ids=lambda entry: entry.name())
@pytest.mark.parametrize("fault", FAULTS)
def test_a_weight_that_is_none_is_an_error_which_counts_it(fault: str, entry: type[Guarantee], engine: str) -> None:
    weights, said = FAULTS[fault]
    numbers = {"household": None} if "household" in entry.__dataclass_fields__ else {}
    made = next(each for each in entry.examples() if each.is_gate())
    made = type(made)(**{**vars(made), **numbers})
    for nulls in ("own_value", "wildcard") if made.judges_matching else ("own_value",):
        options: Any = {"quasi_identifiers": ["age", "zip"], "engine": engine, "nulls": nulls}
        found = pp.assess(rows_with(weights), made, **options)
        (verdict,) = found.verdicts
        assert (verdict.outcome, verdict.observed, found.passed) == ("error", None, False)
        reason = str(verdict.reason)
        start, end = said.split(" .* ")
        assert reason.startswith(start)
        assert end in reason
        assert "less than" not in reason


def test_other_entries_are_judged_next_to_a_faulty_weight() -> None:
    risk = pp.measures.IndividualRisk(weight="weight", at_most=0.9)
    entries = [pp.models.KAnonymity(k=2), risk, pp.models.KAnonymity(k=9)]
    found = pp.assess(rows_with([-1, 2, 2, 2, 2, 2]), entries, quasi_identifiers=["age"])
    assert [verdict.outcome for verdict in found.verdicts] == ["pass", "error", "fail"]


def test_a_record_represents_itself_at_least() -> None:
    """p = f / F = 1: the sample is the population, and the risk is 1 / f."""
    risk = pp.measures.IndividualRisk(weight="weight")
    (verdict,) = pp.assess(rows_with([1.0] * 6), risk, quasi_identifiers=["age"]).measures
    assert verdict.observed["max"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("weights", [[-9.0, 20, 20, 5, 5, 5], [0.5, 30, 30, 5, 5, 5], [1e308] * 6, [None, *[5.0] * 5]])
def test_cells_at_risk_are_not_sought_by_weights_that_are_none(weights: list[Any]) -> None:
    stage = SuppressCells(k=2, by_risk=ByRisk(columns=("age",), threshold=0.5, weight="weight"))
    roles = pp.Roles(quasi_identifiers=["age", "zip"])
    with pytest.raises(DataError, match="records have no usable weight in 'weight'"):
        stage.apply(rows_with(weights), roles=roles, seed="6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")


@pytest.mark.parametrize("seed", range(5))
def test_faults_do_not_depend_on_how_rows_are_dealt_out(seed: int) -> None:
    from privpipe.blocks import Facts, RowBlock
    from privpipe.blocks.row_reductions import CountedFaults

    rng = np.random.default_rng(seed)
    weights = rng.choice([-1.0, 0.0, 0.5, 1.0, 7.0, math.inf, math.nan, 1e300], 50)
    counted = CountedFaults("w")
    whole = counted.measure(RowBlock(pa.record_batch({"w": weights})), Facts())
    parts = [counted.measure(RowBlock(pa.record_batch({"w": part})), Facts()) for part in np.split(weights, [7, 7, 31])]
    joined = parts[0]
    for part in parts[1:]:
        joined = counted.merge(joined, part)
    assert joined == whole
    assert whole.faulty == int(sum(not (1 <= w <= 2**53) for w in weights))
