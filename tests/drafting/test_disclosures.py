"""A draft releases no column that gives back what it generalizes elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from privpipe.drafting.column_profiles import profile_table
from privpipe.drafting.draft import Asked
from privpipe.drafting.profile import Guess
from privpipe.drafting.roles import planned

N = 2000
PARTS = {
    "english": ("year", "month", "day", "hour"),
    "german": ("Jahr", "Monat", "Tag", "Stunde"),
    "french": ("annee", "mois", "jour", "heure"),
    "spanish": ("anio", "mes", "dia", "hora"),
    "italian": ("anno", "mese", "giorno", "ora"),
}


def guesses(table: pa.Table) -> dict[str, Guess]:
    found = profile_table(table)
    return dict(planned(found.profiles, found.relations, Asked().answers).guesses)


def visits(names: tuple[str, ...]) -> dict[str, Any]:
    """Moments of five years in hours, and their parts."""
    moments = pa.array(np.random.default_rng(3).integers(0, 5 * 365 * 24, N) * 3_600_000_000, pa.timestamp("us"))
    parts = [getattr(pc, part)(moments) for part in ("year", "month", "day", "hour")]
    return {"admitted": moments, **dict(zip(names, parts, strict=True))}


@pytest.mark.parametrize("language", PARTS)
def test_parts_of_a_date_are_that_date(language: str) -> None:
    found = guesses(pa.table(visits(PARTS[language])))
    assert found["admitted"].role == "quasi_identifier"
    for name in PARTS[language]:
        assert found[name].role == "drop"
        assert "a part of 'admitted'" in found[name].reason


def test_parts_without_their_date_are_judged_together() -> None:
    table = pa.table(visits(PARTS["english"])).drop_columns(["admitted"])
    assert {found.role for found in guesses(table).values()} == {"quasi_identifier"}


@pytest.mark.parametrize("name", ["yearborn", "birthyr", "gebjahr", "annee_naiss", "anio_nac", "anno_nascita", "v17"])
def test_a_birth_is_not_released_next_to_the_age(name: str) -> None:
    rng = np.random.default_rng(4)
    age = rng.integers(18, 90, N)
    found = guesses(pa.table({"age": age, name: 1988 - age - rng.integers(0, 2, N), "sex": rng.integers(0, 2, N)}))
    assert (found["age"].role, found[name].role) == ("quasi_identifier", "drop")
    assert "'age'" in found[name].reason


def test_columns_that_give_back_a_value_together_do_not_stay_raw() -> None:
    """Two digits of a code, some of them wrong: each leaves fifty values of a coarse label, both leave ten."""
    rng = np.random.default_rng(5)
    zip_code = rng.integers(1000, 3000, 10 * N)
    known = {name: rng.integers(0, 3, 10 * N) for name in ("age", "sex", "region", "race", "education")}
    drawn = {"shift": rng.integers(0, 4, 10 * N), "ward": rng.integers(0, 4, 10 * N)}
    wrong = [rng.random(10 * N) < 0.05 for _ in range(2)]
    letter, colour = (np.where(gone, 0, zip_code // step % 5) for gone, step in zip(wrong, (1, 5), strict=True))
    digits = {"letter": np.array(list("abcde"))[letter], "colour": np.array(list("uvwxy"))[colour]}
    found = guesses(pa.table({"zip": zip_code, **known, **digits, **drawn}))
    assert {found[name].role for name in digits} <= {"quasi_identifier", "drop"}
    assert all("'letter' and 'colour' together predict 'zip'" in found[name].reason for name in digits)
    assert not any("predict" in found[name].reason for name in drawn)


def test_raw_columns_that_make_records_unique_together_are_not_all_released_raw() -> None:
    rng = np.random.default_rng(6)
    loose = {f"v{at}": rng.integers(0, 9, N) for at in range(9)}
    found = guesses(pa.table({"age": rng.integers(20, 76, N), "sex": rng.integers(0, 2, N), **loose}))
    raw = [name for name in loose if found[name].role == "insensitive"]
    codes = np.ravel_multi_index([loose[name] for name in raw], [9] * len(raw))
    unique = np.unique(codes, return_counts=True)[1]
    assert (unique == 1).sum() / N <= 0.2
    assert any("% of the records unique" in found[name].reason for name in loose if name not in raw)


def test_a_function_of_a_generalized_column_is_not_released() -> None:
    rng = np.random.default_rng(7)
    age = rng.integers(20, 76, N)
    found = guesses(
        pa.table({"age": age, "band": np.array(list("abcd"))[(age - 20) // 14], "sex": rng.integers(0, 2, N)})
    )
    assert found["band"].role == "drop"
    assert "a function of 'age'" in found["band"].reason
