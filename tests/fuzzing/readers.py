"""What is fuzzed: each reader of the package, what its inputs are, and what may come of them."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from privpipe.engines import Source, open_engine
from privpipe.errors import DataError, HierarchyError, PrivpipeError, UsageError
from privpipe.hierarchies import Hierarchy
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from privpipe.policy import Policy
from privpipe.policy.officer import read_officer
from privpipe.policy.schema import json_schema, officer_schema
from privpipe.scheduled.job import Job
from privpipe.sharing import RunDocument
from privpipe.sharing.sealed_files import Letter, verified
from privpipe.signing import PublicKey
from privpipe.transforms import CATALOGUE as TRANSFORMS
from tests.fuzzing.mutations import mutated_file, smaller_file

__all__ = ["CANARIES", "TEXT_READERS", "Reader", "Wrong"]

CANARIES = ("Zanzibarella", "Quokkaville", "xylophobia", "1987654321")
"""Cells of the data; no error may say one."""
Mutate = Callable[[bytes, list[bytes], random.Random], bytes]


class Wrong(AssertionError):
    """An input was accepted that must not be, or not as it was."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One thing that reads what others wrote.

    Parameters
    ----------
    name : str
        Also the folder of its kept inputs.
    rooms : tuple of str
        Whose branches guide the search.
    read : callable
        Reads one input in a folder; ends in an error of the package, or in nothing. Raises `Wrong`.
    errors : tuple of type
        All that may come of it.
    mutate : callable
        Another input from one, given all of the queue.
    first : tuple of bytes
        What to begin with where nothing is kept.
    names : callable
        What of an input is the name of a column, which errors say.
    smaller : callable
        The n-th way to leave something out of an input; None: there is none.
    ready : callable
        Makes what every reading needs, before any of them is watched.
    """

    name: str
    rooms: tuple[str, ...]
    read: Callable[[bytes, Path], None]
    errors: tuple[type[PrivpipeError], ...]
    mutate: Mutate
    first: tuple[bytes, ...]
    names: Callable[[bytes], str] = lambda data: ""
    smaller: Callable[[bytes, int], bytes | None] = smaller_file
    ready: Callable[[], object] = lambda: None


@cache
def words() -> tuple[str, ...]:
    """Keys and names of the grammar."""
    found: set[str] = {*MODELS, *TRANSFORMS, *MEASURES}

    def gather(node: Any) -> None:
        if isinstance(node, dict):
            found.update(node.get("properties", {}) if isinstance(node.get("properties"), dict) else ())
            for each in node.values():
                gather(each)
        elif isinstance(node, list):
            found.update(each for each in node if isinstance(each, str) and len(each) < 30)
            for each in node:
                gather(each)

    gather([json_schema(), officer_schema()])
    return tuple(sorted(found))


def _read_policy(data: bytes, place: Path) -> None:
    (place / "release.yaml").write_bytes(data)
    found = Policy.load(place / "release.yaml")
    repr(found)
    if found.digest() != Policy.load(place / "release.yaml").digest():
        raise Wrong("two readings of one policy differ")


def _read_officer(data: bytes, place: Path) -> None:
    (place / "officer.yaml").write_bytes(data)
    found = read_officer("officer.yaml", place)
    if not found.hash:
        raise Wrong("an officer's policy has no hash")


def _read_hierarchy(data: bytes, place: Path) -> None:
    path = place / "ages.csv"
    path.write_bytes(data)
    for kind, header in (("integer", False), (None, True)):
        with suppress(HierarchyError):
            Hierarchy.read_csv(path, type=kind, header=header, unknown="root")
    found = Hierarchy.read_csv(path)
    found.cover([CANARIES[1] if CANARIES[1] in found.values else found.values[0], None]).describe()
    found.to_csv(place / "again.csv")
    if Hierarchy.read_csv(place / "again.csv").digest() != found.digest():
        raise Wrong("what was written of a hierarchy reads as another")


ENGINE: list[Any] = []
TYPES = {"age": "integer", "income": "number", "day": "date"}
COLUMNS = ("name", "town", *TYPES)


def _read_source(data: bytes, place: Path) -> None:
    path = place / "people.csv"
    path.write_bytes(data)
    if not ENGINE:
        ENGINE.append(open_engine("embedded", {"threads": 1, "memory_limit": "1GB"}))
    engine = ENGINE[0]
    found = engine.collect(engine.scan(Source(data=str(path), format="csv", delimiter=";", types=TYPES)))
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=";", strict=True))
    expected = [row for row in rows if row]
    names, told = expected[0], expected[1:]
    if found.column_names != names or found.num_rows != len(told):
        raise Wrong(f"{len(told)} records were read as {found.num_rows}")
    texts = [(at, name) for at, name in enumerate(names) if name not in TYPES]
    columns = [[cell or "" for cell in found[name].to_pylist()] for _, name in texts]  # an empty cell is missing
    if sorted(zip(*columns, strict=True)) != sorted(tuple(row[at] for at, _ in texts) for row in told):
        raise Wrong("cells were read as others")


def _header(data: bytes) -> str:
    return "".join(next(csv.reader(io.StringIO(data.decode(errors="replace"), newline=""), delimiter=";"), ()))


def _read_job(data: bytes, place: Path) -> None:
    del place
    Job.from_json(data)


def _read_run(data: bytes, place: Path) -> None:
    (place / "run.yaml").write_bytes(data)
    found = RunDocument.load(place / "run.yaml")
    if found.digest != RunDocument.load(place / "run.yaml").digest:
        raise Wrong("two readings of one run document differ")


def _read_sum(data: bytes, place: Path) -> None:
    (place / SUM.name).write_bytes(data)
    verified(place / SUM.name, SUM, PublicKey.of(SIGNER))
    if data not in SUMS:
        raise Wrong("a changed file was taken for what was signed")


def _files(delimiter: str = "") -> Mutate:
    return lambda data, queue, draw: mutated_file(data, queue, draw, words(), delimiter)


POLICIES = (
    b"""version: 1
name: people
source: {path: people.csv, format: csv, delimiter: ";"}
columns:
  name: {role: identifier}
  age: {role: quasi_identifier, type: integer, hierarchy: {intervals: {start: 20, widths: [5, 10]}}}
  town: {role: quasi_identifier, hierarchy: {priority: {levels: 2, order: frequency}}}
  illness: {role: sensitive}
record_id: name
transform: [{generalize: {search: optimal, suppress_at_most: 0.2}}]
guarantees: [{k_anonymity: {k: 3}}, {distinct_l_diversity: {column: illness, l: 2}}]
measures: [{average_risk: {}}]
sink: {path: published/people, format: csv}
seed: {from_env: PRIVPIPE_SEED}
""",
    b"""columns:
  zip: &it {role: quasi_identifier, hierarchy: {redact: {keep: left}}}
  born: {<<: *it, type: date, hierarchy: {dates: {steps: [month, year]}}}
  sex: {role: quasi_identifier, hierarchy: {groups: {a: [m, f]}, add_root: true}}
  job: {role: sensitive, hierarchy: {tree: {any: {low: [a, b], high: [c]}}}}
nulls: wildcard
wildcard: "*"
transform:
  - rank_swap: {columns: [sex], p: 0.05}
  - mondrian: {}
guarantees:
  - t_closeness: {column: job, t: 0.2, distance: hierarchical, quasi_identifiers: [zip]}
population: {path: census.parquet, generalized: true}
""",
)
OFFICERS = (
    b"""name: officer
guarantees:
  - k_anonymity: {k: 5, reason: usual}
  - distinct_l_diversity: {l: 2}
columns: {zip: {role: quasi_identifier}}
suppress_at_most: 0.1
seed: secret
sign_off:
  by: [{name: A. Officer, key: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0CrzAUrCVuBFXvcdo/Tmtjt5PKOjdAzG40ywuvDm6Z"}]
  two_persons: false
  valid_days: 30
""",
)
HIERARCHIES = (
    b"7;child;*\n30;adult;*\n8;child;*\n1987654321;adult;*\n",
    b'value;group;all\nZanzibarella;"x;y";*\nQuokkaville;"x;y";*\n',
    b"\xef\xbb\xbf07;a\r\n7;a\r\n\r\n",
)
SOURCES = (
    b'name;town;age;income;day\nZanzibarella;Quokkaville;44;77.7;2024-01-11\np5;"a;""b";31;;2024-02-12\n',
    b"age;town\n1987654321;x\r\n;\n",
    b'town\n""\nQuokkaville\n',
)
JOBS = (b'{"action": "release", "policy": "release.yaml", "keep_out": [["tags", "tags"]]}',)

SHARED = b"AAAAC3NzaC1lZDI1NTE5AAAAI"
"""How every public key begins."""
HOLDERS = b"".join(
    b"  %s: {sign: ssh-ed25519 %s, seal: x25519 %s}\n" % (name, SHARED + sign, seal)
    for name, sign, seal in (
        (b"north", b"IqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c", b"Jps0Aj5En5XKG3n3FG4H/91e98lo7vIBcbljDpXJAAw="),
        (b"south", b"IE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU", b"GhW/Z/ZGkPMqnm6hG9tqvRccZkGjNbCVOusHrawXeXE="),
        (b"west", b"O1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR", b"ak0FOthzyxMWlMDBjf31QIin5EdT5aZpKQmuuLDBBD4="),
    )
)
RUNS = (
    b"""version: 1
nonce: 0123456789abcdef0123456789abcdef
exchange: exchange
holders:
"""
    + HOLDERS
    + b"""dimensions: {region: [North, South], age: [1, 2]}
measures: {count: {between: [0, 1000]}, cost: {decimals: 2, between: [0, 99.5]}}
person_id: patient
disjoint_persons: true
writer: west
guarantees: [{minimum_frequency: {at_least: 3}}, {table_audit: {}}]
suppress: {cost: value}
""",
    b"""version: 1
nonce: "0123456789abcdef0123456789abcdef"
exchange: exchange
holders:
"""
    + HOLDERS
    + b"""dimensions: {region: [North]}
measures: {count: {between: [0, 1000]}, cost: {between: [-5, 5], person: [0, 1]}}
disjoint_persons: true
epsilon: 0.5
contribution_bound: 2
colluding: 1
""",
)
SIGNER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"
SUM = Letter(
    nonce="0123456789abcdef0123456789abcdef",
    run="abababababababababababababababababababababababababababababababab",
    kind="sum",
    sender="north",
    to="",
)
SUMS = (
    b'{"kind":"sum","nonce":"0123456789abcdef0123456789abcdef","run":"abababababababababababababababababababababababababababababababab","sender":"north","signature":"TwNmVXLrYgfBqG9OiVwn8sDuT2NhmyL5AdT01rajfQvAd0U8wcExdLFLdTmXPFNLMREbbzwnrZVXhEGDYirNDQ==","to":""}\n12345678',
)

TEXT_READERS = (
    Reader(
        name="policy",
        rooms=("policy/", "roles.py", "hierarchies/", "blocks/parameters.py", "blocks/marks.py"),
        read=_read_policy,
        errors=(UsageError,),
        mutate=_files(),
        first=POLICIES,
    ),
    Reader(
        name="officer",
        rooms=("policy/", "signing/"),
        read=_read_officer,
        errors=(UsageError,),
        mutate=_files(),
        first=OFFICERS,
    ),
    Reader(
        name="hierarchy",
        rooms=("hierarchies/",),
        read=_read_hierarchy,
        errors=(HierarchyError, UsageError),
        mutate=_files(";"),
        first=HIERARCHIES,
    ),
    Reader(
        name="source",
        rooms=(
            "engines/base/",
            "engines/readers/",
            "engines/lakes/",
            "engines/databases/",
            "engines/stores.py",
            "engines/embedded/sources.py",
            "kernels/columns/",
        ),
        read=_read_source,
        errors=(DataError,),
        mutate=_files(";"),
        first=SOURCES,
        names=_header,
    ),
    Reader(
        name="job",
        rooms=("scheduled/job.py",),
        read=_read_job,
        errors=(UsageError,),
        mutate=_files(),
        first=JOBS,
    ),
    Reader(
        name="run_document",
        rooms=("sharing/run_document.py",),
        read=_read_run,
        errors=(UsageError,),
        mutate=_files(),
        first=RUNS,
    ),
    Reader(
        name="share",
        rooms=("sharing/sealed_files.py",),
        read=_read_sum,
        errors=(DataError,),
        mutate=_files(),
        first=SUMS,
    ),
)
