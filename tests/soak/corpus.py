"""``python tests/soak/corpus.py OUT [--engine embedded|dask|spark] [N]``: what N policies release, as digests.

Outputs of two versions of the code are compared by ``python tests/soak/corpus.py --compare A B``: rows and their order,
public documents, verdicts, and errors where a policy ends in one. `--whole` writes documents and not their digests, and
`--only TEXT` runs policies whose name has that text. Of an older version, made with this corpus:

    git worktree add --detach /tmp/before COMMIT
    PYTHONPATH=/tmp/before python tests/soak/corpus.py before.json

Only the public face of the package is used. The seed is fixed, so that rows and their order are; run ids, moments and
durations are left out of documents.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from corpus_tables import write_tables
from ruamel.yaml import YAML

import privpipe as pp
from privpipe.errors import PrivpipeError, Refused

SECRETS = ("CORPUS_SEED", "PRIVPIPE_TEST_KEY", "PRIVPIPE_LEDGER_KEY")
UNTOLD = (
    *("versions", "created", "seconds", "times", "began", "ended", "started", "duration", "sha256", "bytes"),
    *("commitment", "seed_commitment", "checksum", "documents", "fingerprint", "private_plan", "seal"),
    "manifest_sha256",
)
"""Keys of documents that speak of the moment and of the machine, that a run salts, or of the bytes of files."""
MOMENTS = (
    (re.compile(r"hmac-sha256:[0-9a-f]{64}"), "SALTED"),
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}"), "RUN"),
    (re.compile(r"\d{1,2}\.? \w+ \d{4}, \d\d:\d\d UTC"), "MOMENT"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?( UTC)?"), "MOMENT"),
)
NUMBER = 200
ENGINES: dict[str, dict[str, Any]] = {
    "embedded": {"threads": 1, "memory_limit": "1GB"},
    "dask": {"scheduler": "synchronous", "npartitions": 3},
    "spark": {"shuffle_partitions": 2, "driver_bytes": 0},
}
SINKS: tuple[dict[str, str], ...] = (
    {"path": "published/people", "format": "parquet"},
    {"path": "published/people", "format": "csv"},
    {"path": "published/people", "format": "delta"},
    {"database": "published.sqlite", "table": "people"},
    {"database": "published.duckdb", "table": "people"},
)
WEAK = {"distinct_l_diversity": {"column": "illness", "l": 1}}
"""Each sensitive column must be judged."""
WARN = {"severity": "warn"}
WARNING: dict[str, dict[str, str]] = {"no_identifiers": {}}
"""An entry that may be no warning."""
CROWD = {"path": "crowd", "format": "parquet"}
SLOW = ("local_recoding", "suppress_cells", "safepub", "synthesize", "fuzzy_microaggregate", "record_swap")
"""Stages that a table of thousands of records would take too long."""


def base() -> dict[str, Any]:
    """The policy that the others change."""
    return {
        "version": 1,
        "name": "people",
        "source": {"path": "people.csv", "format": "csv"},
        "columns": {
            "name": {"role": "identifier"},
            "person": {"role": "identifier"},
            "household": {"role": "identifier"},
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 0, "widths": [5, 10, 20]}},
            },
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "town": {"role": "quasi_identifier"},
            "sex": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
            "income": {"role": "insensitive", "type": "number"},
            "cost": {"role": "insensitive", "type": "decimal"},
            "weight": {"role": "insensitive", "type": "integer"},
            "day": {"role": "insensitive", "type": "date"},
        },
        "record_id": "name",
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.3}}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "measures": [{"average_risk": {}}],
        "sink": dict(SINKS[0]),
        "seed": {"from_env": "CORPUS_SEED"},
        "engines": ENGINES,
    }


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A policy with other sections; columns join those that are there, and null takes a section away."""
    found = copy.deepcopy(document)
    for key, value in changes.items():
        if key == "columns":
            found["columns"].update(value)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def policies() -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    """Name, document and runs of every policy, always the same and in the same order."""
    given = YAML(typ="safe", pure=True).load(Path(__file__).with_name("corpus_policies.yaml").read_text("utf-8"))
    stages, guarantees, measures = given["transform"], given["guarantees"], given["measures"]
    for at, stage in enumerate(stages):
        (name,) = stage
        document = changed(base(), {"transform": _staged(stage), "sink": dict(SINKS[at % len(SINKS)])})
        document["guarantees"].append(dict(WEAK))
        if at % 4 == 1 and name not in SLOW:
            document["source"] = dict(CROWD)
        if name == "safepub":
            document["guarantees"] = [{"differential_privacy": stage[name]}]
            document["columns"]["illness"] = {"role": "insensitive"}
        if "age" in str(stage[name].get("columns")):  # what is masked is recoded no more
            document["columns"]["age"] = {"role": "insensitive", "type": "number"}
        if "household" in stage[name]:
            document["household_id"] = "household"
        yield f"stage {at:03} {name}", document, [{}]
    for at, changes in enumerate(given["policies"]):
        changes = dict(changes)
        runs = changes.pop("runs", [{}])
        document = changed(base(), changes)
        if document.get("nulls") == "wildcard":  # there are no classes to judge a sensitive column by
            document["columns"]["illness"] = {"role": "insensitive"}
        else:
            entries = [entry for each in document["guarantees"] for entry in each.values()]
            over = next(({"over": entry["over"]} for entry in entries if "over" in entry), {})
            document["guarantees"] = [
                *document["guarantees"],
                {name: {**entry, **over} for name, entry in WEAK.items()},
            ]
        yield f"section {at:03} {' '.join(sorted(changes))}", document, runs
    packs = NUMBER - len(stages) - len(given["policies"])
    for at in range(packs):
        judged, reported = guarantees[at::packs], measures[at::packs]
        document = changed(base(), {"sink": dict(SINKS[at % len(SINKS)]), "measures": reported})
        if at % 3:  # all are judged, and the table is released
            judged = [{name: {**entry, **WARNING.get(name, WARN)}} for each in judged for name, entry in each.items()]
        else:
            document["transform"] = [{"generalize": {"levels": {"age": 3, "zip": 4}}}]
        document["guarantees"] = [{"k_anonymity": {"k": 2}}, dict(WEAK), *judged]
        if any(entry.get("column") == "income" for each in judged for entry in each.values()):
            document["columns"]["income"] = {"role": "sensitive", "type": "number"}
            document["guarantees"].append({"distinct_l_diversity": {"column": "income", "l": 1}})
        _what_they_need(document)
        yield f"entries {at:03} {' '.join(name for each in (*judged, *reported) for name in each)}", document, [{}]


def _staged(stage: dict[str, Any]) -> list[dict[str, Any]]:
    """A stage, and what a release needs in addition."""
    (name,) = stage
    if name == "suppress_records":
        return [{"generalize": {"levels": {"age": 3, "zip": 4}}}, stage]
    recoding = {"generalize", "mondrian", "local_recoding", "safepub", "suppress_cells"}
    if name in recoding:
        return [stage]
    return [stage, {"generalize": {"search": "optimal", "suppress_at_most": 0.4}}]


def _what_they_need(document: dict[str, Any]) -> None:
    """A population, a household or noise for the entries that speak of one."""
    names = {name for section in ("guarantees", "measures") for entry in document[section] for name in entry}
    if names & {
        "k_map",
        "delta_presence",
        "journalist_risk",
        "journalist_profitability",
        "file_uniqueness",
        "marketer_risk",
    }:
        document["population"] = {"path": "census.csv", "format": "csv"}
    if names & {"household_k_anonymity", "whole_households", "household_uniqueness", "individual_risk"}:
        document["household_id"] = "household"
    if names & {"complementary_release", "repeated_noise"}:  # a ledger looks back at a folder
        document["sink"] = dict(SINKS[0])
    if names & {"transparency_attack"}:
        document["transform"].insert(0, {"rank_swap": {"columns": ["income"], "p": 0.1}})
    if names & {"repeated_noise", "recovery", "record_linkage", "rank_interval_disclosure", "robust_interval_risk"}:
        document["transform"].insert(0, {"add_noise": {"columns": ["income"], "variance_ratio": 0.2}})


def told(value: Any) -> Any:
    """A document without what differs between two runs of the same code."""
    if isinstance(value, dict):
        return {told(key): told(item) for key, item in value.items() if key not in UNTOLD}
    if isinstance(value, list | tuple):
        return [told(item) for item in value]
    if isinstance(value, str):
        for pattern, name in MOMENTS:
            value = pattern.sub(name, value)
    return value


def digest(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def rows_of(table: pa.Table) -> dict[str, Any]:
    """Columns with their types, and digests of the rows in their order and in any."""
    rows = [repr(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    types = {field.name: str(field.type) for field in table.schema}
    return {"columns": types, "records": len(rows), "rows": digest("\n".join(rows)), "any order": digest(sorted(rows))}


def released_rows(document: dict[str, Any]) -> dict[str, Any] | None:
    """What readers find where a policy publishes; nothing if it published nothing."""
    sink = document["sink"]
    if sink.get("format") == "delta":
        root = Path(sink["path"])
        files: dict[str, None] = {}
        for log in sorted(root.glob("_delta_log/*.json")):
            for line in log.read_text("utf-8").splitlines():
                action = json.loads(line)
                for name in ("remove", "add"):
                    if name in action:
                        files.pop(action[name]["path"], None)
                    if name == "add" == next(iter(action)):
                        files[action["add"]["path"]] = None
        parts = [pq.read_table(root / name, partitioning=None) for name in files]
        return rows_of(pa.concat_tables(parts, promote_options="default")) if parts else None
    if "path" in sink:
        return rows_of(pp.read_release(sink["path"])) if Path(sink["path"]).exists() else None
    return rows_of_database(Path(sink["database"]))


def rows_of_database(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    if path.suffix == ".sqlite":
        with sqlite3.connect(path) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'people'").fetchall():
                return None
            found = connection.execute("SELECT * FROM people ORDER BY rowid")
            names, rows = [each[0] for each in found.description], [repr(row) for row in found.fetchall()]
            return {
                "columns": dict.fromkeys(names, ""),
                "records": len(rows),
                "rows": digest("\n".join(rows)),
                "any order": digest(sorted(rows)),
            }
    with duckdb.connect(str(path), read_only=True) as database:
        database.execute("SET threads = 1")
        if not database.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'people'").fetchall():
            return None
        return rows_of(database.execute("SELECT * FROM people").to_arrow_table())


def pages(document: dict[str, Any], path: str) -> dict[str, str]:
    """The reports next to a release."""
    places = [Path(path), Path(document["sink"].get("path", "nowhere"))]
    found = sorted({page.resolve() for place in places for page in place.glob("_privpipe/**/report.html")})
    texts = (re.sub(r"[0-9a-f]{64}", "DIGEST", told(page.read_text("utf-8"))) for page in found)
    return {f"page {at}": text for at, text in enumerate(texts)}


def outcome(document: dict[str, Any], runs: list[dict[str, Any]], engine: str, whole: bool) -> list[dict[str, Any]]:
    """What each run of a policy ends in."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tables(Path(folder))
        plan = None
        for run in runs:
            case = changed(document, {key: value for key, value in run.items() if key in document})
            given = {key: run[key] for key in ("batch", "dry_run", "target") if key in run}
            ended: dict[str, Any] = {}
            try:
                result = pp.release(case, engine=engine, plan=plan if run.get("by_plan") else None, **given)
            except PrivpipeError as error:
                ended["error"] = told(f"{type(error).__name__}: {error}".replace(str(Path(folder).resolve()), "."))
                if isinstance(error, Refused) and error.assessment is not None:
                    ended["verdict"] = error.assessment.to_dict()
            except Exception as error:  # noqa: BLE001 a crash is an answer too, and must stay the same one
                ended["crash"] = type(error).__name__
            else:
                plan = result.plan if run.get("keep_plan") else plan
                ended["state"] = {"published": result.published, "repeated": result.repeated}
                ended["quarantined"] = result.quarantined
                ended["verdict"] = result.assessment.to_dict()
                ended |= {f"public {name}": page for name, page in result.public.items()}
                ended |= pages(case, result.path)
                ended["plan"] = "" if result.repeated else json.loads(result.plan.to_json())
            ended["released"] = released_rows(case)
            text = json.dumps(told(ended), sort_keys=True, default=str)
            found.append(json.loads(text.replace(str(Path(folder).resolve()), ".")))
        os.chdir("/")
    return found if whole else [{name: shortened(name, value) for name, value in run.items()} for run in found]


def shortened(name: str, value: Any) -> Any:
    """Digests of the parts of a document, so that a difference is reported by its part."""
    if name in ("error", "crash", "released", "state", "quarantined"):
        return value
    return {key: digest(item) for key, item in value.items()} if isinstance(value, dict) else digest(value)


def open_spark() -> None:
    """A session for all runs; starting one takes longer than any of them."""
    from pyspark.sql import SparkSession

    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    conf |= {"spark.sql.shuffle.partitions": "2", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[1]").appName("corpus")
    for key, value in conf.items():
        builder = builder.config(key, value)
    builder.getOrCreate()


def compare(first: Path, second: Path) -> int:
    """Print what differs; 1 if anything does."""
    before, after = (json.loads(path.read_text("utf-8"))["policies"] for path in (first, second))
    lines = [f"{name}: only in {first}" for name in before if name not in after]
    lines += [f"{name}: only in {second}" for name in after if name not in before]
    counted: Counter[str] = Counter()
    for name in sorted(before.keys() & after.keys()):
        for at, (one, other) in enumerate(zip(before[name]["runs"], after[name]["runs"], strict=True)):
            for place, left, right in differences(one, other):
                lines.append(f"{name}: run {at}: {place}: {left!r} became {right!r}")
                counted[place.partition(".")[0]] += 1
        if before[name]["policy"] != after[name]["policy"]:
            lines.append(f"{name}: is not the same policy")
    print(*lines, sep="\n")
    print(f"{len(before.keys() & after.keys())} policies compared, {len(lines)} differences {dict(counted) or ''}")
    return 1 if lines else 0


def differences(one: Any, other: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{place}.{key}" if place else key)
    elif one != other:
        yield place, one, other


def unused() -> list[str]:
    """Entries of the catalogues that no policy names."""
    sections = ("transform", "guarantees", "measures")
    known = [document for _, document, _ in policies()]
    named = {name for each in known for section in sections for entry in each[section] for name in entry}
    return sorted(set().union(*(set(room.CATALOGUE) for room in (pp.transforms, pp.models, pp.measures))) - named)


def make(out: Path, engine: str, number: int, *, whole: bool = False, only: str = "") -> None:
    """Write what so many policies end in."""
    warnings.simplefilter("ignore")
    for name in SECRETS:
        os.environ[name] = hashlib.sha256(name.encode()).hexdigest()
    if engine == "spark":
        open_spark()
    found, begun, taken = {}, time.monotonic(), []
    for name, document, runs in list(policies())[:number]:
        if only not in name:
            continue
        start = time.monotonic()
        ended = outcome(document, runs, engine, whole)
        found[name] = {"policy": digest([document, runs]), "runs": ended}
        taken.append((round(time.monotonic() - start, 1), name))
        print(*taken[-1], file=sys.stderr, flush=True)
        kept = {"engine": engine, "made": dt.datetime.now(dt.UTC).isoformat(), "policies": found}
        out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    kinds = Counter(
        next((k for k in ("error", "crash") if k in run), "end") for f in found.values() for run in f["runs"]
    )
    print(f"{engine}: {len(found)} policies, runs: {dict(kinds)}, {time.monotonic() - begun:.0f} s; the slowest:")
    print(*sorted(taken, reverse=True)[:5], sep="\n")


def main(arguments: list[str]) -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("out", nargs="?", type=Path)
    reader.add_argument("number", nargs="?", type=int, default=NUMBER)
    reader.add_argument("--engine", choices=sorted(ENGINES), default="embedded")
    reader.add_argument("--compare", nargs=2, type=Path)
    reader.add_argument("--whole", action="store_true")
    reader.add_argument("--only", default="")
    asked = reader.parse_args(arguments)
    if asked.compare:
        return compare(*asked.compare)
    if asked.out is None:
        reader.error("give a file to write")
    if names := unused():
        print(f"no policy names {', '.join(names)}: add them to corpus_policies.yaml", file=sys.stderr)
        return 1
    make(asked.out.resolve(), asked.engine, asked.number, whole=asked.whole, only=asked.only)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
