"""Populations, persons and wildcards through a whole release, and what is refused under each."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError, PolicyError, Refused, UnsupportedError, UsageError

LEVELS = {"generalize": {"levels": {"age": 2, "town": 1}}}


@pytest.fixture
def census(people: Path, tmp_path: Path) -> Path:
    """Everyone of the table twice, and a town of strangers; numbers are text in it, as in any CSV file."""
    head, *lines = people.read_text(encoding="utf-8").splitlines()
    strangers = [f"stranger {at};{20 + at % 40};Ashford;flu;1.0" for at in range(50)]
    path = tmp_path / "census.csv"
    path.write_text("\n".join([head, *lines, *lines, *strangers]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def compared(document: dict[str, Any], census: Path) -> dict[str, Any]:
    """The release, generalized to given levels and compared with the census."""
    found = copy.deepcopy(document)
    found["columns"]["town"]["hierarchy"] = {"tree": {"anywhere": ["Ashford", "Barrow", "Crewe", "Quokkaville"]}}
    found["population"] = {"path": str(census), "format": "csv", "delimiter": ";"}
    found["transform"] = [LEVELS]
    found["guarantees"] = [
        {"k_map": {"k": 2}},
        {"delta_presence": {"max": 0.5}},
        {"distinct_l_diversity": {"column": "illness", "l": 1}},
    ]
    return found


def test_a_release_next_to_its_population(compared: dict[str, Any], people: Path, census: Path, engine: Engine) -> None:
    """The plan's levels are applied to the raw population; figures by hand."""

    def sizes(path: Path) -> Counter[int]:
        rows = [line.split(";") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        return Counter((int(row[1]) - 20) // 10 for row in rows)

    sample, population = sizes(people), sizes(census)
    result = pp.release(compared, engine=engine)
    k_map, presence, _ = result.assessment.verdicts
    assert k_map.observed == min(population[key] for key in sample)
    shares = [sample[key] / population[key] for key in population]
    assert presence.observed == {"min": pytest.approx(min(shares)), "max": pytest.approx(max(shares))}
    assert result.assessment.passed


def test_a_population_that_lacks_someone_is_a_data_error(compared: dict[str, Any], census: Path) -> None:
    lines = census.read_text(encoding="utf-8").splitlines()
    census.write_text("\n".join([lines[0], *lines[-50:]]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="not a sample of this population"):
        pp.release(compared)
    assert not Path(compared["sink"]["path"]).exists()


def test_a_value_that_only_the_population_has_needs_a_label(compared: dict[str, Any], census: Path) -> None:
    with census.open("a", encoding="utf-8") as lines:
        lines.write("far;30;Farawayville;flu;1.0\n")
    with pytest.raises(DataError, match="population") as caught:
        pp.release(compared)
    assert "Farawayville" not in str(caught.value)


def test_a_hierarchy_that_the_population_would_change_is_refused(compared: dict[str, Any], census: Path) -> None:
    compared["columns"]["town"]["hierarchy"] = {"priority": {"levels": 2, "order": "frequency"}}
    with census.open("a", encoding="utf-8") as lines:
        lines.write("".join(f"x{at};30;Town {at};flu;1.0\n" for at in range(9)))
    with pytest.raises(UnsupportedError, match="generalized: true"):
        pp.release(compared)


def test_a_finished_table_needs_a_generalized_population(compared: dict[str, Any], tmp_path: Path) -> None:
    result = pp.release(compared)
    columns = {name: compared["columns"][name] for name in ("age", "town", "illness", "income")}
    finished = {**compared, "columns": columns}
    finished.pop("record_id")
    with pytest.raises(UsageError, match="generalized: true"):
        pp.assess(result.path, finished)
    twice = pa.concat_tables([pq.read_table(file) for file in sorted(Path(result.path).glob("part-*.parquet"))] * 2)
    pq.write_table(twice, tmp_path / "twice.parquet")
    finished["population"] = {"path": str(tmp_path / "twice.parquet"), "generalized": True}
    judged = pp.assess(result.path, finished)
    assert [verdict.observed for verdict in judged.verdicts][1] == {"min": 0.5, "max": 0.5}


def test_the_raw_source_is_judged_by_the_raw_population(compared: dict[str, Any]) -> None:
    assert pp.assess(None, compared).verdicts[1].observed["max"] <= 0.5


def test_masking_that_a_population_cannot_follow_is_refused(compared: dict[str, Any]) -> None:
    compared["transform"] = [{"rank_swap": {"columns": ["age"], "p": 0.1}}]
    with pytest.raises(UnsupportedError, match="generalized: true"):
        pp.Policy.from_dict(compared)


@pytest.fixture
def visits(document: dict[str, Any], people: Path) -> dict[str, Any]:
    """Four records a person; the person is an identifier and never released."""
    lines = people.read_text(encoding="utf-8").splitlines()
    rows = [f"{line};p{(at * 7) % 100}" for at, line in enumerate(lines[1:])]
    people.write_text("\n".join([f"{lines[0]};who", *rows]) + "\n", encoding="utf-8")
    found = copy.deepcopy(document)
    found["columns"]["who"] = {"role": "identifier"}
    found["columns"]["town"]["hierarchy"] = {"tree": {"anywhere": ["Ashford", "Barrow", "Crewe", "Quokkaville"]}}
    found["person_id"] = "who"
    found["transform"] = [LEVELS, {"add_noise": {"columns": ["income"], "variance_ratio": 0.1}}]
    found["guarantees"] = [{"k_anonymity": {"k": 5}}, {"t_closeness": {"column": "illness", "t": 0.9}}]
    return found


def by_hand(path: Path) -> tuple[int, float]:
    """Least number of persons in a class, and the greatest distance, by decade of age and share of a town's rank."""
    rows = [line.split(";") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    base = Counter(illness for illness, _ in {(row[3], row[5]) for row in rows})
    least, most = len(rows), 0.0
    for decade in range(4):
        mine = [row for row in rows if (int(row[1]) - 20) // 10 == decade]
        counts = Counter(illness for illness, _ in {(row[3], row[5]) for row in mine})
        gaps = [abs(counts[v] / counts.total() - base[v] / base.total()) for v in base]
        least, most = min(least, len({row[5] for row in mine})), max(most, sum(gaps) / 2)
    return least, most


def test_persons_are_counted_and_not_released(visits: dict[str, Any], people: Path, engine: Engine) -> None:
    result = pp.release(visits, engine=engine)
    least, most = by_hand(people)
    assert [verdict.observed for verdict in result.assessment.verdicts] == [least, pytest.approx(most)]
    assert result.assessment.records == 400
    assert any("persons are counted" in note for note in result.assessment.notes)
    columns = pq.read_schema(next(iter(sorted(Path(result.path).glob("part-*.parquet"))))).names
    assert columns == ["age", "town", "illness", "income"]


def test_a_class_of_one_person_is_refused(visits: dict[str, Any], people: Path) -> None:
    """Forty records of one person would pass as forty."""
    visits["guarantees"][0] = {"k_anonymity": {"k": 99}}
    visits["transform"] = [{"generalize": {"levels": {"age": 2, "town": 1}}}]
    with pytest.raises(Refused):
        pp.release(visits)
    assert not Path(visits["sink"]["path"]).exists()


def test_files_that_are_not_what_was_counted_are_not_published(
    visits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.engines.embedded.engine import EmbeddedEngine
    from privpipe.errors import EngineError

    write = EmbeddedEngine.write
    monkeypatch.setattr(
        EmbeddedEngine,
        "write",
        lambda self, table, *rest, **options: write(
            self, table.derived(f"SELECT * FROM {table.source} LIMIT 399"), *rest, **options
        ),
    )
    with pytest.raises(EngineError, match="do not hold the records that were staged"):
        pp.release(visits)
    assert not Path(visits["sink"]["path"]).exists()


def test_suppression_counts_persons(visits: dict[str, Any], engine: Engine) -> None:
    visits["guarantees"] = [{"k_anonymity": {"k": 28}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]
    visits["transform"] = [
        {"generalize": {"levels": {"age": 2, "town": 0}}},
        {"suppress_records": {"suppress_at_most": 0.9}},
    ]
    result = pp.release(visits, engine=engine)
    assert result.assessment.verdicts[0].observed >= 28
    assert 0 < result.assessment.suppressed_records < 400


def test_a_table_without_persons_cannot_be_judged_by_them(visits: dict[str, Any]) -> None:
    result = pp.release(visits)
    with pytest.raises(DataError, match="person_id column 'who' is not in the table"):
        pp.assess(result.path, visits)


def test_what_cannot_count_persons_is_refused(visits: dict[str, Any]) -> None:
    visits["nulls"] = "wildcard"
    with pytest.raises((UnsupportedError, PolicyError), match="leave one of the two out"):
        pp.Policy.from_dict(visits)


@pytest.fixture
def blanks(tmp_path: Path) -> dict[str, Any]:
    """The example of the specification: (M, 4711) three times, (*, 4711) twice, (F, 4712), (F, -), (M, -)."""
    rows = pa.table({"sex": ["M", "M", "M", "*", "*", "F", "F", "M"], "zip": ["4711"] * 5 + ["4712", None, None]})
    pq.write_table(rows, tmp_path / "blanks.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "blanks.parquet")},
        "columns": {"sex": {"role": "quasi_identifier"}, "zip": {"role": "quasi_identifier"}},
        "nulls": "wildcard",
        "wildcard": "*",
        "guarantees": [{"k_anonymity": {"k": 2}}, {"average_risk": {"at_most": 0.22}}],
        "measures": [{"sample_uniqueness": {}}, {"strict_average_risk": {"highest": 0.25}}],
        "sink": {"path": str(tmp_path / "out")},
    }


def test_a_blank_matches_anything(blanks: dict[str, Any], engine: Engine) -> None:
    """Sizes 6, 6, 6, 7, 7, 2, 4, 6: the figures of the files as published, too."""
    result = pp.release(blanks, engine=engine)
    k_anonymity, average = result.assessment.verdicts
    assert (k_anonymity.observed, result.assessment.records) == (2, 8)
    risk = (4 / 6 + 2 / 7 + 1 / 2 + 1 / 4) / 8
    assert average.observed == pytest.approx(risk, rel=1e-12)
    uniques, strict = result.assessment.measures
    assert uniques.observed == 0
    assert strict.observed == pytest.approx({"average": risk, "highest": 0.5, "records_at_risk": 1 / 8})
    again = pp.assess(result.path, blanks)
    assert [verdict.observed for verdict in again.verdicts] == [2, average.observed]
    assert any("matches anything" in note for note in again.notes)


def test_own_values_are_stricter_than_wildcards(blanks: dict[str, Any]) -> None:
    blanks.pop("wildcard")
    blanks["nulls"] = "own_value"
    assert pp.assess(None, blanks).verdicts[0].observed == 1


def test_a_record_of_marks_alone_is_suppressed_not_a_wildcard(blanks: dict[str, Any]) -> None:
    rows = pa.table({"sex": ["*", "F", "F"], "zip": ["*", "1", "1"]})
    judged = pp.assess(rows, blanks)
    assert (judged.records, judged.suppressed_records, judged.verdicts[0].observed) == (2, 1, 2)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"guarantees": [{"k_anonymity": {"k": 2}}, {"estimated_k_map": {"k": 2, "population_size": 99,
         "significance": 0.05}}]}, PolicyError, "estimated_k_map needs classes"),
        ({"nulls": "own_value"}, PolicyError, "has a meaning only with"),
    ],
)  # fmt: skip
def test_what_wildcards_do_not_serve_is_refused(
    blanks: dict[str, Any], change: dict[str, Any], kind: type[Exception], says: str
) -> None:
    blanks.update(change)
    with pytest.raises(kind, match=says):
        pp.Policy.from_dict(blanks)
