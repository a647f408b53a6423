"""Stages that suppress or search next to a population, in persons, under wildcards and for payouts, on every engine."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.errors import DataError, NoSolutionError, Refused, UnsupportedError
from tests.tiers import on_engines

TOWNS = {"*": {"north": ["Ashford", "Barrow"], "south": ["Crewe", "Dover"]}}
AGES = {"groups": {"order": [str(age) for age in range(20, 60)], "sizes": [[10] * 4, [4]]}}
SEARCH = {"generalize": {"search": "optimal", "suppress_at_most": 0.2}}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """300 visits of 150 people drawn from a census of 3,000; some towns are missing."""
    draw = random.Random(5)
    census = [(draw.randint(20, 59), draw.choice([*TOWNS["*"]["north"], "Crewe", "Dover", None])) for _ in range(3000)]
    people = draw.sample(census, 150)
    visits = [draw.randrange(150) for _ in range(300)]
    rows = {
        "visit": [f"v{at}" for at in range(300)],
        "who": [f"person {who}" for who in visits],
        "age": pa.array([people[who][0] for who in visits], pa.int64()),
        "town": [people[who][1] for who in visits],
        "illness": draw.choices(["flu", "gout", "ulcer"], [4, 2, 1], k=300),
    }
    pq.write_table(pa.table(rows), tmp_path / "visits.parquet")
    everybody = {"age": [age for age, _ in census] * 2, "town": [town for _, town in census] * 2}
    pq.write_table(pa.table(everybody), tmp_path / "census.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "visits.parquet")},
        "columns": {
            "visit": {"role": "identifier"},
            "who": {"role": "identifier"},
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": AGES},
            "town": {"role": "quasi_identifier", "hierarchy": {"tree": TOWNS}},
            "illness": {"role": "sensitive"},
        },
        "record_id": "visit",
        "transform": [SEARCH],
        "guarantees": [{"distinct_l_diversity": {"column": "illness", "l": 1}}],
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }


def asking(document: dict[str, Any], *guarantees: dict[str, Any], **changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(document) | changes
    found["guarantees"] += guarantees
    return found


def census_of(document: dict[str, Any]) -> dict[str, str]:
    return {"path": str(Path(document["source"]["path"]).with_name("census.parquet"))}


def test_a_search_by_every_count(document: dict[str, Any], engine: Engine) -> None:
    """The gate judges what the search chose by counts of its own, and passes it; every engine chooses the same."""
    compared = asking(document, {"k_map": {"k": 25}}, {"delta_presence": {"max": 0.09}}, population=census_of(document))
    persons = asking(
        document,
        {"k_anonymity": {"k": 8}},
        {"t_closeness": {"column": "illness", "t": 0.25}},
        {"average_risk": {"at_most": 0.06, "quasi_identifiers": ["town"]}},
        person_id="who",
    )
    wildcard = asking(document, {"k_anonymity": {"k": 12}}, {"average_risk": {"at_most": 0.08}}, nulls="wildcard")
    wildcard["guarantees"] = wildcard["guarantees"][1:]
    wildcard["columns"] = {**wildcard["columns"], "illness": {"role": "insensitive"}}
    paid = asking(
        document,
        {"journalist_profitability": {"adversary_cost": 20}},
        {"prosecutor_profitability": {"publisher_benefit": 100, "publisher_loss": 900, "adversary_cost": 25}},
        population=census_of(document),
    )
    chosen = {}
    for name, policy in {"compared": compared, "persons": persons, "wildcard": wildcard, "paid": paid}.items():
        policy["sink"] = {"path": f"{document['sink']['path']}-{name}"}
        if engine.name == "spark":  # its gate is put to the test elsewhere; here two engines show that it agrees
            stage = pp.plan(None, policy, engine=engine).stages[0].detail
        else:
            result = pp.release(policy, engine=engine)
            assert result.assessment.passed
            stage = result.plan.stages[0].detail
            assert stage["suppressed_records"] == result.assessment.suppressed_records
        assert stage["optimal"]
        chosen[name] = (tuple(stage["levels"].values()), round(stage["loss"], 12), stage["suppressed_records"])
    assert chosen == EXPECTED


EXPECTED = {
    "compared": ((1, 0), 0.10940039245, 0),
    "persons": ((1, 1), 0.295352474884, 25),
    "wildcard": ((1, 0), 0.259154512151, 50),
    "paid": ((1, 0), 0.259154512151, 50),
}
"""Levels, loss and suppressed records."""


CUTS: dict[str, dict[str, Any]] = {
    "mondrian": {"mondrian": {}},
    "sweep": {"local_recoding": {"suppress_at_most": 0.2}},
    "clusters": {"local_recoding": {"method": "search", "steps": 2, "suppress_at_most": 0.2}},
}
FIGURES = ("tree", "rounds", "k", "records", "classes", "left", "loss", "column_losses")


def wildcards(document: dict[str, Any]) -> dict[str, Any]:
    found = asking(document, {"k_anonymity": {"k": 12}}, {"average_risk": {"at_most": 0.08}}, nulls="wildcard")
    found["guarantees"] = found["guarantees"][1:]
    found["columns"] = {**found["columns"], "illness": {"role": "insensitive"}}
    return found


def persons(document: dict[str, Any]) -> dict[str, Any]:
    asked = [{"k_anonymity": {"k": 8}}, {"t_closeness": {"column": "illness", "t": 0.25}}]
    return asking(document, *asked, {"average_risk": {"at_most": 0.06}}, person_id="who")


def households(document: dict[str, Any]) -> dict[str, Any]:
    """Homes of two, whose records are in several classes: they leave as a whole, and are counted in each."""
    visits = pq.read_table(document["source"]["path"])
    homes = [f"home {int(who.split()[1]) // 2}" for who in visits["who"].to_pylist()]
    path = Path(document["source"]["path"]).with_name("homes.parquet")
    pq.write_table(visits.append_column("home", pa.array(homes)), path)
    found = asking(document, source={"path": str(path)}, household_id="home", person_id="who")
    found["columns"]["home"] = {"role": "identifier"}
    found["guarantees"] = [
        {"k_anonymity": {"k": 5, "over": "households"}},
        {"distinct_l_diversity": {"column": "illness", "l": 1, "over": "households"}},
    ]
    return found


@on_engines("embedded")
@pytest.mark.parametrize("count", [wildcards, persons, households], ids=lambda count: count.__name__)
def test_cuts_by_every_count(document: dict[str, Any], engine: Engine, embedded: Engine, count: Any) -> None:
    """The gate passes what was cut, every engine cuts alike, and a plan that was kept is applied as it was learnt."""
    for name, stage in CUTS.items():
        policy = {**count(document), "transform": [stage]}
        policy["sink"] = {"path": f"{document['sink']['path']}-{name}"}
        result = pp.release(policy, engine=engine)
        assert result.assessment.passed
        detail = result.plan.stages[0].detail
        wanted = pp.plan(None, policy, engine=embedded).stages[0].detail
        assert {own: detail.get(own) for own in FIGURES} == {own: wanted.get(own) for own in FIGURES}
        assert detail["classes"] > 3
        kept = pp.Plan.from_json(result.plan.to_json(), pp.Policy.from_dict(policy))
        assert pp.transform(None, kept, engine=engine).num_rows == 300 - result.plan.suppressed_records


PARTS: dict[str, dict[str, Any]] = {
    "by hierarchies": {},
    "by values": {"columns": ["age", "town"], "score": "loss", "labels": "values"},
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_next_to_a_population(document: dict[str, Any], engine: Engine, embedded: Engine, name: str) -> None:
    """The gate finds in the written files what the cuts promise, and every engine cuts and counts alike."""
    policy = asking(document, {"k_map": {"k": 250}}, {"delta_presence": {"max": 0.09}}, population=census_of(document))
    policy["transform"] = [{"mondrian": PARTS[name]}]
    if name == "by values":
        policy["columns"]["age"] = {"role": "quasi_identifier", "type": "integer"}
    policy["guarantees"].append({"k_map": {"k": 200, "quasi_identifiers": ["town"]}})
    policy["measures"] = [{"journalist_risk": {}}]
    result = pp.release(policy, engine=engine)
    assert result.assessment.passed
    detail = result.plan.stages[0].detail
    wanted = pp.plan(None, policy, engine=embedded).stages[0].detail
    assert {own: detail.get(own) for own in FIGURES} == {own: wanted.get(own) for own in FIGURES}
    assert detail["classes"] == EXPECTED_PARTS[name][0]
    seen = [verdict.observed for verdict in result.assessment.verdicts[1:]]
    assert (seen[0], round(seen[1]["max"], 9), seen[2]) == EXPECTED_PARTS[name][1]
    released = pa.concat_tables([pq.read_table(path) for path in sorted(Path(result.path).glob("part-*"))])
    sizes = Counter(zip(released["age"].to_pylist(), released["town"].to_pylist(), strict=True))
    assert len(sizes) == detail["classes"]
    assert seen[1]["max"] >= max(sizes.values()) / 6000
    kept = pp.Plan.from_json(result.plan.to_json(), pp.Policy.from_dict(policy))
    assert pp.transform(None, kept, engine=engine).num_rows == 300


EXPECTED_PARTS = {
    "by hierarchies": (17, (250, 0.084507042, 274)),
    "by values": (18, (260, 0.074829932, 462)),
}
"""Parts; the least k, the greatest presence, and the least k of a town."""


def test_a_population_that_only_a_measure_looks_at(document: dict[str, Any], embedded: Engine) -> None:
    """Labels cover it all the same, whether a plan is made first or not."""
    policy = asking(document, {"k_anonymity": {"k": 8}}, population=census_of(document))
    policy |= {"transform": [{"mondrian": {}}], "measures": [{"k_map": {}}, {"delta_presence": {}}]}
    plan = pp.plan(None, policy, engine=embedded)
    result = pp.release(policy, engine=embedded, plan=plan)
    assert result.plan.stages[0].detail["tree"] == plan.stages[0].detail["tree"]
    least, presence = (measure.observed for measure in result.assessment.measures)
    assert least >= 8
    assert 0 < presence["min"] <= presence["max"] < 0.2


def test_the_place_in_a_tree_follows_from_every_column(document: dict[str, Any], tmp_path: Path) -> None:
    census = pq.read_table(census_of(document)["path"])
    pq.write_table(census.select(["town"]), tmp_path / "towns.parquet")
    policy = asking(document, {"k_map": {"k": 20, "quasi_identifiers": ["town"]}})
    policy |= {"population": {"path": str(tmp_path / "towns.parquet")}, "transform": [{"mondrian": {}}]}
    with pytest.raises(DataError, match="column 'age' is not in the population"):
        pp.release(policy)
    policy["transform"] = [{"mondrian": {"columns": ["town"]}}]
    policy["columns"]["age"] = {"role": "insensitive", "type": "integer"}
    assert pp.release(policy).assessment.passed


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ({"mondrian": {"mode": "relaxed"}}, "divides the records of one value in mode relaxed"),
        ({"local_recoding": {}}, "in a way that a population cannot follow"),
    ],
)
def test_stages_that_a_population_cannot_follow(document: dict[str, Any], stage: dict[str, Any], says: str) -> None:
    """What each error proposes instead is not refused in turn: stages that work for k-map want no generalized one."""
    for entry, advised in ({"guarantees": [{"k_map": {"k": 2}}]}, False), ({"measures": [{"k_map": {}}]}, True):
        policy = {**asking(document, population=census_of(document)), **entry, "transform": [stage]}
        policy["guarantees"] = [*policy["guarantees"], {"distinct_l_diversity": {"column": "illness", "l": 1}}]
        with pytest.raises(UnsupportedError, match=says) as refused:
            pp.Policy.from_dict(policy)
        assert ("give a population that is `generalized: true`" in str(refused.value)) is advised
        policy["population"] = {**policy["population"], "generalized": True}
        if advised:
            pp.Policy.from_dict(policy)
        else:
            with pytest.raises(UnsupportedError):
                pp.Policy.from_dict(policy)


def test_parts_from_the_command_line(document: dict[str, Any], tmp_path: Path) -> None:
    policy = asking(document, {"k_map": {"k": 40}}, population=census_of(document), transform=[{"mondrian": {}}])
    path, plan = tmp_path / "release.yaml", tmp_path / "plan.json"
    path.write_text(json.dumps(policy), encoding="utf-8")
    run = CliRunner()
    assert run.invoke(app, ["plan", str(path), "--out", str(plan)]).exit_code == 0
    ended = run.invoke(app, ["release", str(path), "--plan", str(plan), "--json"])
    assert ended.exit_code == 0
    judged = {each["name"]: each["outcome"] for each in json.loads(ended.stdout)["guarantees"]}
    assert judged["k_map"] == "pass"
    # A newcomer in the register changes nothing but its count.
    census = pq.read_table(census_of(document)["path"])
    pq.write_table(pa.concat_tables([census, census.slice(0, 1)]), census_of(document)["path"])
    assert run.invoke(app, ["release", str(path), "--plan", str(plan)]).exit_code == 0
    policy["guarantees"][1]["k_map"]["k"] = 6002
    path.write_text(json.dumps(policy), encoding="utf-8")
    assert run.invoke(app, ["release", str(path)]).exit_code == 6


@pytest.mark.parametrize("name", ["embedded", "dask_engine"])
def test_given_levels_and_records_as_they_are(
    document: dict[str, Any], name: str, request: pytest.FixtureRequest
) -> None:
    """Classes of fewer than 270 records of the census go, by hand; a census that is generalized already serves too."""
    engine: Engine = request.getfixturevalue(name)
    levels = {"generalize": {"levels": {"age": 1, "town": 0}, "suppress_at_most": 0.4}}
    raw = asking(document, {"k_map": {"k": 270}}, population=census_of(document), transform=[levels])
    result = pp.release(raw, engine=engine)
    sizes: dict[Any, int] = defaultdict(int)
    for row in pq.read_table(census_of(document)["path"]).to_pylist():
        sizes[row["age"] // 10, row["town"]] += 1
    visits = pq.read_table(document["source"]["path"]).to_pylist()
    kept = sum(sizes[row["age"] // 10, row["town"]] >= 270 for row in visits)
    assert 0 < result.assessment.suppressed_records == 300 - kept
    assert result.assessment.verdicts[1].observed == min(size for size in sizes.values() if size >= 270)
    # Applied from its plan, next to the same population.
    policy = pp.Policy.from_dict(raw)
    plan = pp.Plan.from_json(pp.plan(None, policy, engine=engine).to_json(), policy)
    assert pp.transform(None, plan, engine=engine).num_rows == kept


def test_a_finished_population(document: dict[str, Any], tmp_path: Path) -> None:
    policy = asking(document, {"k_map": {"k": 150}}, population=census_of(document))
    policy["transform"] = [{"suppress_records": {"suppress_at_most": 0.9}}]
    policy["columns"]["age"] = {"role": "insensitive", "type": "integer"}
    raw = pp.release(policy)
    policy["population"] = {**census_of(document), "generalized": True}
    policy["sink"] = {"path": str(tmp_path / "again")}
    finished = pp.release(policy)
    assert finished.assessment.suppressed_records == raw.assessment.suppressed_records
    assert finished.assessment.verdicts[1].observed == raw.assessment.verdicts[1].observed
    policy["transform"].append({"rank_swap": {"columns": ["age"], "p": 0.1}})
    with pytest.raises(UnsupportedError, match="give the raw population"):
        pp.Policy.from_dict(policy)


def test_more_than_the_budget_is_not_a_solution(document: dict[str, Any]) -> None:
    policy = asking(document, {"k_anonymity": {"k": 151}}, person_id="who")
    with pytest.raises(NoSolutionError):
        pp.release(policy)
    policy = asking(document, {"delta_presence": {"min": 0.9, "max": 1.0}}, population=census_of(document))
    policy["transform"] = [{"suppress_records": {"suppress_at_most": 1.0}}]
    with pytest.raises(NoSolutionError, match="cannot be met by suppressing classes"):
        pp.release(policy)


@pytest.mark.parametrize(
    ("name", "guarantee", "says"),
    [
        ("local_recoding", {"k_map": {"k": 2}}, "does not count the"),
        ("mondrian", {"k_map": {"k": 2}}, "give the raw population"),
        ("mondrian", {"prosecutor_profitability": {}}, "does not know what labels lose"),
    ],
)
def test_other_stages_say_how_they_count(
    document: dict[str, Any], name: str, guarantee: dict[str, Any], says: str
) -> None:
    change = {"population": {"path": "census.parquet", "generalized": True}} if "k_map" in guarantee else {}
    policy = asking(document, guarantee, **change)
    policy["transform"] = [{name: {}}]
    with pytest.raises(UnsupportedError, match=says):
        pp.Policy.from_dict(policy)


def test_a_class_that_loses_its_records_has_a_presence_of_nothing(tmp_path: Path) -> None:
    """Suppression may take a class that is too rarely present; who knows that rule then knows that no one is there."""
    pq.write_table(pa.table({"zip": ["x"] + ["y"] * 5}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"zip": ["x"] * 100 + ["y"] * 10}), tmp_path / "census.parquet")
    policy: dict[str, Any] = {
        "version": 1,
        "source": {"path": str(tmp_path / "a.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}},
        "population": {"path": str(tmp_path / "census.parquet")},
        "transform": [{"suppress_records": {"suppress_at_most": 0.2}}],
        "guarantees": [{"delta_presence": {"min": 0.05, "max": 0.6}}],
        "sink": {"path": str(tmp_path / "out")},
    }
    assert pp.plan(None, policy).stages[0].detail["suppressed_records"] == 1
    with pytest.raises(Refused) as caught:
        pp.release(policy)
    assert caught.value.assessment.verdicts[0].observed == {"min": 0.0, "max": 0.5}
    policy["guarantees"][0]["delta_presence"]["min"] = 0.0
    assert pp.release(policy).assessment.suppressed_records == 0
