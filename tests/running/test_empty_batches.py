"""A table without a record: an error, unless `empty: pass`; then a pass that says it rests on nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, Refused, UsageError
from privpipe.models import KAnonymity
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.scheduled.job import Job
from privpipe.scheduled.work import released
from privpipe.testing import first_outcome
from privpipe.testing.stages import Staging, keys_of
from privpipe.transforms import CATALOGUE, Generalize, TopCode

ROWS = pa.table({"zip": ["081", "081", "082", "082"], "age": [30, 31, 40, 41], "illness": ["flu", "cold"] * 2})
NOTHING = ROWS.slice(0, 0)
RESTS_ON_NOTHING = "the table has no records, which `empty: pass` allows: nothing was compared."


def policy_of(tmp_path: Path, rows: pa.Table, **values: Any) -> dict[str, Any]:
    pq.write_table(rows, tmp_path / "rows.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "rows.parquet")},
        "columns": {
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "age": {"role": "insensitive"},
            "illness": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"search": "optimal"}}],
        "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "measures": [{"average_risk": {}}],
        "sink": {"path": str(tmp_path / "out")},
        **values,
    }


def rests_on_nothing(judged: Any) -> None:
    assert judged.passed
    assert judged.records == 0
    assert RESTS_ON_NOTHING in judged.notes
    for verdict in (*judged.verdicts, *judged.measures):
        assert verdict.observed is None
        assert [(each.compared, each.of) for each in verdict.compared] == [(0, 0)]


def test_an_empty_table_passes_where_the_policy_says_so(engine: Engine, tmp_path: Path) -> None:
    allowed, refused = policy_of(tmp_path, NOTHING, empty="pass"), policy_of(tmp_path, NOTHING)
    rests_on_nothing(pp.assess(NOTHING, allowed, engine=engine))
    rests_on_nothing(pp.assess(None, allowed, engine=engine))
    for data in (NOTHING, None):
        with pytest.raises(DataError, match="no records"):
            pp.assess(data, refused, engine=engine)


def test_checks_of_frames_take_the_rule(engine: Engine) -> None:
    options: dict[str, Any] = {"quasi_identifiers": ["zip"], "engine": engine}
    rests_on_nothing(pp.check(NOTHING, KAnonymity(k=2), empty="pass", **options))
    assert KAnonymity(k=2).assess(NOTHING, empty="pass", **options).passed
    assert pp.observe.k_anonymity(NOTHING, ["zip"], empty="pass", engine=engine) is None
    with pytest.raises(DataError, match="no records"):
        pp.check(NOTHING, KAnonymity(k=2), **options)
    with pytest.raises(Refused):
        pp.check(ROWS, KAnonymity(k=5), empty="pass", **options)


def test_a_word_that_is_not_a_rule_is_named() -> None:
    with pytest.raises(UsageError, match=r"empty must be one of refuse, pass.*did you mean 'pass'"):
        pp.check(NOTHING, KAnonymity(k=2), quasi_identifiers=["zip"], empty="pas")  # type: ignore[arg-type]


def test_identifiers_of_an_empty_table_fail_all_the_same() -> None:
    roles = pp.Roles(quasi_identifiers=["zip"], identifiers=["age"], sensitive=["illness"])
    judged = pp.assess(NOTHING, KAnonymity(k=2), roles=roles, empty="pass")
    assert [verdict.name for verdict in judged.failed] == ["no_identifiers"]


def test_a_table_of_suppressed_records_alone_is_not_empty() -> None:
    marks = pa.table({"zip": ["*", "*"]})
    assert not pp.assess(marks, KAnonymity(k=2), quasi_identifiers=["zip"], empty="pass").passed


def test_an_original_whose_records_are_all_gone_is_not_an_empty_batch(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no records"):
        pp.assess(NOTHING, policy_of(tmp_path, ROWS, empty="pass"), original=ROWS)


def test_a_release_of_an_empty_source_publishes_nothing(engine: Engine, tmp_path: Path) -> None:
    first = pp.release(policy_of(tmp_path, ROWS, empty="pass"), engine=engine)
    seen = sorted(path.name for path in (tmp_path / "out").iterdir())
    for dry_run in (True, False):
        found = pp.release(policy_of(tmp_path, NOTHING, empty="pass"), engine=engine, dry_run=dry_run)
        rests_on_nothing(found.assessment)
        assert (found.published, found.nothing_to_publish, found.path, found.record) == (False, True, "", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == seen
    manifest = json.loads((tmp_path / "out" / "_privpipe" / "manifest.json").read_text())
    assert manifest["run_id"] == first.run_id
    with pytest.raises(DataError, match="`empty: pass`"):
        pp.release(policy_of(tmp_path, NOTHING), engine=engine)


def test_an_appended_table_stays_unchanged(tmp_path: Path) -> None:
    sink = {"path": str(tmp_path / "out"), "format": "delta", "mode": "append"}
    levels = {"transform": [{"generalize": {"levels": {"zip": 1}}}], "sink": sink, "empty": "pass"}
    pp.release(policy_of(tmp_path, ROWS, **levels))
    log = sorted((tmp_path / "out" / "_delta_log").iterdir())
    assert pp.release(policy_of(tmp_path, NOTHING, **levels)).nothing_to_publish
    assert sorted((tmp_path / "out" / "_delta_log").iterdir()) == log


def test_commands_and_schedulers_end_well(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(json.dumps(policy_of(tmp_path, NOTHING, empty="pass")))
    (tmp_path / "strict.yaml").write_text(json.dumps(policy_of(tmp_path, NOTHING)))
    run = CliRunner()
    found = run.invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert (found.exit_code, "NOTHING TO PUBLISH" in found.stderr) == (0, True)
    table = str(tmp_path / "rows.parquet")
    judged = run.invoke(app, ["validate", table, str(tmp_path / "policy.yaml"), "--json"])
    assert (judged.exit_code, RESTS_ON_NOTHING in json.loads(judged.stdout)["notes"]) == (0, True)
    assert run.invoke(app, ["validate", table, str(tmp_path / "strict.yaml")]).exit_code == 3
    ending = released(Job(action="release", policy=str(tmp_path / "policy.yaml")), lambda line: None)
    assert (ending.good, "nothing to publish" in ending.message) == (True, True)


def test_a_policy_applied_to_an_empty_frame_gives_the_released_columns(engine: Engine, tmp_path: Path) -> None:
    policy = pp.Policy.from_dict(policy_of(tmp_path, ROWS, empty="pass"))
    found = policy.apply(NOTHING, engine=engine)
    assert found.schema.names == ROWS.schema.names
    assert len(found) == 0
    with pytest.raises(DataError, match="nothing to learn a plan"):
        pp.plan(NOTHING, policy, engine=engine)


def test_a_fitted_plan_over_an_empty_frame_needs_no_leave(engine: Engine, tmp_path: Path) -> None:
    policy = pp.Policy.from_dict(policy_of(tmp_path, ROWS))
    plan = pp.plan(ROWS, policy)
    found = pp.transform(NOTHING, plan, engine=engine)
    assert found.schema.equals(pp.transform(ROWS, plan, engine=engine).schema)
    fitted = TopCode(columns=["age"], at=35).fit(ROWS)
    assert fitted.transform(NOTHING).schema.equals(fitted.transform(ROWS).schema)


def test_a_stage_over_an_empty_frame_is_an_error_unless_asked() -> None:
    frame = pd.DataFrame({"zip": ["081"]})[:0]
    options: dict[str, Any] = {
        "roles": pp.Roles(quasi_identifiers=["zip"]),
        "hierarchies": {"zip": {"redact": {"keep": "left"}}},
    }
    stage = Generalize(levels={"zip": 1})
    assert list(stage.apply(frame, empty="pass", **options).columns) == ["zip"]
    with pytest.raises(DataError, match=r'give empty="pass"'):
        stage.apply(frame, **options)
    with pytest.raises(UsageError, match="nothing is learnt"):
        stage.fit(frame, empty="pass", **options)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("generalize", "safepub", "pseudonymise", "round"), id="some"),
        pytest.param(tuple(CATALOGUE), id="all", marks=pytest.mark.rare),
    ],
)
def test_every_stage_knows_its_columns_without_records(
    names: tuple[str, ...], embedded: Engine, tmp_path: Path
) -> None:
    """As a fitted one does, but for columns that a search may leave unchanged."""
    wrong = []
    for name in names:
        stage: Any = CATALOGUE[name].examples()[0]
        (tmp_path / name).mkdir()
        fitted = first_outcome(stage, embedded, tmp_path / name)
        policy = Staging(stage, tmp_path / name, fitted.table).policy().replaced(empty="pass")
        assert policy.seed is not None
        seed = policy.seed.resolve()
        with keys_of(stage):
            source = Source(data=fitted.table.rows.slice(0, 0), types=policy.types)
            table = embedded.with_record_ids(embedded.scan(source), policy.record_id, seed)
            found = run_stages(RunContext(embedded, policy, seed), table).table.schema
        kinds = [found.field(each).type in (fitted.schema.field(each).type, pa.string()) for each in found.names]
        wrong += [] if found.names == fitted.schema.names and all(kinds) else [name]
    assert wrong == []


def test_draws_do_not_depend_on_the_rule(tmp_path: Path) -> None:
    plain = pp.Policy.from_dict(policy_of(tmp_path, ROWS))
    assert plain.run_digest() == pp.Policy.from_dict(policy_of(tmp_path, ROWS, empty="pass")).run_digest()
