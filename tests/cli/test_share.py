"""`privpipe share` and `privpipe key holder`: three holders, one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("cryptography")


def test_three_holders(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    holders = {}
    for at, name in enumerate(("north", "south", "west")):
        assert run("key", "make", f"{name}.key").exit_code == 0
        assert Path(f"{name}.key").stat().st_mode & 0o777 == 0o600
        line = run("key", "holder", "--key", f"{name}.key").stdout.strip()
        sign, _, seal = line.strip("{}").partition(", ")
        holders[name] = {"sign": sign.removeprefix("sign: "), "seal": seal.removeprefix("seal: ")}
        rows = {"person": range(at * 100, at * 100 + 30), "region": ["a", "b", "c"] * 10}
        pd.DataFrame(rows).to_csv(f"{name}.csv", index=False)
    document = {
        "version": 1,
        "nonce": run("seed").stdout.strip(),
        "exchange": "exchange",
        "holders": holders,
        "dimensions": {"region": ["a", "b", "c"]},
        "measures": {"count": {"between": [0, 10000]}},
        "person_id": "person",
        "disjoint_persons": True,
        "writer": "west",
        "guarantees": [{"minimum_frequency": {"at_least": 10}}, {"table_audit": {}}],
    }
    Path("run.yaml").write_text(json.dumps(document))
    own = {name: ("--holder", name, "--work", f"{name}-work", "--key", f"{name}.key") for name in holders}
    for name, options in own.items():
        done = run("share", "split", "run.yaml", "--data", f"{name}.csv", *options)
        assert (done.exit_code, "SENT: 2 shares" in done.stderr) == (0, True)
    options = ("--to", "published/visits", "--work", "west-work", "--key", "west.key")
    done = run("share", "combine", "run.yaml", *options)
    assert (done.exit_code, "missing: all holders" in done.stderr) == (3, True)
    for name in holders:
        assert "SENT" in run("share", "sum", "run.yaml", *own[name]).stderr
    assert "THERE ALREADY" in run("share", "sum", "run.yaml", *own["west"]).stderr
    done = run("share", "combine", "run.yaml", *options[:-1], "south.key")
    assert (done.exit_code, "written by 'west' alone" in done.stderr) == (2, True)
    done = run("share", "combine", "run.yaml", *options)
    assert (done.exit_code, "PUBLISHED" in done.stderr) == (0, True)
    assert "ALREADY PUBLISHED" in run("share", "combine", "run.yaml", *options).stderr
    assert pd.read_parquet("published/visits/joint.parquet")["count"].tolist() == [90, 30, 30, 30]


def test_a_budget_has_a_ledger_and_a_limit(run: Any, tmp_path: Path) -> None:
    options = ("--holder", "a", "--data", "x.csv", "--work", str(tmp_path / "w"), "--limit", "1")
    done = run("share", "split", str(tmp_path / "run.yaml"), *options)
    assert (done.exit_code, "belong together" in done.stderr) == (2, True)


def test_a_document_that_is_none(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for text, code in (("a: 1\na: 2\n", 2), ("- 1\n", 2), ("", 2), ("\ttext", 2)):
        path.write_text(text)
        options = ("--holder", "a", "--work", str(tmp_path / "w"))
        assert run("share", "sum", str(path), *options).exit_code == code
    assert run("share", "sum", str(tmp_path / "none.yaml"), *options).exit_code == 4
