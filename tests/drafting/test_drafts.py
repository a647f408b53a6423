"""Each known way to a bad policy is drafted right, and a draft depends on what the table says alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.drafting.column_profiles import Profile, profile_table
from privpipe.drafting.draft import Asked
from privpipe.drafting.guarantees import PURPOSES
from privpipe.drafting.guesses import guess_role
from privpipe.drafting.initial_policy import Drafter
from privpipe.drafting.methods import Method
from privpipe.drafting.relations import relate
from privpipe.drafting.roles import planned, suggest_hierarchy
from privpipe.engines import Source, open_engine

N = 3000


def household_survey(rng: Any) -> pa.Table:
    """As EU-SILC is: persons in households, codes for names, weights that depend on a stratum."""
    household = np.sort(rng.integers(0, N // 2, N))
    region = rng.integers(0, 9, N // 2)[household]
    district = region * 4 + rng.integers(0, 4, N // 2)[household]
    age = rng.integers(0, 95, N)
    return pa.table(
        {
            "db030": household + 100_000,
            "rb030": np.arange(N) * 10 + 7,
            "region": [f"R{at:02}x" for at in region],
            "district": [f"district {at}" for at in district],
            "age": age,
            "birth_year": 2020 - age,
            "sex": np.where(rng.random(N) < 0.5, "male", "female"),
            "sex_code": np.zeros(N, dtype=int),
            "amount": np.round(rng.lognormal(9, 1, N), 2),
            "gewicht": 100 + region * 1.2345,
            "stratum_factor": 3.3331 + region * 0.71717,
            "remark": [f"the visit number {at} went on for long" for at in rng.integers(0, 2500, N)],
            "lat": np.round(45 + rng.random(N), 5),
            "rownames": np.arange(1, N + 1),
            "height": rng.integers(150, 200, N),
            "const": ["x"] * N,
            "flag": rng.integers(0, 2, N),
        }
    )


@pytest.fixture(scope="module")
def survey() -> pa.Table:
    return household_survey(np.random.default_rng(5))


def guesses(table: Any) -> dict[str, Any]:
    found = profile_table(table)
    return dict(planned(found.profiles, found.relations, Asked().answers).guesses)


def test_each_known_way_to_a_bad_policy_is_drafted_right(survey: pa.Table) -> None:
    found = guesses(survey)
    gone = {name for name, guess in found.items() if guess.role in ("identifier", "drop")}
    assert {"db030", "rb030", "remark", "lat", "rownames", "birth_year", "region"} <= gone
    assert {"stratum_factor"} <= gone | {name for name in found if found[name].role == "insensitive"}
    assert found["region"].level_of == "district"
    assert "households" in found["db030"].reason
    assert "a row number" in found["rownames"].reason
    assert "'age'" in found["birth_year"].reason
    assert {name for name, guess in found.items() if guess.role == "quasi_identifier"} >= {"age", "sex", "district"}
    assert found["amount"].role == "insensitive"
    assert found["const"].role == "insensitive"


@pytest.mark.parametrize("name", ["gewicht", "Peso_final", "rb050", "wtssall", "ponderation", "fnlwgt", "PERWT"])
def test_a_weight_is_known_in_several_languages(survey: pa.Table, name: str) -> None:
    names = [name if each == "gewicht" else each for each in survey.column_names if each != "height"]
    found = guesses(survey.drop_columns(["height"]).rename_columns(names))
    assert found[name].role == "drop"


def test_a_weight_next_to_a_height_is_that_of_a_body(survey: pa.Table) -> None:
    rng = np.random.default_rng(2)
    found = guesses(survey.append_column("weight", pa.array(rng.integers(45, 120, N))))
    assert found["weight"].role not in ("identifier", "drop")


@pytest.mark.parametrize(
    "name", ["RelationshipSatisfaction", "DistanceFromHome", "TrainingTimesLastYear", "WorkLifeBalance"]
)
def test_a_word_in_a_longer_name_gives_no_role(name: str) -> None:
    assert guess_role(Profile(name, "integer", 1000, 0, 4)).unknown


@pytest.mark.parametrize("name", ["relationship", "home_city", "year", "marital status", "account balance"])
def test_a_word_that_is_the_name_gives_a_role(name: str) -> None:
    assert not guess_role(Profile(name, "integer", 1000, 0, 40)).unknown


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *(("status", "sensitive"), ("vital_status", "sensitive"), ("marital status", "quasi_identifier")),
        *(("death", "sensitive"), ("tumor severity", "sensitive"), ("serum_creatinine", "sensitive")),
        *(("creat", "sensitive"), ("employment status", "quasi_identifier"), ("test_result", "sensitive")),
    ],
)
def test_outcomes_of_health_are_sensitive(name: str, role: str) -> None:
    assert guess_role(Profile(name, "integer", 1000, 0, 4)).role == role


@pytest.mark.parametrize(
    ("name", "bottom", "top", "role"),
    [
        *(("agi", 412.0, 98_100.0, "quasi_identifier"), ("income", 100.0, 150.0, "sensitive")),
        *(("code", 100_000.0, 999_000.0, "identifier"), ("code", 1.0, 1200.0, "identifier")),
    ],
)
def test_an_amount_that_is_nearly_unique_is_not_a_key(name: str, bottom: float, top: float, role: str) -> None:
    found = Profile(name, "integer", 1000, 0, 990, spread=top - bottom, bottom=bottom, top=top, even=True)
    assert guess_role(found).role == role


def test_where_nothing_is_sensitive_the_likeliest_is_taken_or_asked_about() -> None:
    rng = np.random.default_rng(11)
    columns = {"age": rng.integers(20, 60, 400), "sex": rng.integers(0, 2, 400), "xyz": rng.integers(0, 3, 400)}

    def drafter(**more: Any) -> Drafter:
        return Drafter(profile_table(pa.table({**columns, **more})), Path.cwd(), Asked())

    text = drafter().draft(Method())
    assert "# QUESTION: what must no one learn of a person?" in text
    assert "Is it xyz?" in text
    [asked] = [each.text for each in drafter().questions() if each.key == "sensitive"]
    assert asked.endswith("'xyz' is the likeliest")
    smoker = rng.integers(0, 2, 400)
    text = drafter(smoker=smoker).draft(Method())
    assert "smoker: {role: sensitive, type: integer}" in text
    assert "# QUESTION" not in text
    assert "smoker: {role: sensitive" not in drafter(smoker=smoker, death=smoker[::-1]).draft(Method())


@pytest.mark.parametrize(("distinct", "whole", "floor"), [(60, False, 1), (60, True, 0), (9, False, 1), (3, False, 0)])
def test_real_numbers_are_released_as_intervals_alone(distinct: int, whole: bool, floor: int) -> None:
    found = suggest_hierarchy(Profile("x", "number", 1000, 0, distinct, spread=10.0, top=10.0, whole=whole))
    assert found is not None
    assert found.get("min_level", 0) == floor


def test_dates_are_released_without_the_time_of_day() -> None:
    days = np.datetime64("2001-01-01T00:00:00", "us") + np.arange(300).astype("timedelta64[D]")
    found = suggest_hierarchy(profile_table(pa.table({"seen": days})).profiles[0])
    assert found == {"dates": {"levels": ["day", "month", "quarter", "year", "decade"]}, "min_level": 1}


def test_whole_numbers_that_are_averaged_stay_whole(survey: pa.Table) -> None:
    rng = np.random.default_rng(7)
    steps = pa.array(rng.lognormal(6, 1, N).astype(int))
    some = survey.select(["age", "sex", "amount"]).append_column("steps", steps)
    policy = pp.init(some, purpose="internal", seconds=5)
    released = policy.apply(some)
    assert pa.types.is_integer(released.schema.field("steps").type)
    assert pa.types.is_floating(released.schema.field("amount").type)
    assert abs(pc.mean(released["steps"]).as_py() / pc.mean(steps).as_py() - 1) < 0.02


@pytest.mark.parametrize(
    ("name", "hierarchy"),
    [
        ("home", "frequency_groups"),
        ("roof_code", "frequency_groups"),
        ("home_rooms", "bands"),
        ("cars_in_home", "bands"),
    ],
)
def test_whole_numbers_are_codes_by_their_name_unless_they_count(name: str, hierarchy: str) -> None:
    """Numbers of rooms next to each other are merged; codes of roofs have no order."""
    found = suggest_hierarchy(Profile(name, "integer", 1000, 0, 12, spread=11, top=12))
    assert found is not None
    assert list(found) == [hierarchy]


def test_columns_of_pandas_are_taken_for_what_they_are() -> None:
    at = np.arange(600)
    frame = pd.DataFrame(
        {
            "code": np.where(at % 17, at % 5 + 1.0, np.nan),
            "grade": pd.Categorical.from_codes(at % 4, ["low", "mid", "none yet", "high", "top"], ordered=True),
            "age": pd.cut(at % 70, [-1, 20, 40, 60, 80]),
            "month": pd.period_range("2001-01", periods=24, freq="M")[at % 24],
        }
    )
    found = {each.name: each for each in profile_table(frame).profiles}
    assert {name: each.type for name, each in found.items()} == {
        "code": "integer",
        "grade": "text",
        "age": "text",
        "month": "date",
    }
    assert found["grade"].scale == ("low", "mid", "none yet", "high", "top")
    assert found["age"].scale == ("(-1, 20]", "(20, 40]", "(40, 60]", "(60, 80]")


def test_codes_that_pandas_wrote_with_a_point_are_integers(tmp_path: Path) -> None:
    rows = pd.DataFrame({"code": [1.0, np.nan, 2, 3] * 50, "pay": [1.0, 2.5, 3, 4] * 50, "cents": ["7.00"] * 200})
    rows.to_csv(tmp_path / "a.csv", index=False)
    types = {each.name: each.type for each in profile_table(str(tmp_path / "a.csv")).profiles}
    assert types == {"code": "integer", "pay": "number", "cents": "number"}


def test_the_rows_may_lie_in_any_order(survey: pa.Table) -> None:
    order = np.random.default_rng(1).permutation(N)
    one, other = (
        Drafter(profile_table(table), Path.cwd(), Asked()).draft(Method()) for table in (survey, survey.take(order))
    )
    assert one == other


def test_a_draft_holds_no_value_of_the_table(survey: pa.Table) -> None:
    text = Drafter(profile_table(survey), Path.cwd(), Asked()).draft(Method())
    assert "household_id: db030" in text
    for name in ("region", "district", "remark", "sex"):
        assert not any(f" {value}" in text or f"[{value}" in text for value in set(survey[name].to_pylist()))
    assert not any(str(value) in text for value in survey["amount"].to_pylist())


def test_thresholds_rise_from_internal_to_public() -> None:
    for low, high in zip(list(PURPOSES.values()), list(PURPOSES.values())[1:], strict=False):
        for one, other in zip(low.bands, high.bands, strict=True):
            assert one.k < other.k
            assert one.l <= other.l
            assert one.t > other.t


def test_a_frame_becomes_a_policy_that_releases_it(survey: pa.Table, tmp_path: Path) -> None:
    some = survey.select(["age", "sex", "region", "district", "amount"])
    policy = pp.init(some, purpose="internal", uses=["mean of amount by sex"], seconds=20, out=tmp_path / "p.yaml")
    assert policy.source is None
    assert [str(use) for use in policy.uses] == ["mean of amount by sex"]
    released = policy.apply(some)
    assert {"age", "sex", "district", "amount"} >= set(released.column_names)
    assert all(len(set(released[name].to_pylist())) > 1 for name in released.column_names)
    assert "What the declared uses lose on a sample" in (tmp_path / "p.yaml").read_text()


def test_of_a_large_table_whole_groups_are_measured_and_it_is_said(survey: pa.Table, tmp_path: Path) -> None:
    pq.write_table(survey, tmp_path / "a.parquet")
    profiles = profile_table(str(tmp_path / "a.parquet")).profiles
    with open_engine("embedded") as engine:
        found = relate(engine, engine.scan(Source(data=str(tmp_path / "a.parquet"))), profiles, most=1000)
    assert found.by_key == "db030"
    assert 700 < found.records < 1300
    table = profile_table(survey)
    text = Drafter(type(table)(table.source, table.profiles, (), found), Path.cwd(), Asked()).draft(Method())
    assert f"measured on a sample of {found.records:,} records (whole groups of db030)" in text


def test_a_column_that_undoes_a_quasi_identifier_is_left_out() -> None:
    """As the equivalised size tells the size of the household, whatever is done to that."""
    rng = np.random.default_rng(6)
    size = rng.integers(1, 9, N)
    scale = 1 + 0.5 * (size - 1) + 0.3 * rng.integers(0, 2, N)
    found = guesses(pa.table({"hsize": size, "age": rng.integers(0, 95, N), "scale": scale}))
    assert found["hsize"].role == "quasi_identifier"
    assert found["scale"].role == "drop"
    assert "reveals 'hsize'" in found["scale"].reason
