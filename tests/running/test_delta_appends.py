"""Rows that join a table are judged alone and with the rows that are there; what cannot judge both is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, Refused, UnsupportedError
from privpipe.testing import GAPS
from tests.running.delta_releases import Releases, counted, rows_of

pytest.importorskip("deltalake", reason="needs deltalake")
CLOSE = {"t_closeness": {"column": "ill", "t": 0.3, "distance": "equal"}}
HALVES = rows_of(A="fcfc", B="fcfc")
GOUT = rows_of(C="gggg", D="gggg")


@pytest.fixture
def lake(tmp_path: Path) -> Releases:
    return Releases(tmp_path / "lake")


def furthest(rows: pa.Table) -> float:
    """The definition: half the sum of differences of shares, at its largest over the classes."""
    pairs = list(zip(rows["town"].to_pylist(), rows["ill"].to_pylist(), strict=True))
    whole, classes = Counter(ill for _, ill in pairs), Counter(town for town, _ in pairs)
    return max(
        sum(
            abs(sum(1 for pair in pairs if pair == (town, ill)) / size - count / len(pairs))
            for ill, count in whole.items()
        )
        / 2
        for town, size in classes.items()
    )


def test_a_batch_that_passes_alone_is_refused_for_what_the_table_becomes(tmp_path: Path, engine: Any) -> None:
    lake = Releases(tmp_path / engine.name, guarantees=[CLOSE], engine=engine)
    lake.release(HALVES, "append")
    before = lake.listing()
    both = pa.concat_tables([HALVES, GOUT])
    assert (furthest(HALVES), furthest(GOUT), furthest(both)) == (0.0, 0.0, 0.5)
    with pytest.raises(Refused, match="the whole table: FAIL") as refused:
        lake.release(GOUT, "append")
    judged = refused.value.assessment
    assert [verdict.outcome for verdict in judged.verdicts] == ["pass", "pass", "pass"]
    assert judged.whole.verdicts[2].observed == pytest.approx(furthest(both))
    assert not judged.passed
    assert lake.listing() == before
    assert lake.release(GOUT).assessment.passed


def test_a_batch_that_fails_alone_is_refused_whatever_the_table_becomes(lake: Releases) -> None:
    lake.release(HALVES, "append")
    before = lake.listing()
    alone = rows_of(A="f")
    with pytest.raises(Refused) as refused:
        lake.release(alone, "append")
    judged = refused.value.assessment
    assert [verdict.outcome for verdict in judged.verdicts] == ["fail", "pass"]
    assert [verdict.outcome for verdict in judged.whole.verdicts] == ["pass", "pass"]
    assert lake.listing() == before


def test_the_record_of_a_refused_batch_has_both_verdicts(lake: Releases) -> None:
    lake.guarantees = [CLOSE]
    lake.release(HALVES, "append")
    with pytest.raises(Refused):
        lake.release(GOUT, "append")
    records = [json.loads(path.read_text()) for path in lake.state.glob("records/*/verdict.json")]
    told = next(record for record in records if not record["passed"])
    assert [row["outcome"] for row in told["guarantees"]][1:] == ["pass", "pass", "pass"]
    assert told["whole_table"]["passed"] is False
    assert told["whole_table"]["records"] == HALVES.num_rows + GOUT.num_rows


def test_warnings_of_the_whole_table_are_reported_and_refuse_nothing(lake: Releases) -> None:
    lake.guarantees = [{"t_closeness": {**CLOSE["t_closeness"], "severity": "warn"}}]
    lake.release(HALVES, "append")
    done = lake.release(GOUT, "append")
    assert any(text.startswith("the whole table: t_closeness") for text in done.assessment.warnings)
    assert any(text.startswith("the whole table: t_closeness") for text in done.public["verdict"]["warnings"])


@pytest.mark.parametrize(
    "entry",
    [
        {"distance_linkage": {"at_most": 1.0, "columns": ["town"]}},
        {"complementary_release": {"earlier": ["old"], "k": 2}},
    ],
)
def test_entries_that_need_what_earlier_rows_are_without_are_named(lake: Releases, entry: dict[str, Any]) -> None:
    (name,) = entry
    lake.guarantees = [entry]
    gap = GAPS["*", "append together with what compares with originals"]
    with pytest.raises((gap.raises, PolicyError), match=name):
        lake.policy(HALVES, "append")


def test_a_process_of_one_release_is_not_a_guarantee_of_several(lake: Releases) -> None:
    lake.guarantees = [{"differential_privacy": {"epsilon": 1.0, "delta": 1e-3}}]
    with pytest.raises((UnsupportedError, PolicyError), match=r"differential_privacy: it judges the process"):
        lake.policy(HALVES, "append", transform=[{"safepub": {"epsilon": 1.0, "delta": 1e-3}}])


def test_persons_that_no_released_column_tells_apart_are_refused(
    lake: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = HALVES.append_column("who", pa.array([str(at) for at in range(8)]))
    columns = {
        "town": {"role": "quasi_identifier"},
        "ill": {"role": "sensitive"},
        "who": {"role": "identifier"},
    }
    gap = GAPS["*", "append together with what counts by a column that is not released"]
    with pytest.raises(gap.raises, match="count by 'who'.*pseudonymise"):
        lake.release(rows, "append", columns=columns, person_id="who")
    assert not lake.path.exists()
    assert lake.release(rows, columns=columns, person_id="who").assessment.passed
    monkeypatch.setenv("PSEUDONYMS", "0123456789abcdef0123456789abcdef")
    stage = {"pseudonymise": {"columns": ["who"], "key": {"from_env": "PSEUDONYMS"}, "domain": "visits"}}
    named = {"transform": [stage], "columns": columns, "person_id": "who"}
    fresh = Releases(lake.home, "named")
    for _ in range(2):
        done = fresh.release(rows, "append", **named)
    assert done.assessment.whole.verdicts[0].observed == 4  # the same four persons, not eight records


def test_a_ledger_follows_persons_from_batch_to_batch(lake: Releases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_KEY", "0123456789abcdef0123456789abcdef")
    entry = {"ledger": str(lake.home / "ledger"), "key": {"from_env": "LEDGER_KEY"}, "k": 3}
    lake.guarantees = [{"complementary_release": entry}]
    columns = {
        "town": {"role": "quasi_identifier"},
        "ill": {"role": "sensitive"},
        "who": {"role": "identifier"},
    }

    def batch(**towns: str) -> pa.Table:
        found = rows_of(**towns)
        return found.append_column("who", pa.array([f"p{at}" for at in range(found.num_rows)]))

    named = {"columns": columns, "record_id": "who"}
    lake.release(batch(A="ffff", B="cccc"), "append", **named)
    with pytest.raises(Refused, match="complementary_release|ComplementaryRelease"):
        lake.release(batch(X="fffff", Y="ccc"), "append", **named)  # p4 is now known among all
    assert lake.seen() == counted(rows_of(A="ffff", B="cccc"))
    done = lake.release(batch(X="ffff", Y="cccc"), "append", **named)
    assert done.assessment.passed
    assert len(done.assessment.whole.verdicts) == 2
    assert lake.seen() == counted(rows_of(A="ffff", B="cccc", X="ffff", Y="cccc"))


def test_keys_of_table_formats_are_for_these_alone() -> None:
    def sink(**keys: Any) -> dict[str, Any]:
        return {
            "columns": {"town": {"role": "quasi_identifier"}},
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": keys,
        }

    for keys, wrong in (
        ({"path": "out", "mode": "append"}, r"sink.mode: is for `format: delta` and `iceberg:`"),
        ({"path": "out", "format": "csv", "schema": "evolve"}, r"sink.schema: is for `format: delta`"),
        ({"path": "out", "format": "delta", "mode": "merge"}, r"sink.mode: .*append"),
        ({"path": "out", "format": "delta", "formula_cells": "escape"}, r"sink.formula_cells: is for `format: csv`"),
        ({"path": "out", "format": "delta", "catalog": "lake"}, r"sink.catalog: is for an Iceberg table"),
        ({"iceberg": "db.t", "path": "out"}, r"is given in addition to `path:`"),
        ({"iceberg": "db.t", "format": "delta"}, r"sink.format: is for files"),
        ({"iceberg": "t"}, r"named with its namespace"),
        ({"table": "db.t", "mode": "append"}, r"sink.mode: is for tables of a table format"),
    ):
        with pytest.raises(PolicyError, match=wrong):
            pp.Policy.from_dict(sink(**keys))
    said = pp.Policy.from_dict(sink(iceberg="db.t", catalog="lake", mode="append", schema="evolve")).sink
    assert said is not None
    assert (str(said.iceberg), said.iceberg and said.iceberg.catalog, said.mode) == ("db.t", "lake", "append")


@pytest.mark.deep
def test_a_table_of_many_releases_is_summed_up_for_its_readers(lake: Releases) -> None:
    for _ in range(11):
        lake.release(HALVES, "append")
    log = lake.path / "_delta_log"
    [checkpoint] = log.glob("*.checkpoint.parquet")
    assert checkpoint.name.startswith("00000000000000000010.")
    modes = {path.stat().st_mode for path in (checkpoint, log / "_last_checkpoint", log / "00000000000000000010.json")}
    assert len(modes) == 1
    assert lake.release(HALVES, "append").assessment.whole.records == 12 * HALVES.num_rows
