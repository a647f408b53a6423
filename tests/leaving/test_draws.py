"""No draw serves two releases that differ; an unchanged value under an unchanged plan keeps its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.engines.readers.source import Source
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from tests.tiers import deep_among

STRONG = {"from_env": "PRIVPIPE_TEST_SEED"}
N = 600


@pytest.fixture
def people(tmp_path: Path) -> pd.DataFrame:
    """Everything follows from one hidden figure, so that any join of rows shows."""
    rng = np.random.default_rng(7)
    hidden = rng.normal(size=N)
    rank = hidden.argsort().argsort()
    found = pd.DataFrame(
        {
            "name": [f"person {at:04d}" for at in rng.permutation(N)],
            "tag": rng.permutation(N),
            "age": 20 + rank * 40 // N,
            "height": 150 + rank * 50 // N,
            "rent": 300 + rank * 900 // N,
            "illness": np.array(["flu", "cold", "gout", "asthma"])[(rank * 4 // N + rng.integers(0, 3, N)) % 4],
            "income": np.exp(10 + 0.6 * hidden).round(2),
            "wealth": np.exp(11 + 0.8 * hidden + 0.1 * rng.normal(size=N)).round(2),
        }
    )
    found.to_parquet(tmp_path / "people.parquet", index=False)
    return found


def policy(folder: Path, name: str, shown: list[str], *stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {column: {"role": "identifier"} for column in pd.read_parquet(folder / "people.parquet")}
    columns |= {column: {"role": "insensitive"} for column in shown}
    return {
        "columns": columns,
        "source": {"path": str(folder / "people.parquet")},
        "record_id": "name",
        "transform": list(stages),
        "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": []}}],
        "sink": {"path": str(folder / name)},
        "seed": STRONG,
        **more,
    }


def released(document: dict[str, Any], engine: Engine | None = None, **more: Any) -> pd.DataFrame:
    """The rows as they are in the published files."""
    folder = Path(pp.release(document, engine=engine, **more).path)
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))], ignore_index=True)


def stored(rows: pd.DataFrame, folder: Path) -> dict[str, str]:
    """Next month's source, in a file of its own: a Spark session may remember what it read of another."""
    rows.to_parquet(folder / "later.parquet", index=False)
    return {"path": str(folder / "later.parquet")}


def by_tag(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values("tag", ignore_index=True)


NOISE = {"columns": ["income"], "variance_ratio": 0.5}


def test_releases_of_other_columns_do_not_join_by_position(
    engine: Engine, people: pd.DataFrame, tmp_path: Path
) -> None:
    parts = [released(policy(tmp_path, name, [name]), engine)[name] for name in ("age", "height", "rent")]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(parts[one].rank(), parts[other].rank())[0, 1]) < 5 / np.sqrt(N)
    again = released(policy(tmp_path, "age", ["age"]), engine)
    assert again["age"].equals(parts[0])  # the same source, policy and seed


def test_two_ratios_give_no_equation(engine: Engine, people: pd.DataFrame, tmp_path: Path) -> None:
    ratios = (0.5, 1.0)
    stages = [{"add_noise": {"columns": ["income"], "variance_ratio": ratio}} for ratio in ratios]
    a, b = (
        by_tag(released(policy(tmp_path, f"r{at}", ["tag", "income"], stage), engine))
        for at, stage in enumerate(stages)
    )
    truth = people.sort_values("tag")["income"].to_numpy()
    sd = truth.std(ddof=1)
    z = (b["income"] - a["income"]) / (sd * (np.sqrt(ratios[1]) - np.sqrt(ratios[0])))
    guess = a["income"] - np.sqrt(ratios[0]) * sd * z
    assert np.isclose(guess, truth, atol=1.0).sum() <= 2
    noise = [(each["income"].to_numpy() - truth) for each in (a, b)]
    assert abs(np.corrcoef(*noise)[0, 1]) < 5 / np.sqrt(N)


@pytest.mark.parametrize(
    "stage",
    [
        {"add_noise": NOISE},
        {"add_noise": {**NOISE, "kind": "multiplicative"}},
        {"add_noise": {"columns": ["income", "wealth"], "variance_ratio": 0.5, "kind": "correlated"}},
        {"round": {"columns": ["income"], "base": 20000, "mode": "random"}},
    ],
    ids=["uncorrelated", "multiplicative", "correlated", "round"],
)
def test_next_month_shows_that_a_value_changed_and_no_more(
    stage: dict[str, Any], engine: Engine, people: pd.DataFrame, tmp_path: Path
) -> None:
    shown = ["tag", "income", *(["wealth"] if "wealth" in str(stage) else [])]
    plan = pp.release(policy(tmp_path, "first", shown, stage), engine=engine).plan
    before = by_tag(pd.read_parquet(tmp_path / "first"))
    (tmp_path / "plan.json").write_text(plan.to_json())
    raised = np.random.default_rng(1).random(N) < 0.4
    later = people.assign(income=people["income"] + np.where(raised, 1000.0, 0.0)).iloc[5:]
    frozen = {"plan": {"file": str(tmp_path / "plan.json")}, "source": stored(later, tmp_path)}
    after = by_tag(released(policy(tmp_path, "second", shown, stage, **frozen), engine))
    both = before.merge(after, on="tag", suffixes=("", "_later"))
    changed = both["tag"].isin(people["tag"][raised]).to_numpy()
    assert len(both) == N - 5
    same = both["income"] == both["income_later"]
    assert same[~changed].all()  # bit for bit
    if "round" in stage:
        assert same[changed].mean() < 0.95
        return
    assert not same[changed].any()
    difference = (both["income_later"] - both["income"])[changed]
    assert (difference.sub(1000).abs() < 50).mean() < 0.05
    truth = both.merge(people, on="tag", suffixes=("", "_true"))["income_true"].to_numpy()
    noise = both["income"].to_numpy() - truth, both["income_later"].to_numpy() - truth - 1000 * changed
    assert abs(np.corrcoef(noise[0][changed], noise[1][changed])[0, 1]) < 5 / np.sqrt(changed.sum())


def test_randomised_categories_stay_with_their_value(engine: Engine, people: pd.DataFrame, tmp_path: Path) -> None:
    stage = {"pram": {"columns": ["illness"], "diagonal": 0.5}}
    plan = pp.release(policy(tmp_path, "first", ["tag", "illness"], stage), engine=engine).plan
    before = by_tag(pd.read_parquet(tmp_path / "first"))
    fell_ill = np.random.default_rng(1).random(N) < 0.4
    later = people.assign(illness=people["illness"].where(~fell_ill, "flu"))
    document = policy(tmp_path, "second", ["tag", "illness"], stage, source=stored(later, tmp_path))
    after = by_tag(released(document, engine, plan=plan))
    changed = (by_tag(people)["illness"] != by_tag(later)["illness"]).to_numpy()
    same = (before["illness"] == after["illness"]).to_numpy()
    assert same[~changed].all()
    assert same[changed].mean() < 0.6


def test_a_plan_learnt_again_draws_again(people: pd.DataFrame, tmp_path: Path, embedded: Engine) -> None:
    document = policy(tmp_path, "out", ["tag", "income"], {"add_noise": NOISE})
    before = by_tag(released(document, embedded))
    people.assign(income=people["income"].where(people["tag"] != 0, 10**6)).to_parquet(tmp_path / "people.parquet")
    after = by_tag(released(document, embedded))
    assert not (before["income"] == after["income"]).any()


def test_the_commitment_links_no_runs_and_is_proved_by_the_seed(
    people: pd.DataFrame, tmp_path: Path, embedded: Engine
) -> None:
    document = policy(tmp_path, "out", ["age"])
    runs = [pp.release(document, engine=embedded) for _ in range(2)]
    seed = pp.Policy.from_dict(document).seed.resolve()  # type: ignore[union-attr]
    assert runs[0].manifest["seed_commitment"] != runs[1].manifest["seed_commitment"]
    for run in runs:
        assert run.manifest["seed_commitment"] == seed.commitment(run.run_id)
        assert run.plan.made_with(seed)
        assert not run.plan.made_with(Seed.from_os())


STAGES: list[dict[str, Any]] = [
    {"add_noise": NOISE},
    {"add_noise": {**NOISE, "kind": "orthogonal"}},
    {"round": {"columns": ["income"], "base": 100, "mode": "random"}},
    {"pram": {"columns": ["illness"]}},
    {"rank_swap": {"columns": ["income"], "p": 0.1}},
    {"microaggregate": {"columns": ["income"], "k": 3}},
    {"shuffle": {"columns": ["income"]}},
    {"synthesize": {"columns": ["income"]}},
    {"sample": {"fraction": 0.5}},
]
CHANGED: dict[str, Any] = {"variance_ratio": 0.6, "base": 200, "diagonal": 0.7, "p": 0.2, "k": 4, "fraction": 0.4}


def key_ids(engine: Engine, document: dict[str, Any], rows: pd.DataFrame, plan: pp.Plan | None = None) -> list[str]:
    checked = pp.Policy.from_dict(document)
    seed = checked.seed.resolve()  # type: ignore[union-attr]
    context = RunContext(engine, checked, seed)
    staged = run_stages(context, attach(context, Source(data=rows)), plan=plan, frozen=plan is not None)
    assert len(staged.draws) == len(checked.transform)
    return [
        draws.key_id((stage.drawn_columns() or ("",))[0])
        for draws, stage in zip(staged.draws, checked.transform, strict=True)
    ]


@pytest.mark.parametrize(
    "stage",
    deep_among([STAGES[1], STAGES[5]], STAGES),
    ids=lambda stage: "-".join([*stage, *map(str, stage[next(iter(stage))].values())]),
)
def test_keys_part_parameters_places_figures_and_sources(
    stage: dict[str, Any], people: pd.DataFrame, tmp_path: Path, embedded: Engine
) -> None:
    shown = ["tag", "age", "illness", "income"]
    document = policy(tmp_path, "out", shown, stage)
    (key,) = key_ids(embedded, document, people)
    assert key_ids(embedded, document, people.sample(frac=1, random_state=2)) == [key]
    ((name, parameters),) = stage.items()
    altered = {**parameters, **{each: value for each, value in CHANGED.items() if each in parameters}}
    if altered == parameters:
        altered["columns"] = ["age"]
    assert key_ids(embedded, policy(tmp_path, "out", shown, {name: altered}), people) != [key]
    behind = policy(tmp_path, "out", shown, {"round": {"columns": ["age"], "base": 1}}, stage)
    assert key_ids(embedded, behind, people)[1] != key
    other = people.assign(age=people["age"] + 1)  # a source that differs elsewhere
    assert key_ids(embedded, document, other) != [key]
    assert key_ids(embedded, {**document, "name": "another policy"}, people) != [key]
    assert key_ids(embedded, {**document, "engine": "dask", "sink": {"path": str(tmp_path / "b")}}, people) == [key]
    plan = pp.plan(people, document, engine=embedded, losses=False)
    assert key_ids(embedded, document, people, plan) == [key]
    if name in ("pram", "round") or (name == "add_noise" and "kind" not in parameters):
        assert key_ids(embedded, document, other, plan) == [key]


def test_copies_of_a_source_are_one_source(people: pd.DataFrame, tmp_path: Path, embedded: Engine) -> None:
    one = policy(tmp_path, "one", ["tag", "income"], {"add_noise": NOISE})
    copy = {**policy(tmp_path, "two", ["tag", "income"], {"add_noise": NOISE}), "source": stored(people, tmp_path)}
    assert released(one, embedded).equals(released(copy, embedded))


def test_other_inputs_draw_again(people: pd.DataFrame, tmp_path: Path, embedded: Engine) -> None:
    """What shapes the rows and is in neither the policy nor the source: files of hierarchies, a population, keys."""
    file = tmp_path / "ages.csv"
    document = policy(tmp_path, "out", ["tag", "income", "age"], {"add_noise": NOISE}, {"generalize": {"levels": {}}})
    document["columns"]["age"] = {"role": "quasi_identifier", "type": "integer", "hierarchy": {"file": str(file)}}

    def drawn(width: int) -> list[str]:
        lines = (f"{age};{age // width * width}-;*" for age in range(20, 60))
        file.write_text("\n".join(lines) + "\n")
        return key_ids(embedded, document, people)

    first = drawn(5)
    assert drawn(10)[0] != first[0]
    assert drawn(5) == first
    grown = tmp_path / "population.parquet"
    document |= {"population": {"path": str(grown)}, "guarantees": [{"k_map": {"k": 1, "quasi_identifiers": ["age"]}}]}
    people.to_parquet(grown)
    first = drawn(5)
    pd.concat([people, people]).to_parquet(grown)
    assert drawn(5)[0] != first[0]


def test_another_key_of_pseudonyms_draws_again(
    people: pd.DataFrame, tmp_path: Path, embedded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = {"pseudonymise": {"columns": ["name"], "domain": "people", "key": {"from_env": "DRAWS_KEY"}}}
    document = policy(tmp_path, "out", ["tag", "income"], {"add_noise": NOISE}, stage)
    monkeypatch.setenv("DRAWS_KEY", "8e1d" * 16)
    first = key_ids(embedded, document, people)
    monkeypatch.setenv("DRAWS_KEY", "9f2e" * 16)
    assert key_ids(embedded, document, people)[0] != first[0]


def test_repeated_noise_is_noted_with_what_averaging_leaves(
    people: pd.DataFrame, tmp_path: Path, embedded: Engine
) -> None:
    document = policy(tmp_path, "out", ["tag", "income"], {"add_noise": NOISE}, {"shuffle": {"columns": ["wealth"]}})
    document["columns"]["wealth"] = {"role": "insensitive"}
    for at, left in enumerate((None, "0.25", "0.17"), 1):
        rows = people.assign(age=people["age"] + at)
        notes = pp.release({**document, "source": stored(rows, tmp_path)}, engine=embedded).assessment.source_notes
        again = [note for note in notes if "released" in note]
        if left is None:
            assert again == []
            continue
        assert f"'income' was released {at} times with independent noise" in again[0]
        assert f"to an attacker who averages is {left} of 0.5" in again[0]
        assert f"'wealth' was released {at} times with independent draws" in again[1]
