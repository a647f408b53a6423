"""Values at ranks are those of a plain sort, whatever the sample; no pass brings more than a few of the values."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.blocks import RowBlock
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import DataError
from privpipe.transforms import exact_quantiles
from privpipe.transforms.coding.tail_thresholds import quantile_limits, quantile_rank
from privpipe.transforms.exact_quantiles import AtRank, values_at
from privpipe.transforms.strata import Strata, stratum_keys
from tests.tiers import at_most

CELLS = st.one_of(
    st.none(), st.floats(allow_nan=True), st.integers(-3, 3).map(float), st.sampled_from([0.0, -0.0, 1e300])
)


def strata_by(rows: pa.Table, column: str) -> Strata:
    """Every value of `column` a stratum, but for the last, which is suppressed."""
    keys = np.unique(stratum_keys(rows.combine_chunks().to_batches()[0].select(["by"])))
    numbers = np.append(np.arange(len(keys) - 1), -1)
    found = Strata(
        by=("by",), keys=tuple(keys.tolist()), numbers=tuple(numbers.tolist()), records=(0,) * (len(keys) - 1)
    )
    numbered = found.of(RowBlock(rows.combine_chunks().to_batches()[0]))
    known = [sum(c is not None and c == c for c in members(rows, numbered, at, column)) for at in range(len(found))]
    return Strata(found.by, found.keys, found.numbers, tuple(known), {column: tuple(known)})


def members(rows: pa.Table, numbers: Any, at: int, column: str) -> list[Any]:
    return rows.column(column).filter(pa.array(numbers == at)).to_pylist()


def expected(values: list[Any], rank: int) -> AtRank:
    held = sorted(value for value in values if value is not None and value == value)
    return AtRank(held[rank], sum(value < held[rank] for value in held), held.count(held[rank]))


@given(cells=st.lists(CELLS, min_size=1, max_size=60), sampled=st.integers(1, 9), data=st.data())
@settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_values_are_those_of_a_sort(embedded: Engine, cells: list[Any], sampled: int, data: st.DataObject) -> None:
    known = sum(cell is not None and cell == cell for cell in cells)
    ranks = data.draw(st.lists(st.integers(0, known - 1), max_size=4)) if known else []
    table = embedded.scan(Source(data=pa.table({"x": pa.array(cells, pa.float64())})))
    with mock.patch.multiple(exact_quantiles, SAMPLED=sampled, COLLECTED=sampled, A_BRACKET=1):
        assert values_at(embedded, table, "x", Strata(), [known], [ranks]) == [[expected(cells, at) for at in ranks]]


@pytest.mark.parametrize("sampled", [3, 40, 10_000])
def test_each_stratum_has_its_own_ranks(engine: Engine, sampled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_quantiles, "SAMPLED", sampled)
    monkeypatch.setattr(exact_quantiles, "COLLECTED", sampled)
    rng = np.random.default_rng(1)
    x = np.where(rng.random(900) < 0.3, 2**53 + 1, rng.integers(-(2**62), 2**62, 900))
    rows = pa.table({"by": rng.choice(["a", "b", "c", "d"], 900), "x": pa.array(x, mask=rng.random(900) < 0.1)})
    strata = strata_by(rows, "x")
    numbers = strata.of(RowBlock(rows.combine_chunks().to_batches()[0]))
    ranks = [[n - 1, 0, n // 2, n // 2] for n in strata.known["x"]]
    found = values_at(engine, engine.scan(Source(data=rows)), "x", strata, strata.known["x"], ranks)
    assert found == [[expected(members(rows, numbers, at, "x"), r) for r in each] for at, each in enumerate(ranks)]


def test_what_is_brought_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_quantiles, "SAMPLED", 64)
    monkeypatch.setattr(exact_quantiles, "COLLECTED", 256)
    largest = 0
    read = exact_quantiles._read

    def measured(*given: Any) -> Any:
        nonlocal largest
        found = read(*given)
        largest = max(largest, len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(exact_quantiles, "_read", measured)
    values = np.random.default_rng(2).permutation(200_000)
    with open_engine("embedded", {}) as engine:
        table = engine.scan(Source(data=pa.table({"x": values})))
        (found,) = values_at(engine, table, "x", Strata(), [200_000], [[100_000, 199_999]])
    assert [each.value for each in found] == [100_000, 199_999]
    assert 64 * 8 < largest < 256 * 16 + 1000


def test_fewer_values_than_were_counted_are_refused(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table({"x": [1, 2, None]})))
    with pytest.raises(DataError, match="another table: column 'x' has a different number of values"):
        values_at(embedded, table, "x", Strata(), [3], [[2]])


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("by", [(), ("by",)])
def test_quantiles_of_persons_are_of_their_furthest_values(
    engine: Engine, upper: bool, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privpipe.transforms.coding.tail_thresholds.RECORDS_PER_GROUP", 150)
    monkeypatch.setattr(exact_quantiles, "SAMPLED", 20)
    monkeypatch.setattr(exact_quantiles, "COLLECTED", 20)
    rng = np.random.default_rng(4)
    x = pa.array(rng.normal(size=900).round(2), mask=rng.random(900) < 0.1)
    who = np.minimum(rng.integers(0, 400, 900), 300)
    rows = pa.table({"by": rng.choice(["a", "b", "c"], 900), "x": x, "who": who, "home": who // 3})
    known = (900 - x.null_count,)
    strata = strata_by(rows, "x") if by else Strata(records=(900,), known={"x": known})
    numbers = strata.of(RowBlock(rows.combine_chunks().to_batches()[0]))
    wanted: list[Any] = []
    for at in range(len(strata)):
        limits = []
        for unit in ("who", "home"):
            ends: dict[int, float] = {}
            for person, value in zip(members(rows, numbers, at, unit), members(rows, numbers, at, "x"), strict=True):
                if value is not None:
                    ends[person] = (max if upper else min)(value, ends.get(person, value))
            limits.append(sorted(ends.values())[quantile_rank(0.8, len(ends))])
        wanted.append((min if upper else max)(limits))
    table = engine.scan(Source(data=rows))
    assert quantile_limits(engine, table, "x", strata, ("who", "home"), quantile=0.8, upper=upper) == wanted


def test_a_value_of_no_person_is_refused_with_their_number(engine: Engine) -> None:
    table = engine.scan(Source(data=pa.table({"x": [1, 2, 3], "who": [1, None, None]})))
    strata = Strata(records=(3,), known={"x": (3,)})
    with pytest.raises(DataError, match="person column 'who' has 2 missing values"):
        quantile_limits(engine, table, "x", strata, ("who",), quantile=0.5, upper=True)
