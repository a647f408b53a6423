"""A ledger moves on with the publication and not without it, and refuses what splits persons over releases."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, EngineError, PolicyError, Refused, SinkError, UsageError
from privpipe.judging.release_memory import LedgerUnit, class_memory
from privpipe.ledger import NOT_JUDGED, Ledger
from privpipe.sinks.target import LocalTarget

KEY = "k" * 40
Document = Callable[..., dict[str, Any]]


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Document:
    """Twelve persons (race x zip); one release hides the race, another the zip: 3- and 2-anonymous (Sweeney 2002)."""
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", KEY)
    people = list(product(["Asian", "Black", "White"], ["02138", "02139", "02141", "02142"]))
    table = pa.table(
        {
            "name": [f"Quokka {at}" for at in range(12)],
            "race": [race for race, _ in people],
            "zip": [code for _, code in people],
            "illness": ["flu", "cold", "gout"] * 4,
        }
    )
    pq.write_table(table, tmp_path / "people.parquet")

    def make(levels: dict[str, int], sink: str = "one", *, key: bool = True, **entry: Any) -> dict[str, Any]:
        named = {"key": {"from_env": "PRIVPIPE_LEDGER_KEY"}} if key else {}
        return {
            "name": "people",
            "source": {"path": str(tmp_path / "people.parquet"), "format": "parquet"},
            "columns": {
                "name": {"role": "identifier"},
                "race": {"role": "quasi_identifier", "hierarchy": {"tree": {"Person": ["Asian", "Black", "White"]}}},
                "zip": {
                    "role": "quasi_identifier",
                    "hierarchy": {"tree": {"02130": ["02138", "02139"], "02140": ["02141", "02142"]}},
                },
                "illness": {"role": "insensitive"},
            },
            "record_id": "name",
            "transform": [{"generalize": {"levels": levels}}],
            "guarantees": [
                {"k_anonymity": {"k": 2}},
                {"complementary_release": {"ledger": str(tmp_path / "ledger"), **named, "k": 2, **entry}},
            ],
            "sink": {"path": str(tmp_path / "published" / sink), "format": "parquet"},
            "seed": {"insecure": "a test's seed"},
            "allow_insecure_seed": True,
        }

    return make


RACE, ZIP = {"race": 1, "zip": 0}, {"race": 0, "zip": 1}


def remembered(folder: Path) -> int:
    assert not list(folder.glob("*/pending-*"))
    return len(list(folder.glob("*/[0-9]*-*.entry")))


def test_every_engine_remembers_the_same(engine: Engine, embedded: Engine, document: Document, tmp_path: Path) -> None:
    document(RACE)
    seed, kept = Seed.insecure("a ledger's key"), []
    for running in (engine, embedded):
        scanned = running.scan(Source(data=str(tmp_path / "people.parquet"), format="parquet"))
        original = running.with_record_ids(scanned, "name", seed)
        released = running.select(original, ["zip", "race", "illness"])
        kept.append(
            class_memory(
                running,
                original,
                released,
                unit=LedgerUnit(("name",), seed, True, ("trim", "casefold", "nfc")),
                keys=["race"],
                sensitive="illness",
            )
        )
    for name in ("units", "classes", "records", "values"):
        assert getattr(kept[0], name).tolist() == getattr(kept[1], name).tolist()
    assert (len(kept[0]), len(set(map(tuple, kept[0].classes.tolist())))) == (12, 3)


def test_what_splits_persons_is_refused(document: Document, tmp_path: Path) -> None:
    first = pp.release(document(RACE)).assessment.verdicts[1]
    assert (first.observed["k"], first.observed["releases"]) == (3, 1)
    with pytest.raises(Refused) as refused:
        pp.release(document(ZIP, "two"))
    anonymity, together = refused.value.assessment.verdicts
    assert (anonymity.outcome, anonymity.observed) == ("pass", 2)
    assert (together.outcome, together.observed) == ("fail", {"k": 1, "releases": 2, "below": 12})
    assert remembered(tmp_path / "ledger") == 1
    assert not (tmp_path / "published" / "two").exists()


@pytest.mark.parametrize("key", [True, False], ids=["persons", "combinations"])
def test_coarsening_what_stands_splits_no_one(document: Document, tmp_path: Path, key: bool) -> None:
    pp.release(document(RACE, key=key))
    with pytest.raises(Refused):
        pp.release(document(ZIP, "two", key=key))
    coarser = pp.release(document({"race": 1, "zip": 1}, "two", key=key))
    assert coarser.assessment.verdicts[1].observed["k"] == 3
    assert remembered(tmp_path / "ledger") == 2


def test_a_run_that_is_withdrawn_or_killed(document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, sink = tmp_path / "ledger", tmp_path / "published" / "one"
    settle = Ledger.settle

    def killed_at(step: str) -> None:
        def tell(now: str) -> None:
            if now == step:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pp.release(document(RACE), progress=tell)

    killed_at("publish")
    assert remembered(ledger) == 0
    with monkeypatch.context() as patched:  # withdrawn: published files that do not read back
        patched.setattr(LocalTarget, "published", lambda self, run: tmp_path / "nothing")
        with pytest.raises((EngineError, DataError)):
            pp.release(document(RACE))
    assert remembered(ledger) == 0
    assert not sink.exists()

    def lost(self: Ledger) -> None:
        if getattr(self._chain, "pending", ()):
            raise SystemExit(9)
        settle(self)

    with monkeypatch.context() as patched:  # killed between the rename that publishes and the ledger's own
        patched.setattr(Ledger, "settle", lost)
        with pytest.raises(SystemExit):
            pp.release(document(RACE))
    assert sink.exists()
    assert len(list(ledger.glob("*/pending-*"))) == 1
    with pytest.raises(Refused):
        pp.release(document(ZIP, "two"))
    assert remembered(ledger) == 1
    # Killed before that rename: the sink points where it did.
    key = {"from_env": "PRIVPIPE_LEDGER_KEY"}
    for name, before, kept in (("never-ran", str(sink.readlink()), 1), ("replaced", "elsewhere", 2)):
        with Ledger(ledger, key) as opened:
            opened.prepare(opened.releases()[0], name, str(sink), before)
        with Ledger(ledger, key):
            assert remembered(ledger) == kept


def test_a_ledger_keeps_no_value_and_one_key(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pp.release(document(RACE))
    held = b"".join(path.read_bytes() for path in (tmp_path / "ledger").rglob("*") if path.is_file())
    assert not [word for word in (b"Quokka", b"Person", b"0213", b"Asian", KEY.encode()) if word in held]
    assert oct((tmp_path / "ledger").stat().st_mode)[-3:] == "700"
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", "x" * 40)
    with pytest.raises(UsageError, match="another key"):
        pp.release(document(RACE))
    with pytest.raises(UsageError, match="follows persons"):
        pp.release(document(RACE, key=False))
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", KEY)
    with (
        Ledger(tmp_path / "ledger", {"from_env": "PRIVPIPE_LEDGER_KEY"}),
        pytest.raises(SinkError, match="another run"),
    ):
        pp.release(document(RACE))
    (tmp_path / "ledger" / "ledger.json").write_text("{}")
    with pytest.raises(DataError, match="ledger.json was changed"):
        pp.release(document(RACE))


def test_a_finished_table_is_judged_next_to_a_ledger_that_stays(document: Document, tmp_path: Path) -> None:
    pp.release(document(RACE))
    policy = document(ZIP)
    policy["columns"]["name"]["role"] = "insensitive"
    original = pq.read_table(tmp_path / "people.parquet")
    released = original.set_column(2, "zip", pa.array(["02130", "02130", "02140", "02140"] * 3))
    verdict = pp.assess(released, policy, original=original).verdicts[1]
    assert (verdict.outcome, verdict.observed["k"]) == ("fail", 1)
    assert remembered(tmp_path / "ledger") == 1
    assert pp.assess(released, policy).verdicts[1].outcome == "error"


def test_values_are_judged_over_releases(document: Document, tmp_path: Path) -> None:
    policy = document(RACE, sensitive="illness", l=2)
    policy["columns"]["illness"]["role"] = "sensitive"
    verdict = pp.release(policy).assessment.verdicts[1]
    assert (verdict.observed["l"], verdict.observed["values_left"]) == (3, 3)
    policy["guarantees"][1]["complementary_release"]["l"] = 4
    with pytest.raises(Refused):
        pp.release(policy)


def test_without_a_ledger_the_verdict_says_so(document: Document) -> None:
    policy = document(RACE)
    assert NOT_JUDGED not in pp.release(policy).assessment.notes
    del policy["guarantees"][1]
    assert NOT_JUDGED in pp.release(policy).verdict_document["notes"]


def test_what_a_policy_with_a_ledger_must_hold(document: Document, tmp_path: Path) -> None:
    def problems(policy: dict[str, Any]) -> str:
        with pytest.raises(PolicyError) as wrong:
            pp.Policy.from_dict(policy)
        return str(wrong.value)

    keyless = document(RACE)
    del keyless["record_id"]
    assert "declare one, or leave the key out" in problems(keyless)
    inside = document(RACE)
    inside["guarantees"][1]["complementary_release"]["ledger"] = str(tmp_path / "published" / "one" / "ledger")
    assert "is inside the sink" in problems(inside)
    twice = document(RACE)
    twice["guarantees"].append({"complementary_release": {"ledger": str(tmp_path / "other"), "k": 2}})
    assert "keeps one ledger" in problems(twice)
    relative = document(RACE)
    relative["guarantees"][1]["complementary_release"]["ledger"] = "ledger"
    (entry,) = pp.Policy.from_dict(relative, tmp_path / "policies").guarantees[1:]
    assert entry.ledger == str(tmp_path / "policies" / "ledger")
