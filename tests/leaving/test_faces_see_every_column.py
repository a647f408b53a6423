"""Every face that judges a frame sees every column of it, and every index level that has a name."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.errors import PrivpipeError
from privpipe.models import DistinctLDiversity, KAnonymity
from tests.gathering import gathered
from tests.validated_frames import batch_of

ROWS = pd.DataFrame({"zip": ["a"] * 6 + ["b"] * 6, "illness": ["flu", "cold", "gout"] * 4, "cost": [1, 2, 3] * 4})
SURNAMES = [f"Zanzibarella{at}" for at in range(12)]
TOLD: dict[str, list[str]] = {
    "quasi_identifiers": ["zip"],
    "sensitive": ["illness"],
    "identifiers": ["name"],
    "insensitive": ["cost"],
}
ROLES = pp.Roles(**TOLD)
MODELS = [KAnonymity(k=3), DistinctLDiversity(column="illness", l=2)]
POLICY: dict[str, Any] = {
    "version": 1,
    "columns": {
        "zip": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive"},
        "name": {"role": "identifier"},
        "cost": {"role": "insensitive"},
    },
    "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
}


@dataclass(frozen=True)
class Case:
    """A frame, and what a face must say of it: nothing, a column without a role, or an identifier."""

    frame: pd.DataFrame
    undeclared: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()


def levels(*names: str | None) -> pd.DataFrame:
    index = [pd.Index(SURNAMES, name=name) for name in names]
    return ROWS.set_axis(index[0] if len(index) == 1 else pd.MultiIndex.from_arrays(index, names=names), axis=0)


CASES = {
    "nothing wrong": Case(ROWS),
    "nothing wrong, rows chosen": Case(pd.concat([ROWS, ROWS]).sort_values("cost", kind="stable")),
    "index without a name": Case(levels(None)),
    "column": Case(ROWS.assign(surname=SURNAMES), undeclared=("surname",)),
    "columns": Case(ROWS.assign(surname=SURNAMES, ssn=range(12)), undeclared=("surname", "ssn")),
    "index": Case(levels("ssn"), undeclared=("ssn",)),
    "level": Case(levels("surname", "ssn"), undeclared=("surname", "ssn")),
    "level next to one without a name": Case(levels(None, "ssn"), undeclared=("ssn",)),
    "index that is a number": Case(ROWS.set_index(pd.RangeIndex(12, name="pid")), undeclared=("pid",)),
    "identifier": Case(ROWS.assign(name=SURNAMES), identifiers=("name",)),
    "identifier in the index": Case(levels("name"), identifiers=("name",)),
    "identifier in a level": Case(levels(None, "name"), identifiers=("name",)),
}
BY_COLUMNS = {name: case for name, case in CASES.items() if not any(case.frame.index.names)}


@dataclass(frozen=True)
class Seen:
    """Whether a face let the frame through, what it said, and the notes of what it let through."""

    passed: bool
    said: str = ""
    notes: tuple[str, ...] = ()


def judged(call: Callable[[], Any]) -> Seen:
    """An assessment, a verdict or what a gate gives back; a refusal and an error by their messages."""
    try:
        found = call()
    except PrivpipeError as error:
        return Seen(False, str(error))
    said = " ".join(f"{each.name}: {each.reason}" for each in getattr(found, "verdicts", [found]) if not passes(each))
    return Seen(passes(found), said, tuple(getattr(found, "notes", ())))


def passes(found: Any) -> bool:
    return bool(getattr(found, "passed", True))


def policy(note: bool) -> dict[str, Any]:
    return {**POLICY, "undeclared": "note"} if note else POLICY


def options(note: bool) -> dict[str, Any]:
    return {"undeclared": "note"} if note else {}


def by_checks() -> dict[str, Callable[..., Seen]]:
    """The calls of the Python interface that take a frame of any kind."""
    return {
        "assess by roles": lambda f, note, _: judged(lambda: pp.assess(f, MODELS, roles=ROLES, **options(note))),
        "check by roles": lambda f, note, _: judged(lambda: pp.check(f, MODELS, roles=ROLES, **options(note))),
        "an entry": lambda f, note, _: judged(lambda: MODELS[0].assess(f, roles=ROLES, **options(note))),
        "assess by a policy": lambda f, note, _: judged(lambda: pp.assess(f, policy(note))),
        "validate": lambda f, note, _: judged(lambda: pp.validate(f, policy(note))),
    }


def by_files() -> dict[str, Callable[..., Seen]]:
    """Faces that read a file, as pandas writes the frame."""
    return {"the command": by_command, "a scheduler": by_job, "a file": by_path}


def written(frame: pd.DataFrame, note: bool, folder: Path) -> tuple[str, str]:
    frame = frame if any(frame.index.names) else frame.reset_index(drop=True)
    frame.to_parquet(folder / "d.parquet")
    (folder / "p.yaml").write_text(json.dumps(policy(note)))
    return str(folder / "d.parquet"), str(folder / "p.yaml")


def by_path(frame: Any, note: bool, folder: Path) -> Seen:
    data, _ = written(frame, note, folder)
    return judged(lambda: pp.check(data, MODELS, roles=ROLES, **options(note)))


def by_command(frame: Any, note: bool, folder: Path) -> Seen:
    from privpipe.cli import app

    done = CliRunner().invoke(app, ["validate", *written(frame, note, folder)])
    return Seen(done.exit_code == 0, done.output if done.exit_code else "", tuple(done.output.splitlines()))


def by_job(frame: Any, note: bool, folder: Path) -> Seen:
    from privpipe.scheduled import Job
    from privpipe.scheduled.work import judged as work

    data, document = written(frame, note, folder)
    try:
        found = work(Job(action="judge", policy=document, data=data), lambda _: None)
    except PrivpipeError as error:
        return Seen(False, str(error))
    return Seen(found.good, "" if found.good else found.message)


def by_dbt(frame: Any, note: bool, folder: Path) -> Seen:
    import pyarrow as pa

    from privpipe.dbt.models import gate

    (folder / "p.yaml").write_text(json.dumps(policy(note)))
    relation = SimpleNamespace(
        to_arrow_table=lambda: pa.Table.from_pandas(frame, preserve_index=any(frame.index.names))
    )
    return judged(lambda: gate(SimpleNamespace(is_incremental=False), relation, folder / "p.yaml"))


def expected(frame: Any, suite: Any, *, spark: bool = False) -> Seen:
    import privpipe.gx as ppgx

    if not spark and not isinstance(frame, pd.DataFrame):
        frame = ppgx.handle(frame)
    found = batch_of(frame, spark=spark).validate(suite)
    results = getattr(found, "results", [found])
    assert len({each.success for each in results}) == 1, "an expectation of the suite passed over the column"
    details = [each.result.get("details", {"reason": ""}) for each in results]
    return Seen(
        bool(found.success),
        " ".join(each["reason"] for each in details if not found.success),
        tuple(note for each in details for note in each.get("notes", ())),
    )


def suite(note: bool) -> Any:
    import privpipe.gx as ppgx

    return ppgx.suite_of(MODELS, ROLES, name="visits", **options(note))


def by_saved_suite(frame: Any, note: bool, folder: Path) -> Seen:
    import privpipe.gx as ppgx

    ppgx.save_suite(suite(note), folder / "suite.json")
    return expected(frame, ppgx.load_suite(folder / "suite.json"))


def by_hand(frame: Any, note: bool, _: Path) -> Seen:
    import privpipe.gx as ppgx

    return expected(frame, ppgx.EXPECTATIONS["k_anonymity"](k=3, **TOLD, **options(note)))


def by_expectations() -> dict[str, Callable[..., Seen]]:
    """Great Expectations, where it is installed."""
    if importlib.util.find_spec("great_expectations") is None:
        return {}
    return {
        "a suite": lambda f, note, _: expected(f, suite(note)),
        "a saved suite": by_saved_suite,
        "an expectation by hand": by_hand,
    }


FACES = {**by_checks(), **by_expectations()}
"""Faces over frames of any kind: frame, whether undeclared columns are noted, folder -> what was seen."""
pytestmark = pytest.mark.filterwarnings("default")


def require_seen(seen: Seen, case: Case) -> None:
    """What a face must say of the columns of a case; never a value."""
    assert seen.passed == (not case.undeclared and not case.identifiers), seen.said
    assert all(f"'{name}'" in seen.said for name in case.undeclared)
    assert not case.undeclared or "no role" in seen.said
    # The public figures of a scheduler's log name the guarantee and no column.
    public = "no_identifiers: required 0, achieved 1" in seen.said
    assert public or all(f"is an identifier: '{name}'" in seen.said for name in case.identifiers)
    assert "Zanzibarella" not in seen.said + " ".join(seen.notes)


def require_all_seen(face: Callable[..., Seen], kind: Callable[..., Any], names: Iterable[str], folder: Path) -> None:
    """What a face must say of each case, given as a frame of one kind that it does not change."""
    with gathered() as tried:
        for name in names:
            with tried(name):
                case, place = CASES[name], folder / name
                place.mkdir()
                before = case.frame.copy()
                require_seen(face(kind(case.frame), False, place), case)
                pd.testing.assert_frame_equal(case.frame, before)


def as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_every_face_sees_it(face: Callable[..., Seen], tmp_path: Path) -> None:
    require_all_seen(face, as_it_is, CASES, tmp_path)


FILED = {name: CASES[name] for name in CASES if name not in ("index that is a number", "identifier in a level")}
"""Cases that pandas writes to a file as they are: it leaves out numbers of rows, and names a level without a name."""


@pytest.mark.parametrize("face", {**by_files(), "dbt": by_dbt}.values(), ids={**by_files(), "dbt": by_dbt})
def test_faces_over_files_and_relations_see_it(face: Callable[..., Seen], tmp_path: Path) -> None:
    require_all_seen(face, as_it_is, FILED, tmp_path)


def polars_of(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("polars").from_pandas(frame)


def arrow_of(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(frame, preserve_index=False)


def relation_of(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("duckdb").from_arrow(arrow_of(frame))


def dask_of(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2, sort=False)


@pytest.mark.parametrize("kind", [polars_of, arrow_of, relation_of])
def test_every_face_sees_it_in_a_frame_of_another_kind(kind: Callable[..., Any], tmp_path: Path) -> None:
    with gathered() as tried:
        for name, face in FACES.items():
            with tried(name):
                (tmp_path / name).mkdir()
                require_all_seen(face, kind, BY_COLUMNS, tmp_path / name)


DASK = {name: case for name, case in CASES.items() if case.frame.index.nlevels == 1}


@pytest.mark.dask
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_every_face_sees_it_in_a_dask_frame(face: Callable[..., Seen], tmp_path: Path) -> None:
    require_all_seen(face, dask_of, DASK, tmp_path)


@pytest.mark.dask
def test_levels_of_a_dask_frame_are_seen() -> None:
    grouped = dask_of(ROWS).groupby(["zip", "illness"]).size().to_frame("cost")
    assert grouped._meta.index.nlevels == 2
    found = pp.assess(grouped, KAnonymity(k=1), roles=pp.Roles(quasi_identifiers=["zip"], insensitive=["cost"]), **NOTE)
    assert found.notes[0] == "columns without a role, which were not looked at: 'illness'"
    assert found.verdicts[0].observed == 3


NOTE: Any = {"undeclared": "note"}


@pytest.mark.parametrize("name", ["columns", "level", "identifier in the index"])
@pytest.mark.parametrize("face", {**FACES, **by_files()}.values(), ids={**FACES, **by_files()})
def test_a_note_is_a_note_and_an_identifier_still_fails(face: Callable[..., Seen], name: str, tmp_path: Path) -> None:
    case = CASES[name]
    seen = face(case.frame, True, tmp_path)
    assert seen.passed == (not case.identifiers), seen.said
    if seen.notes:
        assert case.identifiers or "'surname', 'ssn'" in " ".join(seen.notes)


def test_quasi_identifiers_alone_are_not_roles_and_the_other_columns_are_noted() -> None:
    frame = levels("ssn").assign(age=range(12))
    found = pp.check(frame, MODELS, quasi_identifiers=["zip"])
    noted = "columns without a role, which were not looked at: 'ssn', 'cost', 'age'"
    assert found.passed
    assert noted in found.notes
    assert "100 % of the records have a value of `ssn` of their own: anyone who knows that value finds the record" in (
        found.notes
    ), "a column that is only noted is looked at as an insensitive one"
    with pytest.raises(pp.errors.DataError, match="'ssn', 'cost', 'age'"):
        pp.check(frame, MODELS, quasi_identifiers=["zip"], undeclared="refuse")
    assert pp.k_anonymity(frame, ["zip"]) == 6
    with pytest.raises(pp.errors.UsageError, match=r"undeclared must be refuse or note.*did you mean 'note'"):
        pp.check(frame, MODELS, quasi_identifiers=["zip"], undeclared="notes")


def test_an_expectation_that_names_its_own_columns_alone_notes_the_others() -> None:
    ppgx = pytest.importorskip("privpipe.gx")
    own = {"quasi_identifiers": ["zip"], "sensitive": ["illness"]}
    seen = expected(levels("ssn"), ppgx.EXPECTATIONS["k_anonymity"](k=3, **own))
    assert (seen.passed, seen.notes) == (True, ("columns without a role, which were not looked at: 'ssn', 'cost'",))
    assert not expected(levels("ssn"), ppgx.EXPECTATIONS["k_anonymity"](k=3, **own, declared=["cost"])).passed
    assert expected(ROWS, ppgx.EXPECTATIONS["k_anonymity"](k=3, **own, declared=["cost"])).passed


def test_a_level_with_a_role_is_judged_as_a_column() -> None:
    by_level = ROWS.set_index(["zip", "illness"])
    found = pp.assess(by_level, MODELS, roles=ROLES)
    assert [each.observed for each in found.verdicts] == [each.observed for each in pp.assess(ROWS, POLICY).verdicts]
    released = pp.Policy(roles=replace(ROLES, identifiers=()), guarantees=MODELS).apply(by_level)
    assert sorted(released.columns) == ["cost", "illness", "zip"]
    assert released.index.names == [None]


@pytest.mark.parametrize("name", CASES)
def test_what_a_policy_gives_back_holds_neither_identifier_nor_index(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    policy = pp.Policy(roles=replace(ROLES, identifiers=case.identifiers), guarantees=MODELS)
    if case.undeclared:
        with pytest.raises(pp.errors.DataError, match=", ".join(f"'{each}'" for each in case.undeclared)):
            policy.apply(case.frame)
        with pytest.raises(pp.errors.DataError, match="no role"):
            policy.release(case.frame, str(tmp_path / "published"))
        assert not (tmp_path / "published").exists()
        return
    released = policy.apply(case.frame)
    assert sorted(released.columns) == ["cost", "illness", "zip"]
    assert released.index.names == [None]
    assert not set(SURNAMES) & set(released.index)


@pytest.mark.parametrize("names", [["zip"], ["a", "zip"], ["ssn", "ssn"]])
def test_a_level_with_the_name_of_a_column_is_an_error(names: list[str]) -> None:
    with pytest.raises(pp.errors.DataError, match=f"an index level and a column .* called '{names[-1]}'"):
        pp.check(levels(*names), MODELS, quasi_identifiers=["zip"])


def test_names_of_several_levels_are_an_error_on_every_face(tmp_path: Path) -> None:
    wide = ROWS.set_axis(pd.MultiIndex.from_tuples([("zip", ""), ("illness", ""), ("cost", "")]), axis=1)
    for face in FACES.values():
        assert not face(wide, False, tmp_path).passed


def test_roles_may_name_identifiers_that_are_gone_and_nothing_else_that_is() -> None:
    assert pp.check(ROWS.drop(columns="cost"), MODELS, roles=ROLES).passed
    for gone in ("zip", "illness"):
        with pytest.raises(pp.errors.DataError, match=f"'{gone}' is not in the frame"):
            pp.check(ROWS.drop(columns=gone), [KAnonymity(k=1)], roles=ROLES)


def test_a_column_that_an_entry_names_needs_no_role() -> None:
    roles = pp.Roles(quasi_identifiers=["zip"], insensitive=["cost"])
    assert pp.check(ROWS, MODELS, roles=roles).passed
    assert MODELS[1].assess(ROWS, roles=roles).passed
    with pytest.raises(pp.errors.DataError, match="'illness'"):
        MODELS[0].assess(ROWS, roles=roles)


def test_a_key_of_persons_needs_a_role_as_in_a_policy() -> None:
    frame = ROWS.assign(pid=range(12))
    with pytest.raises(pp.errors.DataError, match="'pid'"):
        pp.check(frame, MODELS, roles=ROLES, person_id="pid")
    roles = pp.Roles(**{**TOLD, "insensitive": ["cost", "pid"]})
    assert pp.check(frame, MODELS, roles=roles, person_id="pid").passed


def test_a_suite_says_every_role_whatever_each_expectation_uses() -> None:
    ppgx = pytest.importorskip("privpipe.gx")
    roles = pp.Roles(quasi_identifiers=["zip", "age"], sensitive=["illness", "wage"], insensitive=["cost"])
    entries = [KAnonymity(k=1, quasi_identifiers=("zip",)), KAnonymity(k=1), MODELS[1]]
    made = ppgx.suite_of(entries, roles, name="s")
    assert [sorted(each.declared) for each in made.expectations] == [["age", "wage"], ["wage"], ["wage"]]
    frame = ROWS.assign(age=1, wage=2)
    assert expected(frame, made).passed
    assert not expected(frame.assign(ssn=3), made).passed


@pytest.mark.deep
def test_a_saved_suite_fails_in_a_fresh_process(tmp_path: Path) -> None:
    ppgx = pytest.importorskip("privpipe.gx")
    ppgx.save_suite(suite(False), tmp_path / "suite.json")
    frames = {"clean": ROWS, "column": CASES["column"].frame, "index": levels("ssn"), "name": levels("name")}
    for name, frame in frames.items():
        frame.to_pickle(tmp_path / f"{name}.pkl")
    code = (
        "import sys, json, pandas as pd, privpipe.gx as ppgx, great_expectations as gx\n"
        "found = {}\n"
        "for name in sys.argv[2:]:\n"
        "    suite = ppgx.load_suite(sys.argv[1] + '/suite.json')\n"
        "    asset = gx.get_context(mode='ephemeral').data_sources.add_pandas('p').add_dataframe_asset('a')\n"
        "    batch = asset.add_batch_definition_whole_dataframe('b')\n"
        "    frame = pd.read_pickle(sys.argv[1] + '/' + name + '.pkl')\n"
        "    result = batch.get_batch({'dataframe': frame}).validate(suite)\n"
        "    found[name] = [result.success, [each.result['details']['reason'] for each in result.results]]\n"
        "print('FOUND', json.dumps(found))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path), *frames]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.rpartition("FOUND ")[2].splitlines()[0])
    assert {name: success for name, (success, _) in found.items()} == {
        "clean": True,
        "column": False,
        "index": False,
        "name": False,
    }
    for name, said in (("column", "'surname'"), ("index", "'ssn'"), ("name", "'name'")):
        assert all(said in reason for reason in found[name][1])
    assert "Zanzibarella" not in done.stdout


FAULTS = {
    "the index is left behind": ("privpipe.engines.base.frames.with_index_columns", lambda data: data, "index"),
    "the gate passes over columns": ("privpipe.judging.rules._undeclared", lambda *_: [], "column"),
}


@pytest.mark.parametrize(("place", "fault", "name"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_planted_fault_is_caught(
    face: Callable[..., Seen], place: str, fault: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All faces go through one place: a fault there is one of each of them, and this file finds it."""
    require_seen(face(CASES[name].frame, False, tmp_path), CASES[name])
    monkeypatch.setattr(place, fault)
    with pytest.raises(AssertionError):
        require_seen(face(CASES[name].frame, False, tmp_path), CASES[name])


@pytest.mark.spark
@pytest.mark.parametrize("name", BY_COLUMNS)
def test_every_face_sees_it_in_a_spark_frame(name: str, spark_engine: Any, tmp_path: Path) -> None:
    from privpipe.spark import ReleaseGate

    case = BY_COLUMNS[name]
    frame = spark_engine.session.createDataFrame(case.frame.reset_index(drop=True))
    for face in by_checks().values():
        require_seen(face(frame, False, tmp_path), case)
    if by_expectations():
        require_seen(expected(frame, suite(False), spark=True), case)
    gate = ReleaseGate(guarantees=MODELS, roles=ROLES)
    require_seen(judged(lambda: gate.fit(frame).transform(frame)), case)
    if case.undeclared:
        noting = ReleaseGate(guarantees=MODELS, roles=ROLES, undeclared="note")
        assert noting.fit(frame).transform(frame).collect() == frame.collect()


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["nothing wrong", "index", "level", "level next to one without a name", "identifier in the index"]
)
def test_levels_of_the_pandas_interface_of_spark_are_seen(name: str, spark_engine: Any, tmp_path: Path) -> None:
    case = CASES[name]
    flat = case.frame.reset_index(names=[each or f"level{at}" for at, each in enumerate(case.frame.index.names)])
    by = [each for each in flat.columns if each not in ROWS.columns]
    frame = spark_engine.session.createDataFrame(flat).pandas_api().set_index(by)
    frame.index.names = case.frame.index.names
    for face in by_checks().values():
        require_seen(face(frame, False, tmp_path), case)
