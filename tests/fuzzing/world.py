"""A release with everything that a run writes next to it: what the fuzzed documents are edits of."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import privpipe as pp
from privpipe.errors import SignOffMissing
from privpipe.policy.officer import OfficerPolicy, read_officer
from privpipe.running.waiting_runs import read_request
from privpipe.signing import Signature, new_key, read_private, signed, statement_digest
from tests.fuzzing.readers import CANARIES

__all__ = ["KEY", "World", "world"]

KEY = {"from_env": "FUZZ_LEDGER_KEY"}
SEED = {"from_env": "FUZZ_SEED_OF_RELEASES"}
TREE = {"Person": ["Asian", "Black", "White"]}
ZIPS = {"02130": ["02138", "02139"], "02140": ["02141", "02142"]}


@dataclass(frozen=True)
class World:
    """Where everything lies.

    Parameters
    ----------
    home : Path
    policy : Policy
        What `release` was published under.
    records, waiting : Path
        The private record of its run; a run that waits for signatures.
    officer : OfficerPolicy
        Whose sign-off that run waits for.
    """

    home: Path
    policy: pp.Policy
    records: Path
    waiting: Path
    officer: OfficerPolicy

    @property
    def release(self) -> Path:
        """What is published."""
        return self.home / "published" / "people"

    @property
    def ledger(self) -> Path:
        """Of two releases."""
        return self.home / "ledger"


def _document(sink: str) -> dict[str, Any]:
    return {
        "name": "people",
        "source": {"path": "people.csv"},
        "columns": {
            "name": {"role": "identifier"},
            "race": {"role": "quasi_identifier", "hierarchy": {"tree": TREE}},
            "zip": {"role": "quasi_identifier", "hierarchy": {"tree": ZIPS}},
            "age": {"role": "insensitive", "type": "integer"},
            "illness": {"role": "sensitive"},
        },
        "record_id": "name",
        "transform": [
            {"generalize": {"levels": {"race": 1, "zip": 0}}},
            {"rank_swap": {"columns": ["age"], "p": 0.2}},
        ],
        "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
        "measures": [{"average_risk": {}}],
        "sink": {"path": f"published/{sink}", "format": "csv"},
        "seed": SEED,
        "engines": {"embedded": {"threads": 1, "memory_limit": "1GB"}},
    }


@cache
def world() -> World:
    """Made once a process."""
    os.environ["FUZZ_LEDGER_KEY"], os.environ["FUZZ_SEED_OF_RELEASES"] = (
        "k" * 40,
        hashlib.sha256(b"fuzzing").hexdigest(),
    )
    home, before = Path(mkdtemp(prefix="fuzz-world-")), Path.cwd()
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.chdir(home)
    try:
        return _made(home)
    finally:
        os.chdir(before)


def _made(home: Path) -> World:
    people = [(race, code) for race in TREE["Person"] for code in ("02138", "02139", "02141", "02142")] * 2
    lines = [
        f"p{at},{race},{code},{20 + at},{('flu', 'gout', 'cold')[at % 3]}" for at, (race, code) in enumerate(people)
    ]
    lines[3] = lines[3].replace("p3", CANARIES[0]).replace(",23,", f",{CANARIES[3]},")
    (home / "people.csv").write_text("\n".join(["name,race,zip,age,illness", *lines]) + "\n")
    remembered = _document("people")
    memory = {"complementary_release": {"ledger": "ledger", "key": KEY, "k": 2}}
    remembered["guarantees"].append(memory)
    policy = pp.Policy.from_dict(remembered)
    for _ in range(2):
        run = pp.release(policy)
    new_key(home / "key")
    key = read_private(home / "key")
    rule = {"sign_off": {"by": [{"name": "Ada", "key": key.public.line}]}}
    (home / "officer.yaml").write_text(json.dumps(rule))
    try:
        pp.release(pp.Policy.from_dict({**_document("asked"), "policy": "officer.yaml"}))
    except SignOffMissing as missing:
        waiting = Path(missing.waiting)
    statement = statement_digest(read_request(waiting)["statement"])
    moment = datetime.now(UTC).replace(microsecond=0)
    told = Signature(name="Ada", key=key.public, decision="approve", statement=statement, signed_at=moment)
    (home / "signature.json").write_text(json.dumps(signed(key, told).to_dict()))
    records = home / "published" / ".people.privpipe" / "records" / str(run.run_id)
    return World(home, policy, records, waiting, read_officer("officer.yaml", home))
