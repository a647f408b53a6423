"""Every model, every engine, every hostile table: the oracle's verdict."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import filterfalse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privpipe.blocks import Guarantee
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.models import CATALOGUE
from privpipe.testing import HOSTILE_TABLES, Case, Conformance, HostileTable, PlainEngine, examples_of
from privpipe.testing.oracle import expected_error
from tests.hostile_kinds import KINDS, is_usual

EVERY_EXAMPLE = examples_of(CATALOGUE, population=True)
ONE_OF_EACH = list({type(example): example for example in reversed(EVERY_EXAMPLE)}.values())
IN_PARTS = [table for table in HOSTILE_TABLES.values() if table.make is None]


def on(engine: str, tables: Iterable[HostileTable], *marks: pytest.MarkDecorator) -> list[Any]:
    return [pytest.param(engine, table, id=f"{engine}-{table}", marks=marks) for table in tables]


def conforming(checks: Conformance, table: HostileTable) -> None:
    """Every case that fails is reported."""
    found = checks.report(Case(model, table) for model in checks.models)
    assert not found.failures, str(found)
    assert found.passed or found.gaps


@pytest.mark.parametrize(
    ("engine", "table"),
    [
        *on("embedded", HOSTILE_TABLES.values()),
        *on("dask", HOSTILE_TABLES.values()),
        *on("spark", HOSTILE_TABLES.values(), pytest.mark.deep),
    ],
    indirect=["engine"],
)
def test_every_engine_gives_the_oracle_verdict(engine: Engine, table: HostileTable) -> None:
    conforming(Conformance(engine, EVERY_EXAMPLE), table)


@pytest.mark.spark
@pytest.mark.parametrize("table", KINDS, ids=str)
def test_spark_gives_the_oracle_verdict_of_one_example_of_each_entry(spark_engine: Engine, table: HostileTable) -> None:
    conforming(Conformance(spark_engine, ONE_OF_EACH), table)


@pytest.mark.parametrize(
    ("engine", "table"),
    [
        *on("embedded", filter(is_usual, IN_PARTS)),
        *on("dask", filter(is_usual, IN_PARTS)),
        *on("embedded", filterfalse(is_usual, IN_PARTS), pytest.mark.deep),
        *on("dask", filterfalse(is_usual, IN_PARTS), pytest.mark.deep),
        *on("spark", filter(is_usual, IN_PARTS), pytest.mark.deep),
        *on("spark", filterfalse(is_usual, IN_PARTS), pytest.mark.rare),
    ],
    indirect=["engine"],
)
def test_files_in_parts_are_one_table(engine: Engine, table: HostileTable, tmp_path: Path) -> None:
    """Each row is in another file than the one before: classes must be put together again."""
    conforming(Conformance(engine, EVERY_EXAMPLE, folder=tmp_path), table)


@cache
def served() -> list[Guarantee]:
    return [
        model for model in examples_of(CATALOGUE) if expected_error(model, HOSTILE_TABLES["one_huge_class"]) is None
    ]


def verdicts(engine: Engine, frame: Any) -> list[dict[str, Any]]:
    roles = HOSTILE_TABLES["one_huge_class"].roles
    handle = engine.scan(Source(data=frame))
    return [row.to_dict() for row in assess(engine, handle, guarantees=served(), roles=roles).verdicts]


def test_engines_agree_to_the_last_bit_in_any_row_order(engine: Engine) -> None:
    """Sums run over values in sorted order; the place of a record has no influence."""
    frame = HOSTILE_TABLES["one_huge_class"].frame()
    plain = verdicts(PlainEngine(), frame)  # type: ignore[arg-type]
    shuffled = frame.take(np.random.default_rng(7).permutation(len(frame)))
    assert verdicts(engine, frame) == plain
    assert verdicts(engine, shuffled) == plain
