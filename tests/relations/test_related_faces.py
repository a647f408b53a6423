"""Faces of policies about related tables: judged as they are, made of Python objects, drafted, explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import Refused, UsageError
from tests.relations.test_related_release import document, tables_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def asking(k: int) -> dict[str, Any]:
    return document(guarantees=[{"joint_k_anonymity": {"k": k}}, *document()["guarantees"][1:]])


def joint() -> pp.Assessment:
    """The same tables, judged without a policy."""
    return pp.relations.assess(
        tables_of(),
        [pp.relations.JointKAnonymity(k=5), pp.relations.JointAlpha(column="patients.illness", alpha=0.9)],
        relations=[{"from": "visits.patient", "to": "patients"}],
        keys={"patients": "patient"},
        quasi_identifiers={"patients": ["age"], "visits": ["ward"]},
    )


@pytest.mark.parametrize("engine", ["embedded", "dask"])
def test_the_sources_are_judged_as_they_are(folder: Path, engine: str) -> None:
    found = pp.assess(None, pp.Policy.from_dict(asking(5), folder), engine=engine)
    assert [each.observed for each in found.verdicts] == [each.observed for each in joint().verdicts]
    assert found.records == 360
    assert any("identifiers of the source" in note and "visits" in note for note in found.notes)
    assert not (folder / "published").exists()


def test_frames_are_judged_and_checked_by_name() -> None:
    frames = {name: table.to_pandas() for name, table in tables_of().items()}
    found = pp.assess(frames, asking(5))
    assert [each.observed for each in found.verdicts] == [each.observed for each in joint().verdicts]
    assert pp.check(frames, asking(2)).passed
    with pytest.raises(Refused):
        pp.check(frames, asking(100))
    with pytest.raises(UsageError, match="without an original"):
        pp.assess(frames, asking(2), original=frames)
    with pytest.raises(UsageError, match="no frame whose rows can be held"):
        pp.check(frames, asking(2), hold=True)


def test_finished_tables_hold_no_identifier_but_their_keys() -> None:
    frames = tables_of()
    policy = asking(2)
    policy["tables"]["patients"]["columns"]["name"] = {"role": "identifier"}
    assert pp.validate(frames, policy).passed
    named = frames["patients"].append_column("name", frames["patients"]["patient"])
    found = pp.validate({**frames, "patients": named}, policy)
    assert not found.passed
    assert [each.name for each in found.failed] == ["no_identifiers"]
    assert "table 'patients'" in found.failed[0].reason
