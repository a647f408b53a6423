"""(alpha, k)-anonymity."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, Histogram
from privpipe.errors import DataError, UsageError
from privpipe.models import AlphaKAnonymity
from privpipe.roles import Roles
from privpipe.testing import block_of, judged

BLOCK = block_of(illness=[[3, 1], [2, 2]], income=[[1, 3], [4, 0]])
FACTS = Facts(histograms={"illness": Histogram(pa.array(["cold", "flu"]), np.array([5, 3]))})


def test_the_top_share_and_the_least_size() -> None:
    verdict = judged(AlphaKAnonymity(k=4, alpha=0.75, column="illness"), BLOCK)
    assert (verdict.observed, verdict.passed) == ({"k": 4, "alpha": 0.75}, True)
    assert not judged(AlphaKAnonymity(k=4, alpha=0.7, column="illness"), BLOCK).passed
    assert not judged(AlphaKAnonymity(k=5, alpha=0.75, column="illness"), BLOCK).passed


def test_only_listed_values_are_bounded() -> None:
    listed = AlphaKAnonymity(k=1, alpha=0.5, column="illness", values=("flu", "none has it"))
    verdict = judged(listed, BLOCK, FACTS)
    assert (verdict.observed, verdict.passed) == ({"k": 4, "alpha": 0.5}, True)
    nobody = AlphaKAnonymity(k=1, alpha=0.5, column="illness", values=("none has it",))
    assert judged(nobody, BLOCK, FACTS).observed == {"k": 4, "alpha": 0.0}


def test_listed_numbers_meet_numbers() -> None:
    known = Facts(histograms={"illness": Histogram(pa.array([1, 30]), np.array([5, 3]))})
    for values in ((30,), (30.0,), ("30",)):
        model = AlphaKAnonymity(k=1, alpha=1.0, column="illness", values=values)
        assert judged(model, BLOCK, known).observed["alpha"] == 0.5


@pytest.mark.parametrize(
    ("values", "held"),
    [
        (pa.array([True, False]), ("true", "True", "TRUE", 1)),
        (pa.array([Decimal("1.50"), Decimal(2)], pa.decimal128(6, 2)), (1.5, "1.5", "1.50", "+1.5")),
        (pa.array([1.0, 2.5]), (1, "1", "1.0", "1e0")),
        (pa.array([7, 8]), ("007", 7.0)),
        (pa.array([date(2024, 5, 1), date(2024, 5, 2)]), ("2024-05-01", "2024-05-01T00:00:00")),
        (
            pa.array([datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)]),
            ("2024-05-01T00:00:00", "2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01T02:00:00+02:00"),
        ),
    ],
    ids=["boolean", "decimal", "number", "integer", "date", "instant"],
)
def test_a_listed_value_is_of_the_type_of_its_column(values: pa.Array, held: tuple[str | float, ...]) -> None:
    """Compared as they are written, they would be in no record, and the guarantee would pass whatever the data."""
    known = Facts(histograms={"illness": Histogram(values, np.array([4, 4]))})
    for value in held:
        model = AlphaKAnonymity(k=1, alpha=1.0, column="illness", values=(value,))
        assert judged(model, BLOCK, known).observed["alpha"] == 0.75, value


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        (pa.array([True, False]), "yes"),
        (pa.array([1, 2]), "one"),
        (pa.array([1, 2]), 1.5),
        (pa.array([date(2024, 5, 1), date(2024, 5, 2)]), "01.05.2024"),
        (pa.array([1.0, 2.0]), ""),
    ],
)
def test_a_listed_value_that_no_record_can_hold_is_an_error(values: pa.Array, wrong: str | float) -> None:
    known = Facts(histograms={"illness": Histogram(values, np.array([4, 4]))})
    model = AlphaKAnonymity(k=1, alpha=0.5, column="illness", values=(wrong,))
    with pytest.raises(DataError, match="1 of the 1 listed values are not of type"):
        judged(model, BLOCK, known)


def test_listed_values_that_occur_nowhere_are_counted() -> None:
    model = AlphaKAnonymity(k=1, alpha=0.5, column="illness", values=("Flu", "flu", "gout"))
    assert "2 of the 3 listed values occur nowhere" in judged(model, BLOCK, FACTS).reason


def test_a_left_out_column_is_each_sensitive_one() -> None:
    filled = AlphaKAnonymity(k=1, alpha=0.75).with_roles(
        Roles(quasi_identifiers=["zip"], sensitive=["illness", "income"])
    )
    assert filled.sensitive_columns() == ("illness", "income")
    assert filled == AlphaKAnonymity(k=1, alpha=0.75)
    assert pickle.loads(pickle.dumps(filled)).sensitive_columns() == ("illness", "income")
    assert judged(filled, BLOCK).observed["alpha"] == 1.0


def test_what_cannot_be_met_is_said() -> None:
    assert "has 2 distinct values" in judged(AlphaKAnonymity(k=1, alpha=0.4, column="illness"), BLOCK).reason
    reason = judged(AlphaKAnonymity(k=1, alpha=0.6, column="illness"), BLOCK).reason
    assert "cannot be met without suppression: all records as one class would have k = 8, alpha = 0.625" in reason


@pytest.mark.parametrize(("alpha", "least"), [(1.0, 1), (0.5, 2), (1 / 3, 3), (0.3, 4), (1e-6, 1_000_000)])
def test_the_least_number_of_values(alpha: float, least: int) -> None:
    assert AlphaKAnonymity(k=1, alpha=alpha).least_values() == least


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"alpha": 0.0}, "alpha must"),
        ({"alpha": 1.1}, "alpha must"),
        ({"alpha": 0.5, "k": None}, "go together"),
        ({"alpha": 0.5, "values": ("flu",)}, "name it by `column`"),
        ({"alpha": 0.5, "column": "illness", "values": "flu"}, "must be a list"),
        ({"alpha": 0.5, "column": "illness", "values": ()}, "at least one"),
        ({"alpha": 0.5, "column": "illness", "values": (True,)}, "'true' or 'false'"),
        ({"alpha": 0.5, "column": "illness", "values": (None,)}, "texts or numbers"),
        ({"alpha": 0.5, "column": "illness", "values": (float("nan"),)}, "finite"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        AlphaKAnonymity(**{"k": 2, **parameters})


@pytest.mark.parametrize(("k", "alpha", "least"), [(5, 0.5, 5), (2, 0.1, 10), (1, 1.0, 1), (None, None, 1)])
def test_a_class_holds_k_records_and_as_many_as_its_values(k: int | None, alpha: float | None, least: int) -> None:
    assert AlphaKAnonymity(k=k, alpha=alpha).least_size() == least


def test_without_a_sensitive_column_there_is_nothing_to_judge() -> None:
    with pytest.raises(UsageError, match="role: sensitive"):
        AlphaKAnonymity(k=2, alpha=0.5).with_roles(Roles(quasi_identifiers=["zip"]))
    with pytest.raises(UsageError, match="name the sensitive"):
        judged(AlphaKAnonymity(k=2, alpha=0.5), BLOCK)
