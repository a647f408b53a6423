"""`verify --private` proves audits of tables again, and finds proofs that were changed."""

from __future__ import annotations

import json
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.record import verify
from privpipe.record.table_proofs import ProofFault, proved_again

Audit = dict[str, Any]


@pytest.fixture(scope="module", params=["parquet", "csv"])
def released(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    draw = random.Random(3)
    lines = ["region,sex,cost"]
    lines += [f"{draw.choice('abcdef')},{draw.choice('fm')},{draw.randint(1, 9)}.{draw.randint(0, 9)}0"] * 3
    lines += [
        f"{draw.choices('abcdef', (9, 9, 5, 5, 1, 1))[0]},{draw.choice('fm')},{draw.randint(1, 900)}.50"
        for _ in range(60)
    ]
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    aggregate = {"by": ["region", "sex"], "responses": ["count", {"sum": "cost", "decimals": 2}, {"mean": "cost"}]}
    policy = {
        "version": 1,
        "source": {"path": str(folder / "visits.csv")},
        "sink": {"path": str(folder / "published"), "format": request.param},
        "columns": {
            "region": {"role": "quasi_identifier"},
            "sex": {"role": "quasi_identifier"},
            "cost": {"role": "insensitive", "type": "number"},
        },
        "transform": [{"aggregate": {"tables": {"visits": aggregate}}}, {"suppress_table": {}}],
        "guarantees": [
            {"minimum_frequency": {"at_least": 4}},
            {"p_percent": {"at_least": 10, "response": "cost"}},
            {"table_audit": {}},
        ],
    }
    (folder / "visits.yaml").write_text(json.dumps(policy))
    return Path(pp.release(folder / "visits.yaml").path)


def stored(released: Path) -> Path:
    return next(released.parent.glob(".published*/records/*/proofs.json"))


def files(released: Path) -> dict[str, Path]:
    return {path.name: path for path in released.iterdir() if path.is_file()}


def test_a_release_is_proved_again(released: Path) -> None:
    path = stored(released)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sensitive, audits = proved_again(json.loads(path.read_text()), files(released))
    assert audits == 2
    assert sensitive > 0
    found = CliRunner().invoke(app, ["verify", str(released), "--private"])
    assert found.exit_code == 0, found.output
    assert f"{sensitive} unsafe figures of 2 audits" in found.output


def test_audits_are_proved_on_request_only(released: Path) -> None:
    assert "audits of tables" not in {check.name for check in verify(str(released)).checks}


def without_moves(audit: Audit) -> None:
    audit["moves"] = {"variables": [], "numerators": [], "denominators": ""}


def longer_move(audit: Audit) -> None:
    audit["moves"]["numerators"][0] = " ".join(str(1000 * int(x)) for x in audit["moves"]["numerators"][0].split())


def part_of_a_move(audit: Audit) -> None:
    for name in ("variables", "numerators"):
        audit["moves"][name][0] = audit["moves"][name][0].rsplit(" ", 1)[0]


def halved_moves(audit: Audit) -> None:
    audit["moves"]["denominators"] = " ".join("9" for _ in audit["moves"]["denominators"].split())


def other_true_figures(audit: Audit) -> None:
    first, rest = audit["true"].split(" ", 1)
    audit["true"] = f"{int(first) + 1} {rest}"


def unknown_figures(audit: Audit) -> None:
    audit["low"] = " ".join("0" for _ in audit["low"].split())


def greater_levels(audit: Audit) -> None:
    audit["levels"]["upper"] = " ".join(str(10**9 + int(x)) for x in audit["levels"]["upper"].split())


def other_blanks(audit: Audit) -> None:
    audit["tables"][0]["hidden"] = audit["tables"][0]["hidden"].replace("1", "0")


def no_tables(audit: Audit) -> None:
    audit["tables"] = []


CHANGES = [
    without_moves,
    longer_move,
    part_of_a_move,
    halved_moves,
    other_true_figures,
    unknown_figures,
    greater_levels,
    other_blanks,
    no_tables,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_proofs_prove_nothing(released: Path, change: Callable[[Audit], None]) -> None:
    document = json.loads(stored(released).read_text())
    change(document["audits"][0])
    with pytest.raises(ProofFault):
        proved_again(document, files(released))


def test_a_changed_record_is_broken_not_a_crash(released: Path) -> None:
    path = stored(released)
    before = path.read_text()
    try:
        for text in (json.dumps({"audits": [{}]}), json.dumps({"audits": 3}), "[]", "{"):
            path.write_text(text)
            found = {check.name: check.outcome for check in verify(str(released), private=True).checks}
            assert found["audits of tables"] != "holds"
    finally:
        path.write_text(before)


def test_an_audit_of_nothing_is_not_a_proof(released: Path) -> None:
    with pytest.raises(ProofFault):
        proved_again({"audits": []}, files(released))
