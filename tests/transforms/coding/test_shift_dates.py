"""Shifting dates: one number of days a person, intervals exact, never zero, keyed by the key alone."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.roles import Roles
from privpipe.transforms import ShiftDates
from privpipe.transforms.base import StageContext

KEY = {"from_env": "PRIVPIPE_TEST_KEY"}
N = 600
DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", "0123456789abcdef" * 2)


def frame() -> pa.Table:
    rng = np.random.default_rng(4)
    start = [datetime.date(2020, 1, 1) + int(d) * DAY for d in rng.integers(0, 300, N)]
    return pa.table(
        {
            "row": range(N),
            "person": pa.array([f"p{at % 150}" if at % 7 else None for at in range(N)]),
            "admitted": start,
            "discharged": pa.array([d + 5 * DAY if at % 5 else None for at, d in enumerate(start)]),
            "seen": [datetime.datetime(2020, 3, 1, 13, 45) + at * DAY for at in range(N)],
        }
    )


def shifted(engine: Engine, stage: ShiftDates, rows: pa.Table, person: str | None = None, seed: int = 1) -> pa.Table:
    table = engine.with_record_ids(engine.scan(Source(data=rows)), "row", Seed.insecure(seed))
    roles = Roles(insensitive=tuple(rows.column_names))
    context = StageContext(roles=roles, schema=table.schema, person=person, place="transform[0]")
    plan = stage.learn(engine, table, context)
    assert "0123456789abcdef" not in repr(plan)
    return engine.collect(
        stage.run(engine, table, plan, Draws(Seed.insecure(seed), 0, "shift_dates"), context)
    ).sort_by("row")


def moves(before: pa.Table, after: pa.Table, column: str) -> list[int | None]:
    pairs = zip(before[column].to_pylist(), after[column].to_pylist(), strict=True)
    return [None if a is None else (b - a).days for a, b in pairs]


def test_all_dates_of_a_person_move_alike(embedded: Engine) -> None:
    rows = frame()
    stage = ShiftDates(columns=["admitted", "discharged", "seen"], days=20, key=KEY)
    found = shifted(embedded, stage, rows, person="person")
    admitted, discharged, seen = (moves(rows, found, column) for column in stage.columns)
    by_person: dict[str, set[int]] = {}
    for who, *days in zip(rows["person"].to_pylist(), admitted, discharged, seen, strict=True):
        known = {day for day in days if day is not None}
        assert len(known) == 1
        assert known <= {*range(-20, 0), *range(1, 21)}
        by_person.setdefault(who, set()).update(known)
    alone = by_person.pop(None)  # type: ignore[call-overload]
    assert len(alone) > 10
    assert all(len(days) == 1 for days in by_person.values())
    assert all(value.time() == datetime.time(13, 45) for value in found["seen"].to_pylist())
    again = shifted(embedded, stage, rows, person="person", seed=2)
    known = np.array([who is not None for who in rows["person"].to_pylist()])
    assert again["seen"].filter(pa.array(known)).equals(found["seen"].filter(pa.array(known)))


def test_every_move_is_equally_likely(embedded: Engine) -> None:
    rows = frame()
    found = shifted(embedded, ShiftDates(columns=["admitted"], days=2, key=KEY), rows)
    counts = Counter(moves(rows, found, "admitted"))
    assert set(counts) == {-2, -1, 1, 2}
    assert all(abs(count - N / 4) <= 5 * (N * 3 / 16) ** 0.5 for count in counts.values())


def test_another_key_another_shift(embedded: Engine, tmp_path: Path) -> None:
    rows = frame()
    other = tmp_path / "key"
    other.write_bytes(b"x" * 32)
    one = ShiftDates(columns=["admitted"], days=300, key=KEY)
    two = ShiftDates(columns=["admitted"], days=300, key={"from_file": str(other)})
    assert not shifted(embedded, one, rows)["admitted"].equals(shifted(embedded, two, rows)["admitted"])
    table = embedded.with_record_ids(embedded.scan(Source(data=rows)), "row", Seed.insecure(1))
    context = StageContext(roles=Roles(insensitive=rows.column_names), schema=table.schema, place="transform[0]")
    plan = one.learn(embedded, table, context)
    with pytest.raises(UsageError, match="not the one the plan was made with"):
        two.run(embedded, table, plan, Draws(Seed.insecure(1), 0, "shift_dates"), context)
    with pytest.raises(UsageError, match="another person_id"):
        one.run(embedded, table, plan, Draws(Seed.insecure(1), 0, "shift_dates"), replace(context, person="person"))


def test_what_cannot_be(run: Any) -> None:
    ends = pa.array([datetime.date(9999, 12, 31), datetime.date(1, 1, 1)] * 20)
    with pytest.raises(DataError, match=r"cells of column 'd' beyond the years 1 to 9999"):
        run(ShiftDates(columns=["d"], days=1, key=KEY), {"d": ends})
    with pytest.raises(DataError, match="column 'd' is integer, not a date"):
        run(ShiftDates(columns=["d"], days=1, key=KEY), {"d": [1]})
    with pytest.raises(DataError, match="1 missing"):
        run(
            ShiftDates(columns=["d"], days=1, key=KEY, nulls="refuse"),
            {"d": pa.array([None, datetime.date(2020, 1, 1)])},
        )
    for parameters, message in [({"days": 0}, "days must be"), ({"key": {"literal": "x"}}, "no place 'literal'")]:
        with pytest.raises(UsageError, match=message):
            ShiftDates(**{"columns": ["d"], "days": 1, "key": KEY, **parameters})
