"""What compares a release with its original sees the same aligned files on every engine, or is an error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import privpipe as pp
from privpipe.blocks import FilePair, FilePairMeasure, Verdict
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.engines.readers.source_facts import positioned
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging import JudgingRules, assess
from privpipe.roles import Roles
from privpipe.running.finished_table import aligned

SEED = Seed.insecure("pairs")
ROLES = Roles(identifiers=("name",), quasi_identifiers=("age", "zip"))
ORIGINAL = pa.table(
    {"name": [f"p{i:02d}" for i in range(12)], "age": [float(20 + i) for i in range(12)], "zip": ["08"] * 12}
)


@dataclass(frozen=True, kw_only=True, repr=False)
class LargestShift(FilePairMeasure):
    """The largest |released - original| of the numbers among its columns, and what it saw of the files."""

    at_most: float | None = None

    def judge_files(self, files: FilePair) -> Verdict:
        before, after = files.numbers("original", "age"), files.numbers("released", "age")
        assert before is not None
        assert after is not None
        shift = float(np.abs(before - after).max())
        seen = {
            "shift": shift,
            "pairs": len(files),
            "records": files.records,
            "released": files.released_records,
            "attacked": before[files.sample(4)].tolist(),
            "mean": files.original_facts.moments["age"].mean,
        }
        return Verdict(self, seen, "pass", self.demanded())

    def original_moments(self, roles: Roles) -> tuple[str, ...]:
        return ("age", "zip")


def judged(engine: Engine, original: pa.Table, released: pa.Table) -> Any:
    sides = []
    for table in (released, original):
        scanned = engine.with_record_ids(engine.scan(Source(data=table)), "name", SEED)
        sides.append(engine.select(scanned, ["age", "zip"]))
    rules = JudgingRules(order=RunKey.of(SEED, "", "").attacks())
    found = assess(
        engine, sides[0], guarantees=[LargestShift(at_most=1.0)], roles=ROLES, rules=rules, original=sides[1]
    )
    return found.verdicts[-1].observed


def test_files_are_aligned_alike_on_every_engine_in_any_order(engine: Engine, embedded: Engine) -> None:
    released = ORIGINAL.set_column(1, "age", pa.array([21.5 + i for i in range(12)])).slice(2)
    seen = judged(engine, ORIGINAL, released)
    assert (seen["shift"], seen["pairs"], seen["records"], seen["released"]) == (1.5, 10, 12, 10)
    assert seen["mean"] == 25.5
    assert len(seen["attacked"]) == 4
    order = [7, 3, 0, 9, 1, 8, 2, 6, 4, 5]
    assert judged(engine, ORIGINAL.take([*order, 11, 10]), released.take(order)) == seen
    assert judged(embedded, ORIGINAL, released) == seen


def test_without_an_original_or_ids_the_outcome_is_an_error(embedded: Engine) -> None:
    table = embedded.scan(Source(data=ORIGINAL))
    with_ids = embedded.with_record_ids(table, "name", SEED)
    for original, released in ((None, with_ids), (table, with_ids), (with_ids, table)):
        found = assess(embedded, released, guarantees=[LargestShift(at_most=1.0)], roles=ROLES, original=original)
        assert not found.passed
        assert found.verdicts[-1].outcome == "error"
        assert "aligned by record id" in found.verdicts[-1].reason


def test_a_column_that_one_side_lacks_is_a_data_error(embedded: Engine) -> None:
    table = embedded.with_record_ids(embedded.scan(Source(data=ORIGINAL)), "name", SEED)
    less = embedded.select(table, ["zip"])
    for original, released, side in ((less, table, "original"), (table, less, "table")):
        with pytest.raises(DataError, match=f"'age' is not in the {side}"):
            assess(embedded, released, guarantees=[LargestShift(at_most=1.0)], roles=ROLES, original=original)


def test_positions_are_those_of_the_files(embedded: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        pa.csv.write_csv(ORIGINAL.slice(4 * part, 4), folder / f"part-{part}.csv")
    source = Source(data=str(folder), format="csv", types={"age": "number"})
    assert positioned(source)["name"].to_pylist() == ORIGINAL["name"].to_pylist()
    policy = pp.Policy.from_dict(
        {
            "version": 1,
            "columns": {
                "name": {"role": "identifier"},
                "age": {"role": "quasi_identifier", "type": "number"},
                "zip": {"role": "quasi_identifier"},
            },
            "guarantees": [{"k_anonymity": {"k": 2}}],
        }
    )
    released = ORIGINAL.drop_columns(["name"])
    sides = aligned(embedded, Source(data=released), source, policy, "position", SEED)
    rules = JudgingRules(order=RunKey.of(SEED, "", "").attacks())
    found = assess(
        embedded, sides[0], guarantees=[LargestShift(at_most=1.0)], roles=ROLES, rules=rules, original=sides[1]
    )
    assert found.verdicts[-1].observed["shift"] == 0.0
    assert found.verdicts[-1].observed["pairs"] == 12
    with pytest.raises(DataError, match="cannot be aligned by position: one has 11 records, the original 12"):
        aligned(embedded, Source(data=released.slice(1)), source, policy, "position", SEED)
    keyed = policy.replaced(record_id="name")
    by_id = aligned(embedded, Source(data=ORIGINAL.slice(3)), source, keyed, "record_id", SEED)
    found = assess(
        embedded, by_id[0], guarantees=[LargestShift(at_most=1.0)], roles=ROLES, rules=rules, original=by_id[1]
    )
    assert found.verdicts[-1].observed["shift"] == 0.0
    assert found.verdicts[-1].observed["pairs"] == 9
    without = aligned(embedded, Source(data=released), source, keyed, "record_id", SEED)
    assert not without[0].has_record_ids


@pytest.mark.spark
def test_a_spark_frame_has_no_order(spark_engine: Any) -> None:
    frame = spark_engine.session.createDataFrame(ORIGINAL.to_pandas())
    with pytest.raises(UnsupportedError, match="no order"):
        positioned(Source(data=frame))
