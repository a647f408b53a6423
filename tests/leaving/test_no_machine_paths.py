"""No public document of a release shows where on a machine its run found its files."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.blocks.public_edition import public_parameters
from privpipe.cli import app
from privpipe.measures import ComplementaryRelease, MembershipAttack

N = 120


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy that names every kind of file by a relative path."""
    home = tmp_path / "where no one looks"
    (home / "data").mkdir(parents=True)
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "name": [f"person {at}" for at in range(N)],
            "zip": rng.choice(["100", "101", "200"], N),
            "ill": rng.choice(["flu", "gout"], N),
            "income": rng.lognormal(9, 1, N).round(2),
        }
    )
    for name in ("people", "population", "holdout", "earlier"):
        rows.to_parquet(home / "data" / f"{name}.parquet", index=False)
    (home / "data" / "zip.csv").write_text("100,1**,*\n101,1**,*\n200,2**,*\n")
    for name in ("seed", "pseudonyms", "persons"):
        (home / name).write_text(secrets.token_hex(32))
        (home / name).chmod(0o600)
    document: dict[str, Any] = {
        "version": 1,
        "name": "visits",
        "source": {"path": "data/people.parquet"},
        "population": {"path": "data/population.parquet"},
        "record_id": "name",
        "columns": {
            "name": {"role": "identifier"},
            "zip": {"role": "quasi_identifier", "hierarchy": {"file": "data/zip.csv", "delimiter": ","}},
            "ill": {"role": "sensitive"},
            "income": {"role": "insensitive", "type": "number"},
        },
        "seed": {"from_file": "seed"},
        "transform": [
            {"pseudonymise": {"columns": ["name"], "domain": "people", "key": {"from_file": "pseudonyms"}}},
            {"generalize": {"levels": {"zip": 1}}},
        ],
        "guarantees": [
            {"k_anonymity": {"k": 2}},
            {"distinct_l_diversity": {"column": "ill", "l": 1}},
            {"k_map": {"k": 1}},
            {"complementary_release": {"k": 1, "ledger": "state/ledger", "key": {"from_file": "persons"}}},
        ],
        "measures": [{"membership_attack": {"holdout": "data/holdout.parquet"}}],
        "sink": {"path": "out"},
        "records": "private",
    }
    (home / "state").mkdir()
    (home / "release.yaml").write_text(json.dumps(document))
    return home / "release.yaml"


def test_nothing_public_shows_where_files_lie(policy: Path) -> None:
    home = policy.parent
    result = pp.release(policy)
    documents = {path.name: path.read_bytes() for path in (home / "out").rglob("*") if path.is_file()}
    assert {"verdict.json", "plan.json", "manifest.json", "report.html"} < set(documents)
    for name, content in documents.items():
        assert str(home).encode() not in content, name
        assert home.name.encode() not in content, name
    verdict, plan = json.loads(documents["verdict.json"]), json.loads(documents["plan.json"])
    [ledger] = [row["parameters"] for row in verdict["guarantees"] if row["name"] == "complementary_release"]
    assert (ledger["ledger"], ledger["key"]) == ("ledger", {"from_file": "persons"})
    assert verdict["measures"][0]["parameters"]["holdout"] == "holdout.parquet"
    assert plan["stages"][0]["parameters"]["key"] == {"from_file": "pseudonyms"}
    private = json.loads((Path(str(result.record)) / "verdict.json").read_text())
    assert str(home / "state" / "ledger") in json.dumps(private)


def test_absolute_paths_show_their_names_alone(policy: Path) -> None:
    """The home of whoever runs it is not part of a release; the hash of the policy is of what the manifest shows."""
    home = policy.parent
    document = json.loads(policy.read_text())
    document["source"]["path"] = str(home / document["source"]["path"])
    document["population"]["path"] = str(home / document["population"]["path"])
    document["sink"]["path"] = str(home / "out")
    document["guarantees"][3]["complementary_release"] |= {
        "ledger": str(home / "state" / "ledger"),
        "key": {"from_file": str(home / "persons")},
    }
    document["measures"] = [{"membership_attack": {"holdout": str(home / "data" / "holdout.parquet")}}]
    policy.write_text(json.dumps(document))
    pp.release(policy)
    for path in (home / "out").rglob("*"):
        assert not path.is_file() or home.name.encode() not in path.read_bytes(), path.name
    shown = json.loads((home / "out" / "_privpipe" / "manifest.json").read_text())
    assert shown["policy"]["sink"]["path"] == "out"
    assert shown["policy_hash"] == pp.Policy.load(policy).digest()
    for asked in (["verify", str(home / "out")], ["verify", str(home / "out"), "--policy", str(policy)]):
        assert CliRunner().invoke(app, asked).exit_code == 0


def test_a_folder_changes_no_draw_and_hides_no_other_change(policy: Path) -> None:
    document = json.loads(policy.read_text())
    one, other = ({**document, "source": {**document["source"], "path": f"/{home}/a.csv"}} for home in ("anna", "bea"))
    first, second = pp.Policy.from_dict(one), pp.Policy.from_dict(other)
    assert first.digest() == second.digest() != pp.Policy.from_dict(document).digest()
    assert first.run_digest() == second.run_digest() == pp.Policy.from_dict(document).run_digest()
    assert first.public_document()["guarantees"] == document["guarantees"]


def test_the_release_verifies_and_another_ledger_does_not(policy: Path) -> None:
    pp.release(policy)
    out = policy.parent / "out"
    assert CliRunner().invoke(app, ["verify", str(out)]).exit_code == 0
    for name in ("verdict.json", "manifest.json"):
        path = out / "_privpipe" / name
        path.chmod(0o600)
        path.write_text(path.read_text().replace('"ledger": "ledger"', '"ledger": "other"'))
    assert CliRunner().invoke(app, ["verify", str(out)]).exit_code != 0


def test_words_and_other_texts_are_not_paths() -> None:
    given = {"holdout": "/home/anna/holdout.parquet", "columns": ["a/b"], "key": {"from_env": "A/B"}}
    assert public_parameters(MembershipAttack, given) == {**given, "holdout": "holdout.parquet"}
    assert public_parameters(ComplementaryRelease, {"ledger": "ledger", "k": 2}) == {"ledger": "ledger", "k": 2}
    nested = {"columns": {"zip": {"file": "C:\\data\\zip.csv"}}, "keys": [{"from_file": "/run/secrets/key/"}]}
    for home in ("~/keys/key", "~anna/key", "file:///home/anna/key"):
        assert public_parameters(None, {"from_file": home}) == {"from_file": "key"}
    assert public_parameters(None, nested) == {"columns": {"zip": {"file": "zip.csv"}}, "keys": [{"from_file": "key"}]}
