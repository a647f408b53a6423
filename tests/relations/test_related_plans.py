"""Plans of related tables: decided without publishing, written, and followed by later releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import NoSolutionError, UsageError
from privpipe.running.plan import Plan, read_plan
from tests.relations.test_related_release import document, tables_of

AGES = {"intervals": {"widths": [40, 80], "start": 0}}
WARDS = {"groups": {"order": list("abcde"), "sizes": [[2, 3]]}}


def write(folder: Path, seed: int) -> None:
    for name, table in tables_of(seed=seed).items():
        pq.write_table(table, folder / f"{name}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 0)
    return tmp_path


def planned(k: int = 4, **changes: Any) -> dict[str, Any]:
    """A stage of one table that draws, a search over the set, and stages after it that draw and suppress."""
    tables = document()["tables"]
    tables["patients"]["columns"]["age"] |= {"type": "integer", "hierarchy": AGES}
    tables["patients"]["transform"] = [{"pram": {"columns": ["illness"], "diagonal": 0.8}}]
    tables["visits"]["columns"]["ward"]["hierarchy"] = WARDS
    found = document(
        tables=tables,
        guarantees=[
            {"joint_k_anonymity": {"k": k, "knows": {"visits": 1}}},
            {"joint_alpha": {"column": "patients.illness", "alpha": 1.0}},
        ],
        transform=[
            {"cap_rows": {"table": "visits", "at_most": 2}},
            {"generalize_jointly": {"suppress_at_most": 0.2}},
        ],
    )
    return {**found, **changes}


def rows(folder: Path, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """The released rows of each table, in one order: that of a release is its own."""
    found = {table: pp.read_release(folder / name, table=table) for table in ("patients", "visits")}
    return {name: sorted(zip(*table.to_pydict().values(), strict=True)) for name, table in found.items()}


def test_a_plan_is_written_and_followed(folder: Path) -> None:
    file, plan = folder / "clinic.yaml", folder / "plan.json"
    file.write_text(pp.Policy.from_dict(planned(), folder).to_yaml())
    done = CliRunner().invoke(app, ["plan", str(file), "--out", str(plan)])
    assert done.exit_code == 0, done.stderr
    assert not (folder / "published").exists()
    assert "1. patients: pram" in done.stdout
    assert "cap_rows: " in done.stdout
    made = read_plan(plan)
    assert Plan.from_json(made.to_json()).tables == made.tables
    assert set(made.levels) == {"patients.age", "visits.ward"}
    assert [stage.name for stage in made.of_set] == ["cap_rows", "generalize_jointly"]
    assert [stage.name for stage in made.tables["patients"].stages] == ["pram"]
    free = pp.release(pp.Policy.from_dict(planned(sink={"path": "free"}), folder))
    other = planned(name="another draws otherwise", sink={"path": "other"})
    pp.release(pp.Policy.from_dict(other, folder))
    bound = pp.release(pp.Policy.from_dict({**other, "plan": {"file": "plan.json"}, "sink": {"path": "named"}}, folder))
    assert bound.plan.frozen
    assert rows(folder, "free") != rows(folder, "other")
    assert rows(folder, "free") == rows(folder, "named")
    assert free.plan.levels == bound.plan.levels


def test_levels_of_a_plan_stay_where_a_search_would_choose_others(folder: Path) -> None:
    coarse = pp.plan(None, pp.Policy.from_dict(planned(k=15), folder))
    policy = pp.Policy.from_dict(planned(k=2), folder)
    assert pp.plan(None, policy).levels != coarse.levels
    write(folder, 1)  # another night
    assert pp.release(policy, plan=coarse).plan.levels == coarse.levels
    fine = pp.plan(None, policy)
    with pytest.raises(NoSolutionError, match=r"at the levels of the plan \d+ of 120 persons would have to go"):
        pp.release(pp.Policy.from_dict(planned(k=60), folder), plan=fine)


def _with_role(changed: dict[str, Any]) -> dict[str, Any]:
    changed["tables"]["visits"]["columns"]["day"] = {"role": "insensitive"}
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: {**found, "transform": found["transform"][1:]}, "is cap_rows in the plan"),
        (lambda found: {**found, "transform": found["transform"][:1]}, "it has 2 stages, the policy 1"),
        (
            lambda found: {
                **found,
                "transform": [{"cap_rows": {"table": "visits", "at_most": 3}}, found["transform"][1]],
            },
            r"transform\[0\]\.cap_rows\.at_most is another in the plan",
        ),
        (lambda found: {**found, "seed": {"insecure": 8}}, "another seed"),
        (_with_role, "column 'day' is insensitive in the policy and not released in the plan"),
    ],
    ids=["other stage", "fewer stages", "other parameter", "other seed", "other column"],
)
def test_plans_that_do_not_fit_are_refused(folder: Path, change: Any, message: str) -> None:
    plan = pp.plan(None, pp.Policy.from_dict(planned(), folder))
    with pytest.raises(UsageError, match=message):
        pp.release(pp.Policy.from_dict(change(planned()), folder), plan=plan)
    assert not (folder / "published").exists()


def test_plans_of_a_set_and_of_a_table_do_not_take_each_others_place(folder: Path) -> None:
    plan = pp.plan(None, pp.Policy.from_dict(planned(), folder))
    own = document()["tables"]["visits"] | {"guarantees": [{"k_anonymity": {"k": 2}}], "sink": {"path": "alone"}}
    alone = pp.Policy.from_dict({**own, "seed": {"insecure": 7}, "allow_insecure_seed": True}, folder)
    with pytest.raises(UsageError, match="is about one table, and the plan about patients, visits"):
        pp.release(alone, plan=plan)
    with pytest.raises(UsageError, match="is about patients, visits, and the plan about one table"):
        pp.release(pp.Policy.from_dict(planned(), folder), plan=pp.plan(None, alone))
    damaged = plan.to_dict()
    damaged["tables"]["patients"]["stages"] = 9
    with pytest.raises(UsageError, match="not a privpipe plan|damaged"):
        Plan.from_json(pp.running.plan.canonical_json(damaged))


def test_frames_are_planned_by_name() -> None:
    frames = {name: table.to_pandas() for name, table in tables_of().items()}
    found = pp.plan(frames, planned())
    assert set(found.tables) == {"patients", "visits"}
    with pytest.raises(UsageError, match="give a mapping with a frame for each"):
        pp.plan(frames["patients"], planned())
