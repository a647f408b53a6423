"""The same table in every form gives the same rows and the same record ids, on every engine."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from privpipe.blocks import Facts
from privpipe.draws import Seed
from privpipe.engines import Engine
from tests.engines.forms.golden import BYTES, FORMS, ROWS, Form
from tests.tiers import third_on_spark


class Ids:
    """The record ids of a table, by the column `id`."""

    def measure(self, block, facts):
        return dict(zip(block.batch.column("id").to_pylist(), map(tuple, block.record_ids.tolist()), strict=True))

    def merge(self, left, right):
        return left | right


def read(engine: Engine, form: Form, folder: Path) -> tuple[list, dict]:
    table = engine.with_record_ids(engine.scan(form.source(folder)), None, Seed.insecure(7))
    rows = engine.collect(table).sort_by("id").to_pylist()
    return rows, engine.reduce_rows(table, ["id"], Ids(), Facts())


@pytest.fixture(scope="module")
def expected() -> list[dict]:
    """Straight from the rows, by Python's own conversions."""
    found = []
    for id_, name, pay, total, born, seen in ROWS:
        found.append(
            {
                "id": int(id_),
                "name": name or None,
                "pay": float(pay) if pay else None,
                "sum": Decimal(total) if total else None,
                "born": date.fromisoformat(born) if born else None,
                "seen": datetime.fromisoformat(seen) if seen else None,
            }
        )
    return sorted(found, key=lambda row: row["id"])


PLAIN_IDS: dict = {}


@pytest.mark.parametrize("form", third_on_spark(FORMS), ids=lambda form: form.name)
def test_every_form_gives_the_rows_and_ids_of_plain_csv(
    engine: Engine, form: Form, tmp_path: Path, expected: list[dict]
) -> None:
    if not PLAIN_IDS:
        rows, ids = read(engine, Form("plain.csv", BYTES), tmp_path)
        assert rows == expected
        PLAIN_IDS.update(ids)
    rows, ids = read(engine, form, tmp_path)
    assert rows == expected
    assert ids == PLAIN_IDS
    assert len(ids) == len(ROWS)
