"""What columns are to each other decides what a draft makes of them; the method is the one that loses less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.drafting.column_profiles import profile_table
from privpipe.drafting.methods import Candidate, Method
from privpipe.drafting.roles import related_guesses
from privpipe.drafting.trials import Choice, chosen_method
from privpipe.engines import open_engine
from privpipe.policy import Policy

N = 2000


def survey() -> pa.Table:
    rng = np.random.default_rng(3)
    town = rng.integers(0, 12, N)
    school = rng.integers(0, 5, N)
    return pa.table(
        {
            "age": rng.integers(18, 90, N),
            "town": [f"town {at}" for at in town],
            "region": [f"region {at // 4}" for at in town],
            "school_label": [f"school {at}" for at in school],
            "school_number": school,
            "wgt": rng.lognormal(3, 1, N).round(3),
            "body weight": rng.integers(45, 130, N),
            "household": rng.integers(0, 800, N),
            "remark": [f"came in on day {at} and went home well" for at in rng.integers(0, 900, N)],
            "reading": rng.normal(100, 15, N).round(4),
            "colour": rng.choice(["red", "blue", "green"], N),
        }
    )


@pytest.fixture
def drafted(tmp_path: Path) -> Any:
    pq.write_table(survey(), tmp_path / "survey.parquet")
    found = profile_table(str(tmp_path / "survey.parquet"))
    return found, related_guesses(found.profiles, found.relations)


def test_each_known_way_to_a_bad_policy_is_proposed_right(drafted: Any) -> None:
    _, guesses = drafted
    roles = {name: guess.role for name, guess in guesses.items()}
    assert roles["household"] == roles["remark"] == "identifier"
    assert roles["wgt"] == roles["school_number"] == "drop"  # they name no one
    assert "survey weight" in guesses["wgt"].reason
    assert "key of households, of 2." in guesses["household"].reason
    assert "free text, of 9 words" in guesses["remark"].reason
    assert guesses["school_number"].reason.startswith("says what 'school_label' says")
    assert roles["reading"] == "insensitive"
    assert roles["body weight"] not in ("identifier", "drop")
    assert roles["age"] == roles["town"] == "quasi_identifier"
    assert guesses["region"].level_of == "town"


def test_what_is_measured_is_the_definition(drafted: Any) -> None:
    found, _ = drafted
    rows = survey().to_pandas()
    known = ["age", "town", "region", "school_label"]

    def unique(columns: list[str]) -> float:
        return float((rows.groupby(columns)[columns[0]].transform("size") == 1).mean())

    assert found.relations.repeats == {"school_number": "school_label"}
    assert found.relations.follows == {"region": "town"}
    assert found.relations.alone == pytest.approx(unique(known))
    assert "colour" in found.relations.adds


@pytest.mark.deep
def test_the_draft_releases_and_keeps_every_column_it_releases(run: Any, tmp_path: Path) -> None:
    pq.write_table(survey(), tmp_path / "survey.parquet")
    out = tmp_path / "release.yaml"
    assert run("init", tmp_path / "survey.parquet", "--out", out).exit_code == 0
    policy = Policy.load(out)
    assert [stage.name() for stage in policy.transform][:1] == ["microaggregate"]
    done = run("release", out, "--target", tmp_path / "published")
    assert done.exit_code == 0, done.output
    published = pq.read_table(next(Path(tmp_path / "published").glob("*.parquet")))
    assert {"wgt", "household", "remark", "school_number"}.isdisjoint(published.column_names)
    _, counts = np.unique(published["reading"].to_numpy(), return_counts=True)
    assert counts.sum() == len(published)
    assert len(counts) <= N // 5


STAGES = ("generalize: {search: optimal, suppress_at_most: 0.05}", "mondrian: {score: loss}", "mondrian: {}")


def test_the_method_of_least_loss_is_chosen_and_one_that_cannot_is_reported(tmp_path: Path) -> None:
    def draft(method: Method, k: int, t: float = 0.0) -> str:
        close = "" if "t_closeness" in method.without else f"\n  - t_closeness: {{column: colour, t: {t}}}"
        return f"""
version: 1
source: {{path: survey.parquet}}
columns:
  age: {{role: quasi_identifier, hierarchy: {{intervals: {{widths: [10, 20, 40]}}}}}}
  town: {{role: quasi_identifier, hierarchy: {{frequency_groups: {{keep: [6, 3]}}}}}}
  colour: {{role: sensitive}}
transform: [{", ".join(f"{{{stage}}}" for stage in method.stages)}]
guarantees:
  - k_anonymity: {{k: {k}}}
  - distinct_l_diversity: {{column: colour, l: 2}}{close}
"""

    rows = survey().select(["age", "town", "colour"])
    pq.write_table(rows, tmp_path / "survey.parquet")

    def chosen(k: int, t: float = 0.0) -> Method:
        choice = Choice(
            lambda method: draft(method, k, t), lambda _: [Candidate((stage,)) for stage in STAGES], lambda _: []
        )
        with open_engine("embedded") as engine:
            return chosen_method(choice, tmp_path, rows, engine)

    found = chosen(5, 0.9)
    assert found.without == ()
    found = chosen(5, 0.0001)
    assert found.without == ("t_closeness",)
    figures = [line.strip().split(": ", 1) for line in found.notes if line.strip()[0] in "01"]
    losses = {stage.split(" (")[0]: float(figure) for figure, stage in figures}
    assert found.stages == (min(losses, key=lambda stage: losses[stage]),)
    assert "No method met" in chosen(N + 1).notes[0]
