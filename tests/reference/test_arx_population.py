"""k-map and delta-presence of a sample of Adult beside all of it, at transformations that ARX reports on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from privpipe.assess import assess
from privpipe.blocks import ClassModel
from privpipe.engines import Engine, Source
from privpipe.models import DeltaPresence, KMap
from privpipe.roles import Roles

SECTIONS = ("optimum_from_arx_tests", "optimum_generated", "loss_of_given_transformation")


def rows_of(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as lines:
        header, *rows = csv.reader(lines, delimiter=";")
    return {name: [row[at] for row in rows] for at, name in enumerate(header)}


def generalized(folder: Path, columns: dict[str, list[str]], levels: dict[str, int]) -> pa.Table:
    found = {}
    for name, level in levels.items():
        with (folder / f"adult_hierarchy_{name}.csv").open(newline="") as lines:
            labels = {row[0]: row[level] for row in csv.reader(lines, delimiter=";")}
        found[name] = [labels[value] for value in columns[name]]
    return pa.table(found)


def model_of(given: dict[str, Any]) -> ClassModel:
    if given["type"] == "k-map":
        return KMap(k=given["k"])
    return DeltaPresence(min=given["min"], max=given["max"])


def test_failing_records_are_those_that_arx_suppresses(shared: Path, embedded: Engine) -> None:
    """Rows with one such model alone: what fails is what goes; strangers who fail cannot be helped."""
    folder = shared / "data" / "adult"
    everybody = rows_of(folder / "adult.csv")
    checked = 0
    file = json.loads((shared / "reference" / "arx.json").read_text())
    for row in (row for section in SECTIONS for row in file[section]):
        if len(row["models"]) > 1 or row["models"][0]["type"] not in ("k-map", "delta-presence"):
            continue
        if row.get("peer_error") or not row["models"][0].get("sample"):
            continue
        sample = rows_of(folder / row["models"][0]["sample"])
        for node in row.get("nodes") or [row["expected"]]:
            if "suppressed_in_sample" not in node:
                continue
            levels = dict(zip(row["qis"], node["transformation"], strict=True))
            tables = (generalized(folder, columns, levels) for columns in (sample, everybody))
            scanned = [embedded.scan(Source(data=table)) for table in tables]
            found = assess(
                embedded,
                scanned[0],
                guarantees=[model_of(row["models"][0])],
                roles=Roles(quasi_identifiers=list(levels)),
                population=scanned[1],
            )
            if not found.records:
                continue  # at the root of every hierarchy all records count as suppressed, without a budget
            gone = found.verdicts[0].failing_records
            assert gone == node["suppressed_in_sample"], (row["id"], levels)
            if node.get("within_limit", True) and not gone:
                assert found.passed, (row["id"], levels)
            elif row["suppression_limit"] == 0:
                assert not found.passed, (row["id"], levels)
            checked += 1
    assert checked >= 20
