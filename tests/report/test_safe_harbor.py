"""The finder of the 18 kinds of HIPAA Safe Harbor: recall and precision on made data, silence on Adult."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from privpipe.engines import Source
from privpipe.reporting.safe_harbor import KINDS, NAMES, Finding, kinds_of_name, safe_harbor
from tests.gathering import gathered

Make = Callable[[random.Random], str]
VIN_VALUES = dict(zip("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True))


def digits(draw: random.Random, count: int, first: str = "0123456789") -> str:
    return draw.choice(first) + "".join(draw.choices(string.digits, k=count - 1))


def with_luhn(number: str) -> str:
    """The number and the digit that makes it a card's."""
    for check in string.digits:
        odd = [int(digit) for digit in (number + check)[::-1]]
        total = sum(odd[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in odd[1::2])
        if total % 10 == 0:
            return number + check
    raise AssertionError


def iban(draw: random.Random) -> str:
    body = digits(draw, 18)
    check = 98 - int(body + "1314" + "00") % 97
    return f"DE{check:02}{body}"


def vin(draw: random.Random) -> str:
    letters = draw.choices("ABCDEFGHJKLMNPRSTUVWXYZ0123456789", k=17)
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    rest = sum(VIN_VALUES[letter] * weight for letter, weight in zip(letters, weights, strict=True)) % 11
    letters[8] = "X" if rest == 10 else str(rest)
    return "".join(letters)


def dea(draw: random.Random) -> str:
    number = digits(draw, 6)
    check = (sum(map(int, number[::2])) + 2 * sum(map(int, number[1::2]))) % 10
    return f"{draw.choice('ABFM')}{draw.choice(string.ascii_uppercase)}{number}{check}"


def hexes(draw: random.Random, count: int) -> str:
    return "".join(draw.choices("0123456789abcdef", k=count))


def name(draw: random.Random) -> str:
    part = [draw.choice(string.ascii_uppercase) + "".join(draw.choices("aeiourstln", k=6)) for _ in range(2)]
    return " ".join(part)


LOOKS: dict[str, list[Make]] = {
    "name": [name, lambda draw: f"Dr. {name(draw)}"],
    "geographic": [
        lambda draw: f"{digits(draw, 5)}-{digits(draw, 4)}",
        lambda draw: f"{digits(draw, 3, '123456789')} Maple {draw.choice(['Street', 'Ave', 'Road'])}",
        lambda draw: f"SW{digits(draw, 1)}A {digits(draw, 1)}AA",
    ],
    "date": [
        lambda draw: f"19{digits(draw, 2)}-0{draw.randint(1, 9)}-1{digits(draw, 1)}",
        lambda draw: f"{draw.randint(1, 12)}/{draw.randint(1, 28)}/19{digits(draw, 2)}",
        lambda draw: f"{draw.randint(1, 28)} March 19{digits(draw, 2)}",
        lambda draw: f"19{digits(draw, 2)}0{draw.randint(1, 9)}1{digits(draw, 1)}",
    ],
    "phone": [
        lambda draw: f"({digits(draw, 3, '23')}) {digits(draw, 3)}-{digits(draw, 4)}",
        lambda draw: f"{digits(draw, 3, '23')}-{digits(draw, 3)}-{digits(draw, 4)}",
        lambda draw: f"+49 351 {digits(draw, 7)}",
    ],
    "email": [lambda draw: f"{hexes(draw, 6)}@example.org", lambda draw: f"write to {hexes(draw, 5)}@mail.example.com"],
    "ssn": [lambda draw: f"{digits(draw, 3, '12345678')}-{digits(draw, 2)}-{digits(draw, 4)}"],
    "medical_record": [lambda draw: f"MRN-{digits(draw, 7)}"],
    "health_plan": [lambda draw: f"1EG4-TE{digits(draw, 1)}-MK{digits(draw, 2)}"],
    "account": [iban, lambda draw: with_luhn("4" + digits(draw, 14))],
    "licence": [dea],
    "vehicle": [vin],
    "device": [
        lambda draw: ":".join(hexes(draw, 2) for _ in range(6)),
        lambda draw: with_luhn("35" + digits(draw, 12)),
    ],
    "url": [lambda draw: f"https://example.org/{hexes(draw, 5)}", lambda draw: f"www.example.org/{hexes(draw, 4)}"],
    "ip": [
        lambda draw: ".".join(str(draw.randint(0, 255)) for _ in range(4)),
        lambda draw: f"2001:db8::{hexes(draw, 4)}",
    ],
    "biometric": [lambda draw: f"{hexes(draw, 8)}.wsq"],
    "photo": [lambda draw: f"{hexes(draw, 8)}.jpg"],
    "other": [
        lambda draw: "-".join(hexes(draw, count) for count in (8, 4, 4, 4, 12)),
        lambda draw: f"AB{digits(draw, 8)}",
    ],
}
"""The fax number looks like a phone number, and is recognised by its name."""
HARMLESS: dict[str, Make] = {
    "amount": lambda draw: f"{draw.uniform(0, 1e5):.2f}",
    "five_figures": lambda draw: str(draw.randint(10_000, 99_999)),
    "weight": lambda draw: str(draw.randint(12_285, 1_484_705)),
    "year": lambda draw: str(draw.randint(1900, 2020)),
    "time": lambda draw: f"{draw.randint(10, 23)}:{draw.randint(10, 59)}:{draw.randint(10, 59)}",
    "version": lambda draw: f"{draw.randint(0, 9)}.{draw.randint(0, 30)}.{draw.randint(0, 30)}",
    "interval": lambda draw: f"[{draw.randint(0, 9)}0, {draw.randint(10, 19)}0[",
    "grade": lambda draw: draw.choice(["A+", "B-", "C"]),
    "code": lambda draw: draw.choice(["J45.909", "E11.9", "I10"]),
    "words": lambda draw: draw.choice(["Married-civ-spouse", "Exec-managerial", "United-States", "some college"]),
    "ratio": lambda draw: f"{draw.randint(1, 9)}/{draw.randint(1, 9)}",
    "sentence": lambda draw: draw.choice(["came in at 10 o'clock", "no complaint; see above", "e.g. rest @ home"]),
    "two_words": lambda draw: draw.choice(["New York", "New Jersey", "North Dakota"]),
}


def column(make: Make, count: int = 200) -> list[str]:
    draw = random.Random(7)
    return [make(draw) for _ in range(count)]


def found_in(**columns: list[Any]) -> list[Finding]:
    return safe_harbor(pa.table(columns))


CASES = [pytest.param(kind, make, id=f"{kind}-{at}") for kind, makes in LOOKS.items() for at, make in enumerate(makes)]


@pytest.mark.parametrize(("kind", "make"), CASES)
def test_each_look_is_recalled_and_taken_for_nothing_else(kind: str, make: Make) -> None:
    """Under a name that reveals nothing."""
    (finding,) = found_in(x=column(make))
    assert (finding.kind, finding.by, finding.share) == (kind, "value", 1.0)


@pytest.mark.parametrize("make", HARMLESS.values(), ids=list(HARMLESS))
def test_harmless_values_are_left_alone(make: Make) -> None:
    assert found_in(x=column(make)) == []


def test_every_kind_is_known_by_name_and_by_value() -> None:
    assert len(KINDS) == 18
    assert set(NAMES) == set(KINDS)
    assert set(LOOKS) == set(KINDS) - {"fax"}


NAMED = [(phrase, kind) for kind, phrases in NAMES.items() for phrase in phrases.split(",")]


def test_names_are_recognised_in_any_spelling() -> None:
    with gathered() as case:
        for phrase, kind in NAMED:
            with case(phrase):
                words = phrase.split()
                for spelt in (
                    "_".join(words),
                    "-".join(words).upper(),
                    " ".join(words).title(),
                    "my_" + "_".join(words) + "_2",
                ):
                    assert kinds_of_name(spelt) == {kind}


@pytest.mark.parametrize(
    "name", ["age", "sex", "country_name", "education_num", "relationship", "hours-per-week", "birth_year", "gridded"]
)
def test_other_names_tell_nothing(name: str) -> None:
    assert kinds_of_name(name) == set()


def test_a_name_makes_plain_digits_count() -> None:
    plain = column(lambda draw: digits(draw, 9, "12345678"))
    assert [f.kind for f in found_in(x=plain)] == []
    assert [(f.kind, f.by) for f in found_in(ssn=plain)] == [("ssn", "both")]
    assert [(f.kind, f.by) for f in found_in(fax=column(LOOKS["phone"][0]))] == [("fax", "both")]
    assert [(f.kind, f.by) for f in found_in(zip=[10115, 80331, None])] == [("geographic", "both")]
    assert [(f.kind, f.by, f.share) for f in found_in(zip=["?"])] == [("geographic", "name", 0.0)]


def test_one_address_in_a_thousand_remarks_is_reported() -> None:
    (finding,) = found_in(remark=["nothing"] * 999 + ["mail to canary@example.org"])
    assert (finding.kind, finding.share) == ("email", 0.001)
    assert "canary" not in f"{finding}{finding!r}"


@pytest.mark.parametrize("ages", [[90, 40, 30, 20], [90.0, 40.0, 30.0, None], ["90", "40", "?", "x"]])
def test_ages_over_89_are_dates(ages: list[Any]) -> None:
    (finding,) = found_in(age=ages)
    assert (finding.kind, finding.by) == ("date", "value")
    assert finding.share == pytest.approx(1 / sum(age is not None for age in ages))
    assert found_in(age=[89, 2, 200]) == found_in(points=[90, 95]) == []


def test_dates_and_odd_columns() -> None:
    import datetime

    day = pa.array([datetime.date(1980, 1, 31), None])
    odd = {"f": pa.array([1.5, None]), "b": pa.array([True, None]), "n": pa.nulls(2), "d": day}
    assert [(f.column, f.kind) for f in safe_harbor(pa.table(odd))] == [("d", "date")]


def test_adult_holds_ages_over_89_and_nothing_else(project: Path) -> None:
    """43 people of 90; no other column is taken for an identifier, as text or typed."""
    path = project / "pipelines" / "adult" / "data" / "adult.csv"
    typed = pc.read_csv(path, parse_options=pc.ParseOptions(delimiter=";"))
    for data in (typed, Source(data=str(path), format="csv", delimiter=";")):
        (finding,) = safe_harbor(data)
        assert (finding.column, finding.kind, round(finding.share * 32_561)) == ("age", "date", 43)


def test_engines_find_the_same(engine: Any) -> None:
    frame = pa.table({"remark": ["a@example.org", "no", None], "ip": ["10.0.0.1", "10.0.0.2", "x"]})
    assert safe_harbor(frame) == safe_harbor(frame, engine=engine)
