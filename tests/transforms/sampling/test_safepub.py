"""Sampling, a fixed scheme and suppression of small classes; differential privacy through a whole release."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError, PolicyError, Refused, UsageError
from privpipe.kernels.process_proofs import safepub_parameters
from privpipe.roles import Roles
from privpipe.transforms import Safepub

ROLES = Roles(quasi_identifiers=["age", "town"], insensitive=["name"])
HIERARCHIES = {"age": {"intervals": {"start": 0, "widths": [10, 20, 40]}}, "town": {"tree": {"*": ["a", "b", "c"]}}}
STAGE = Safepub(epsilon=1.0, delta=1e-3, levels={"age": 2})
BETA, K = safepub_parameters(1.0, 1e-3)


def rows(n: int = 1500) -> dict[str, list[Any]]:
    rng = np.random.default_rng(5)
    towns = rng.choice(["a", "b", "c"], n, p=[0.6, 0.37, 0.03]).tolist()
    return {"name": [f"p{at}" for at in range(n)], "age": rng.integers(0, 80, n).tolist(), "town": towns}


def test_the_plan_holds_the_process_and_the_rows_follow_it(run_on: Any, engine: Engine) -> None:
    """Written again from the definition: draw by the keyed words, label, count, drop what is below k."""
    data = rows()
    found = run_on(engine, STAGE, data, roles=ROLES, hierarchies=HIERARCHIES, record_id="name", parts=3, shuffled=True)
    process = found.plan.detail["process"]
    assert (process["epsilon"], process["delta"], process["beta"], process["k"]) == (1.0, 1e-3, BETA, K)
    assert process["data_independent"] is True
    assert found.plan.detail["classes_over"] == ["age", "town"]
    table = engine.with_record_ids(engine.scan(Source(data=pa.table(data))), "name", Seed.insecure(7))
    draws = Draws(Seed.insecure(7), 0, "safepub")

    class Kept:
        def measure(self, block: Any, facts: Any) -> set[str]:
            words = draws.of("").words(block.record_ids).tolist()
            names = block.column("name").to_pylist()
            return {name for name, word in zip(names, words, strict=True) if word < BETA * 2**64}

        def merge(self, left: set[str], right: set[str]) -> set[str]:
            return left | right

    if engine.name != "spark":  # a class of this test does not travel to Spark's workers
        drawn = engine.reduce_rows(table, ["name"], Kept(), None)  # type: ignore[arg-type]
        labels = {
            name: (f"[{age // 20 * 20}, {age // 20 * 20 + 20}[", town)
            for name, age, town in zip(*data.values(), strict=True)
            if name in drawn
        }
        sizes = Counter(labels.values())
        assert set(found["name"]) == {name for name, key in labels.items() if sizes[key] >= K}
        assert STAGE.recorded(engine, table, found.plan, draws).detail["process"]["drawn"] == len(drawn)
    kept = Counter(zip(found["age"], found["town"], strict=True))
    assert min(kept.values()) >= K
    assert 0 < len(kept) < 12


def test_a_rate_is_a_rate(run: Any) -> None:
    """Binomial(4000, beta) within five standard deviations; another seed draws others."""
    data = {"town": ["a"] * 4000}
    stage = Safepub(epsilon=0.5, delta=1e-3)
    drawn = [len(run(stage, data, roles=Roles(quasi_identifiers=["town"]), seed=seed).rows) for seed in (1, 2)]
    beta = safepub_parameters(0.5, 1e-3)[0]
    assert all(abs(count - 4000 * beta) < 5 * np.sqrt(4000 * beta * (1 - beta)) for count in drawn)
    assert drawn[0] != drawn[1]


def test_the_scheme_hash_is_of_what_is_declared_not_of_the_data(run: Any) -> None:
    few = {name: cells[:700] for name, cells in rows().items()}
    plans = [
        run(stage, data, roles=ROLES, hierarchies=HIERARCHIES).plan.detail["process"]["scheme"]
        for stage, data in (
            (STAGE, rows()),
            (STAGE, few),
            (Safepub(epsilon=1.0, delta=1e-3, levels={"age": 1, "town": 1}), rows()),
        )
    ]
    assert plans[0] == plans[1] != plans[2]


@pytest.mark.parametrize(
    ("stage", "hierarchy", "says"),
    [
        ({"town": 1}, {"priority": {"levels": 2, "order": "frequency"}}, "made from the values at hand"),
        ({"town": 1}, {"redact": {"keep": "left"}}, "length"),
        ({"town": 2}, {"tree": {"*": ["a", "b", "c"]}}, "above its hierarchy, whose last level is 1"),
        ({"name": 1}, {"tree": {"*": ["a", "b", "c"]}}, "is not a quasi-identifier with a hierarchy"),
    ],
)
def test_a_scheme_that_is_not_fixed_is_refused(run: Any, stage: Any, hierarchy: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(Safepub(epsilon=1.0, delta=1e-3, levels=stage), rows(60), roles=ROLES, hierarchies={"town": hierarchy})


def test_no_class_large_enough(run: Any) -> None:
    with pytest.raises(NoSolutionError, match="every class has fewer than"):
        run(STAGE, rows(30), roles=ROLES, hierarchies=HIERARCHIES)


@pytest.mark.parametrize(
    "parameters", [{"epsilon": 0}, {"delta": 1}, {"delta": 0}, {"levels": {"age": -1}}, {"levels": ["age"]}]
)
def test_ranges(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Safepub(**{"epsilon": 1.0, "delta": 1e-3, **parameters})


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """A policy whose release is differentially private."""
    pq.write_table(pa.table({name: rows()[name] for name in ("age", "town")}), tmp_path / "people.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "people.parquet")},
        "columns": {name: {"role": "quasi_identifier", "hierarchy": HIERARCHIES[name]} for name in ("age", "town")},
        "transform": [{"safepub": {"epsilon": 1.0, "delta": 1e-3, "levels": {"age": 2}}}],
        "guarantees": [{"differential_privacy": {"epsilon": 1.0, "delta": 1e-3}}],
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }


def test_a_private_release_is_published_and_can_be_judged_again(document: dict[str, Any], engine: Engine) -> None:
    result = pp.release(document, engine=engine)
    process = result.plan.to_dict()["stages"][0]["detail"]["process"]
    verdict = result.assessment.verdicts[0]
    assert (verdict.outcome, verdict.observed) == ("pass", {"beta": BETA, "k": K})
    assert 0 < result.assessment.records <= process["drawn"] < 1500
    assert "seed" not in json.dumps(process)
    again = pp.assess(result.path, document, engine=engine)
    assert again.verdicts[0].to_dict() == verdict.to_dict()
    assert not [note for note in again.notes if "process record" in note]


def test_an_epsilon_that_is_too_small_is_refused(document: dict[str, Any]) -> None:
    document["guarantees"] = [{"differential_privacy": {"epsilon": 0.5, "delta": 1e-3}}]
    with pytest.raises(Refused, match="made for epsilon 1, required at most 0.5"):
        pp.release(document)
    assert not Path(document["sink"]["path"]).exists()


def test_without_the_stage_nothing_is_proved(document: dict[str, Any]) -> None:
    document["transform"] = [{"generalize": {"levels": {"age": 3, "town": 1}}}]
    with pytest.raises(Refused, match="no table can prove differential privacy"):
        pp.release(document)


@pytest.mark.parametrize(
    ("stages", "says"),
    [
        ([{"rank_swap": {"columns": ["age"], "p": 0.1}}], "looks at other records too"),
        ([{"safepub": {"epsilon": 0.1, "delta": 1e-3}}], "is there already"),
    ],
)
def test_a_policy_that_spoils_the_draw_is_refused(document: dict[str, Any], stages: list[Any], says: str) -> None:
    document["transform"] = [*stages, *document["transform"]]
    with pytest.raises(PolicyError, match=says):
        pp.Policy.from_dict(document)


def test_what_is_not_covered_is_said(document: dict[str, Any]) -> None:
    document["columns"]["town"] = {"role": "insensitive"}
    said = "\n".join(pp.Policy.from_dict(document).warnings)
    assert "'town' will be released in addition to them and is not covered" in said
    reason = pp.release(document).assessment.verdicts[0].reason
    assert reason.endswith("released in addition to the classes and not covered: 'town'.")
    assert "as secret as the file" in said


def test_a_record_counts_only_next_to_its_own_data(document: dict[str, Any], tmp_path: Path) -> None:
    """Whatever is changed in a copy of the release, the guarantee is an error and never a pass."""
    home = Path(pp.release(document).path)

    def judged(name: str, change: Any) -> tuple[str, str]:
        copy = tmp_path / name
        shutil.copytree(home, copy)
        change(copy)
        found = pp.assess(str(copy), document)
        told = [note for note in found.notes if not note.startswith("no guarantee looks at")]
        return found.verdicts[0].outcome, "; ".join(told)

    def plan(copy: Path, **process: Any) -> None:
        path = copy / "_privpipe" / "plan.json"
        written = json.loads(path.read_text(encoding="utf-8"))
        written["stages"][0]["detail"]["process"].update(process)
        path.write_text(json.dumps(written), encoding="utf-8")

    def data(copy: Path) -> None:
        part = next(copy.glob("part-*"))
        pq.write_table(pq.read_table(part).slice(0, 400), part)

    assert judged("same", lambda copy: None) == ("pass", "")
    for name, change, why in (
        ("plan", lambda copy: plan(copy, k=2), "not the one of the manifest"),
        ("data", data, "files have changed"),
        ("more", lambda copy: shutil.copy(next(copy.glob("part-*")), copy / "part-99999.parquet"), "not those of"),
        ("torn", lambda copy: (copy / "_privpipe" / "plan.json").write_text("{"), "cannot be read"),
        ("gone", lambda copy: (copy / "_privpipe" / "verdict.json").unlink(), "cannot be read"),
        ("bare", lambda copy: shutil.rmtree(copy / "_privpipe"), "no process record next to"),
    ):
        outcome, note = judged(name, change)
        assert outcome == "error", name
        assert why in note, name
    other = pp.assess(pq.read_table(home), document)
    assert (other.verdicts[0].outcome, "published release" in other.notes[-1]) == ("error", True)


def test_validate_reads_the_record_too(document: dict[str, Any], tmp_path: Path) -> None:
    result = pp.release(document)
    path = tmp_path / "policy.json"
    for epsilon, code in ((1.0, 0), (0.2, 5)):
        document["guarantees"] = [{"differential_privacy": {"epsilon": epsilon, "delta": 1e-3}}]
        path.write_text(json.dumps(document), encoding="utf-8")
        assert CliRunner().invoke(app, ["validate", result.path, str(path)]).exit_code == code


def test_classes_are_compared_with_the_records_drawn(document: dict[str, Any], tmp_path: Path) -> None:
    """The base is S over the records that enter suppression, after sampling; so is the size of the table."""
    data = pa.table({**{name: rows()[name] for name in ("age", "town")}, "ill": [at % 3 for at in range(1500)]})
    pq.write_table(data, tmp_path / "people.parquet")
    document["columns"]["ill"] = {"role": "sensitive"}
    document["guarantees"] += [
        {"t_closeness": {"column": "ill", "t": 1.0}},
        {"estimated_k_map": {"k": 3, "population_size": 10**6, "significance": 0.05}},
    ]
    found = pp.release(document)
    drawn = found.plan.to_dict()["stages"][0]["detail"]["process"]["drawn"]
    reason = found.assessment.verdicts[2].reason
    assert f"lambda = {3 * drawn / 10**6:.6g}" in reason
    assert 0 < found.assessment.verdicts[1].observed < 0.3
