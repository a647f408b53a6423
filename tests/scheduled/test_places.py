"""Nothing is published, kept or reported within a folder of the scheduler, whatever links lead there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from privpipe.scheduled import Job, published_at, run_apart

Written = Callable[..., str]


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The folder to keep out of."""
    folder = tmp_path / "dags"
    (folder / "deep").mkdir(parents=True)
    return folder


def refused(dags: Path, policy: str, **places: str) -> str:
    """The message of a job that did nothing."""
    before = sorted(dags.rglob("*"))
    ending = run_apart(Job(policy=policy, keep_out=(("the DAG folder", str(dags)),), **places))  # type: ignore[arg-type]
    assert (ending.word, ending.worth_another_try) == ("usage", False)
    assert "the DAG folder" in ending.message
    assert sorted(dags.rglob("*")) == before
    return ending.message


@pytest.mark.deep
def test_the_sink_of_the_policy_and_a_target(tmp_path: Path, dags: Path, written: Written) -> None:
    assert "the sink" in refused(dags, written(sink="../dags/visits"))
    assert "the sink" in refused(dags, written(), target=str(dags / "deep" / ".." / "visits"))
    assert "the sink" in refused(dags, written(), target=str(dags))


@pytest.mark.deep
def test_tables_that_lie_on_this_machine(
    tmp_path: Path, dags: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sunk(said: str) -> str:
        path = Path(written())
        text = path.read_text(encoding="utf-8").replace("sink: {path: published/visits, format: csv}", f"sink: {said}")
        path.write_text(text, encoding="utf-8")
        return str(path)

    assert "the sink" in refused(dags, sunk("{path: ../dags/visits, format: delta}"))
    for ending in ("duckdb", "sqlite"):
        assert "the sink" in refused(dags, sunk(f"{{database: ../dags/public.{ending}, table: visits}}"))
    pytest.importorskip("pyiceberg", reason="needs pyiceberg")
    for key, value in {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path / 'catalogue.db'}",
        "WAREHOUSE": f"file://{dags / 'warehouse'}",
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key}", value)
    assert "the sink" in refused(dags, sunk("{iceberg: db.visits, catalog: lake}"))


@pytest.mark.deep
def test_a_sink_behind_links(tmp_path: Path, dags: Path, written: Written) -> None:
    (tmp_path / "innocent").symlink_to(dags / "deep")
    assert "the sink" in refused(dags, written(), target=str(tmp_path / "innocent" / "visits"))
    (tmp_path / "chain").symlink_to(tmp_path / "innocent")
    assert "the sink" in refused(dags, written(), target=str(tmp_path / "chain" / "visits"))
    (tmp_path / "out").symlink_to(dags / "deep" / "not-yet")
    assert "the sink" in refused(dags, written(), target=str(tmp_path / "out"))


@pytest.mark.deep
def test_a_dag_folder_that_is_a_link(tmp_path: Path, dags: Path, written: Written) -> None:
    (tmp_path / "current").symlink_to(dags)
    ending = run_apart(
        Job(policy=written(), target=str(dags / "visits"), keep_out=(("the DAG folder", str(tmp_path / "current")),))
    )
    assert ending.word == "usage"


@pytest.mark.deep
def test_a_link_in_the_dag_folder_that_leads_out_is_in_it_all_the_same(
    tmp_path: Path, dags: Path, written: Written
) -> None:
    """The link by which a release is read would be there."""
    (tmp_path / "elsewhere").mkdir()
    (dags / "visits").symlink_to(tmp_path / "elsewhere")
    refused(dags, written(), target=str(dags / "visits"))


@pytest.mark.deep
def test_a_work_area_that_is_a_link(tmp_path: Path, dags: Path, written: Written) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".visits.privpipe").symlink_to(dags)
    assert "work area" in refused(dags, written(), target=str(tmp_path / "out" / "visits"))


@pytest.mark.deep
def test_private_records_and_reports(tmp_path: Path, dags: Path, written: Written) -> None:
    assert "private records" in refused(dags, written(more="records: ../dags/records\n"))
    assert "the report" in refused(dags, written(), report=str(dags / "visits.html"))


def test_private_records_that_would_lie_next_to_the_policy(tmp_path: Path, dags: Path, written: Written) -> None:
    """Of an object store they do; a policy in the DAG folder would bring them there."""
    pytest.importorskip("fsspec")
    policy = written(folder="dags")
    assert "private records" in refused(dags, policy, target="memory://lake/visits")


def test_a_url_of_this_machine(tmp_path: Path, dags: Path, written: Written) -> None:
    pytest.importorskip("fsspec")
    assert "the sink" in refused(dags, written(), target=f"file://{dags}/visits")


@pytest.mark.deep
def test_a_policy_in_the_dag_folder_may_publish_elsewhere(tmp_path: Path, dags: Path, written: Written) -> None:
    policy = written(folder="dags")
    ending = run_apart(
        Job(policy=policy, target=str(tmp_path / "out" / "visits"), keep_out=(("the DAG folder", str(dags)),))
    )
    assert ending.good, ending.message


def test_what_stands_published_is_whole_or_nothing(tmp_path: Path, written: Written) -> None:
    target = tmp_path / "out" / "visits"
    assert published_at(str(target)) is None
    ending = run_apart(Job(policy=written(), target=str(target)))
    found = published_at(str(target))
    assert found is not None
    assert (found.run_id, found.passed) == (ending.run_id, True)
    [part] = target.glob("*.csv")
    text = part.read_text(encoding="utf-8")
    for changed in (text[:-1], f"{text}1,2\n"):
        part.write_text(changed, encoding="utf-8")
        assert published_at(str(target)) is None
