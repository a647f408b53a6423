"""Text becomes the value that a hierarchy file's literal would mean, or is counted as no value of the type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privpipe.engines.base.conversion import decimal_scale, from_text
from privpipe.engines.base.logical_types import arrow_type
from privpipe.hierarchies import canonical_literal, canonical_text

LEAP = dt.date(2024, 2, 29)
KINDS = ("integer", "number", "decimal", "date", "timestamp", "boolean")
NUMBERS = ("7", "-", "+", ".", "0", "e", "E5", "inf", "nan", "_", "0x1F", "9223372036854775808", "true", "F", "1")
TIMES = ("2024-05-01", "2024-02-30", "T", "10:00", ":30", ".5", ".1234567", ".123456000", "Z", "+02:00", "-0530", "+02")
PIECES = st.sampled_from([*NUMBERS, *TIMES, " ", "\t"])


def meaning(text: str, kind: str) -> str | None:
    """What the literal means: its canonical text, None for no value, ``bad`` for no value of the type."""
    try:
        found = canonical_literal(text, kind)
    except ValueError:
        return "bad"
    if kind == "integer" and found is not None:
        plain = text.strip().lstrip("+-").isdecimal()
        return found if plain and -(2**63) <= int(found) < 2**63 else "bad"
    return found


@settings(deadline=None)
@given(st.lists(PIECES, max_size=5).map("".join), st.sampled_from(KINDS))
@example("2024-05-01 10:00:00.123456789", "timestamp")
@example("2024-05-01T10:00:00.5 +02:00", "timestamp")
@example("1e400", "number")
@example("-0.0", "number")
def test_a_cell_means_what_a_literal_means(text: str, kind: str) -> None:
    values, bad = from_text(pa.array([text]), kind, scale=9)
    wanted = meaning(text, kind)
    if kind in {"decimal", "timestamp"} and bad:
        return  # more digits than a column holds: refused, never rounded
    assert bad == (wanted == "bad")
    assert values.type == arrow_type(kind, scale=9)
    if kind == "number" and wanted not in {None, "bad"}:
        assert values.to_pylist() == [float(str(wanted))]
    elif not bad:
        assert canonical_text(values, None).to_pylist() == [wanted]


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", {"7": 7, " -7 ": -7, "+7.0": 7, "007": 7, " ": None}, ["7.5", "1e3", "0x1F", "7_0", "9" * 19]),
        ("number", {"7": 7.0, "+.5": 0.5, "5.": 5.0, "1E2": 100.0, "NaN": None, "-inf": -float("inf")}, ["1,5", "0x1"]),
        ("decimal", {"1.50": Decimal("1.50"), "1e-2": Decimal("0.01"), "nan": None}, ["inf", "1.2.3"]),
        ("date", {"2024-02-29": LEAP, "2024-02-29T00:00": LEAP}, ["2023-02-29", "29.2.2024"]),
        (
            "timestamp",
            {"2024-05-01": dt.datetime(2024, 5, 1), "2024-05-01T10:00:00+02:00": dt.datetime(2024, 5, 1, 8)},
            ["2024-05-01T25:00", "10:00", "2024-05-01T10:00:00.0000001"],
        ),
        ("boolean", {"TRUE": True, "f": False, " 1 ": True, "": None}, ["yes", "2"]),
    ],
)  # fmt: skip
def test_each_type(kind: str, good: dict[str, object], bad: list[str]) -> None:
    texts = [*good, *bad, *bad, None]
    values, failed = from_text(pa.array(texts), kind, scale=decimal_scale(pa.array(list(good))))
    assert values.to_pylist() == [*good.values(), *[None] * (2 * len(bad) + 1)]
    assert failed == 2 * len(bad)


def test_text_is_left_alone() -> None:
    texts = pa.array([" a ", "", None, "1"])
    assert from_text(texts, "text") == (texts, 0)


def test_decimals_keep_every_digit() -> None:
    texts = pa.array(["1.5", "0.001", "2e-4", "3", "1e99999", None])
    assert decimal_scale(texts) == 4
    assert decimal_scale(pa.array([], pa.string())) == 0
