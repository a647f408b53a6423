"""k^m-anonymity."""

from __future__ import annotations

import pyarrow as pa
import pytest

from privpipe.assess import assess
from privpipe.blocks import ClassBlock, Verdict
from privpipe.engines import Engine, Source
from privpipe.errors import UnsupportedError, UsageError
from privpipe.models import KAnonymity, KmAnonymity
from privpipe.roles import Roles
from privpipe.testing import judged

ROWS = {
    "age": ["30", "30", "40", "40", "30"],
    "sex": ["F", "M", "F", "M", "F"],
    "zip": ["a", "a", "a", "b", "b"],
}


def verdicts(engine: Engine, rows: dict[str, list[str]], *models: KmAnonymity | KAnonymity) -> list[Verdict]:
    table = engine.scan(Source(data=pa.table(rows)))
    return list(assess(engine, table, guarantees=models, roles=Roles(quasi_identifiers=list(rows))).verdicts)


def test_every_projection_is_counted(engine: Engine) -> None:
    """By hand: of one column at least 2 records share a value; of two, (40, F), (30, M) and others have one."""
    one, two, three, all_of_them = verdicts(engine, ROWS, *(KmAnonymity(k=2, m=m) for m in (1, 2, 3)), KAnonymity(k=2))
    assert (one.observed, one.passed) == (2, True)
    assert (two.observed, two.failing_classes, two.failing_records) == (1, 9, None)
    assert (three.observed, three.failing_classes, three.failing_records) == (1, 5, 5)
    assert three.failing_records == all_of_them.failing_records
    assert "over 3 sets of 2 quasi-identifiers; 9 of 12 combinations fail" in two.reason


def test_named_columns_alone_are_known(engine: Engine) -> None:
    some, single = verdicts(
        engine, ROWS, KmAnonymity(k=2, m=2, columns=("age", "sex")), KmAnonymity(k=2, m=2, columns=("zip",))
    )
    assert (some.observed, single.observed) == (1, 2)


def test_suppressed_records_are_no_combination_but_a_mark_is_a_value(engine: Engine) -> None:
    """Two records of nothing but the mark, and one with the mark in two of three columns."""
    rows = {
        "age": ["*", "*", "*", "30", "30"],
        "sex": ["*", "*", "*", "F", "F"],
        "zip": ["*", "*", "a", "a", "a"],
    }
    two, one = verdicts(engine, rows, KmAnonymity(k=2, m=2), KmAnonymity(k=2, m=1))
    assert (two.observed, two.failing_classes) == (1, 3)
    assert (one.observed, one.failing_classes) == (1, 2)


def test_the_verdict_document_counts_each_record_once(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table(ROWS)))
    found = assess(embedded, table, guarantees=[KmAnonymity(k=2, m=1)], roles=Roles(quasi_identifiers=list(ROWS)))
    assert (found.records, found.suppressed_records, found.classes) == (5, 0, None)


def test_one_set_is_k_anonymity() -> None:
    block = ClassBlock(pa.array([3, 1]).to_numpy())
    assert judged(KmAnonymity(k=2, m=7), block).failing_records == judged(KAnonymity(k=2), block).failing_records


def test_too_many_sets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"30 quasi-identifiers have 142,506 sets of 5, more than the 1,000"):
        KmAnonymity(k=2, m=5).key_sets(tuple(f"q{at}" for at in range(30)))


def test_set_valued_columns_are_not_served_yet() -> None:
    with pytest.raises(UnsupportedError, match="set-valued"):
        KmAnonymity(k=2, m=2, items="basket")


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"k": 0}, "k must"),
        ({"m": 0}, "m must"),
        ({"columns": "age"}, "must be a list"),
        ({"columns": ()}, "at least one"),
        ({"columns": ("a",), "quasi_identifiers": ("b",)}, "the same thing"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        KmAnonymity(**{"k": 2, "m": 2, **parameters})
