"""What a ledger keeps of noise: which draw hides which number of whom, by keyed hashes alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks.release_history import NoiseRows
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.judging.release_memory import LedgerUnit, NoiseStage, noise_memory

BEFORE = {
    "id": [1, 2, 3, 4, 5],
    "who": ["a", "a", "b", "b", "c"],
    "income": [10.0, 10.0, 0.0, None, 30.0],
    "rent": [1.0, 2.0, 3.0, 4.0, 5.0],
}
AFTER = {**BEFORE, "income": [11.0, 9.0, 0.0, 7.0, None], "rent": [1.5, 2.5, 3.5, 4.0, None]}


def with_ids(engine: Engine, rows: dict[str, list[Any]]) -> Any:
    return engine.with_record_ids(engine.scan(Source(data=pa.table(rows))), "id", Seed(bytes(16)))


def remembered(engine: Engine, *columns: str, kept: int = 5, **given: Any) -> NoiseRows:
    stage = NoiseStage(
        **{
            "table": with_ids(engine, BEFORE),
            "columns": columns,
            "together": False,
            "ratio": 0.25,
            "key_ids": {name: f"noise {name}" for name in columns},
            **given,
        }
    )
    unit = LedgerUnit(columns=("who",), seed=Seed(b"ledger"), persons=True)
    released = with_ids(engine, {name: values[:kept] for name, values in AFTER.items()})
    return noise_memory(engine, with_ids(engine, BEFORE), released, [stage], unit=unit, bare=["age"])


def different(words: Any) -> int:
    return len({tuple(each) for each in words.tolist()})


def test_a_number_is_reported_where_there_is_one_before_and_after(engine: Engine) -> None:
    rows = remembered(engine, "income")
    assert len(rows) == 3, "of the first three records: one had none before, one has none after"
    assert (different(rows.units), different(rows.draws), different(rows.values)) == (2, 3, 2)
    assert rows.ratios.tolist() == [0.25] * 3
    assert [column for column, _ in rows.stages] == ["income"]
    assert rows.bare == ("age",)


def test_a_zero_that_stays_is_not_secret(embedded: Engine) -> None:
    rows = remembered(embedded, "income", spares_zeros=True)
    assert (len(rows), different(rows.units)) == (2, 1)


def test_records_that_were_not_released_are_left_out(embedded: Engine) -> None:
    assert len(remembered(embedded, "rent")) == 4
    assert len(remembered(embedded, "rent", kept=2)) == 2


def test_a_number_that_did_not_change_hides_nothing_where_nothing_was_added(embedded: Engine) -> None:
    assert remembered(embedded, "rent").ratios.tolist() == [0.25] * 4
    assert sorted(remembered(embedded, "rent", unchanged=frozenset(["rent"])).ratios.tolist()) == [0.0] + [0.25] * 3


def test_columns_have_draws_of_their_own_and_are_distinguished(embedded: Engine) -> None:
    rows = remembered(embedded, "income", "rent")
    assert rows.stage.tolist() == [0] * 3 + [1] * 4
    assert len({key for _, key in rows.stages}) == 2
    assert different(rows.draws) == 7


def test_a_draw_for_all_columns_is_another_where_any_of_them_differs(embedded: Engine) -> None:
    same = {**BEFORE, "income": [10.0] * 5}
    alone = remembered(embedded, "income", table=with_ids(embedded, same), key_ids={"income": "x"})
    again = remembered(
        embedded, "income", table=with_ids(embedded, {**same, "rent": [9.0] * 5}), key_ids={"income": "x"}
    )
    assert sorted(map(tuple, alone.draws.tolist())) == sorted(map(tuple, again.draws.tolist()))
    keys = {"income": "x", "rent": "y"}
    whole = remembered(embedded, "income", "rent", table=with_ids(embedded, same), together=True, key_ids=keys)
    other = {**same, "rent": [9.0, *BEFORE["rent"][1:]]}
    moved = remembered(embedded, "income", "rent", table=with_ids(embedded, other), together=True, key_ids=keys)
    of_income = [{tuple(each) for each in rows.draws[rows.stage == 0].tolist()} for rows in (whole, moved)]
    assert len(of_income[0] - of_income[1]) == 1


@pytest.mark.parametrize("columns", [(), ("wealth",)])
def test_without_a_released_column_of_the_stage_nothing_is_kept(embedded: Engine, columns: tuple[str, ...]) -> None:
    rows = remembered(embedded, *columns)
    assert (len(rows), rows.stages, rows.units.shape, rows.draws.shape) == (0, (), (0, 2), (0, 2))
