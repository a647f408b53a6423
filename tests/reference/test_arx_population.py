"""A sample of Adult and all of it: transformations that ARX 3.9.2 reports on, judged, searched for and their losses.

Source: reference/arx.json. A population class without a sample record fails delta-presence and cannot be suppressed;
ARX overlooks that where another model sets a minimal class size, which must not be copied.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks import ClassModel, FactsRequest, prepared
from privpipe.engines import Engine, Source
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import assess
from privpipe.models import (
    DeltaPresence,
    JournalistProfitability,
    KAnonymity,
    KMap,
    RecursiveCLDiversity,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.encoded_table import encode, searched_quality
from privpipe.transforms.recoding.generalize import plan
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import NodeCheck

SEARCHED = {
    "arx-Combinations-00",
    "arx-Combinations-01",
    "arx-Combinations-02",
    "arx-Combinations-15",
    "arx-Profitability-05",
}
"""Searched here; the others are in tests/transforms/search."""
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


def guarantee_of(given: dict[str, Any], row: dict[str, Any], folder: Path) -> ClassModel:
    amounts = {name: float(amount) for name, amount in row.get("cost_benefit", {}).items()}
    match given["type"]:
        case "k-anonymity":
            return KAnonymity(k=given["k"])
        case "recursive-cl-diversity":
            return RecursiveCLDiversity(column=given["attribute"], c=given["c"], l=int(given["l"]))
        case "t-closeness-hierarchical":
            tree = {"file": str(folder / given["hierarchy"]), "delimiter": ";"}
            return TCloseness(column=given["attribute"], t=given["t"], distance="hierarchical", hierarchy=tree)
        case "profitability-journalist":
            return JournalistProfitability(**amounts)
        case "profitability-journalist-no-attack":
            return JournalistProfitability(**amounts, no_attack=True)
    return model_of(given)


def compared_rows(file: dict[str, Any], section: str) -> list[dict[str, Any]]:
    """Rows of which some model compares a sample with the whole table."""
    return [
        row
        for row in file[section]
        if "not_comparable" not in row and any("sample" in model for model in row["models"])
    ]


def stage_of(row: dict[str, Any]) -> Generalize:
    metric = row["metric"]
    name = {"entropy-based-information-loss": "entropy_based"}.get(metric["name"], metric["name"].replace("-", "_"))
    chosen: dict[str, Any] = {"name": name}
    if "gs_factor" in metric:
        chosen["gs_factor"] = metric["gs_factor"]
    if "aggregate" in metric and name not in ("height",):
        chosen["aggregate"] = {"maximum": "max"}.get(metric["aggregate"], metric["aggregate"])
    if name == "publisher_payout":
        chosen.update({amount: float(figure) for amount, figure in row["cost_benefit"].items()})
    return Generalize(loss=LossSpec(**chosen), suppress_at_most=float(row["suppression_limit"]))


@pytest.fixture(scope="module")
def tables(shared: Path, embedded: Engine) -> dict[str, Any]:
    """The sample, and everyone."""
    folder = shared / "data" / "adult"
    return {
        name: embedded.scan(
            Source(data=str(folder / f"{name}.csv"), format="csv", delimiter=";", types={"age": "integer"})
        )
        for name in ("adult_subset", "adult")
    }


def context_of(row: dict[str, Any], tables: dict[str, Any], embedded: Engine, shared: Path) -> StageContext:
    folder = shared / "data" / "adult"
    models = tuple(guarantee_of(model, row, folder) for model in row["models"])
    sensitive = tuple({column: None for model in models for column in model.sensitive_columns()})
    specs = {name: {"file": str(folder / f"adult_hierarchy_{name}.csv")} for name in row["qis"]}
    facts = embedded.facts(tables["adult_subset"], FactsRequest(histograms=sensitive))
    return StageContext(
        roles=Roles(quasi_identifiers=row["qis"], sensitive=sensitive),
        schema=tables["adult_subset"].schema,
        types={"age": "integer"},
        hierarchies={name: HierarchySpec.from_mapping(spec, ".", column=name) for name, spec in specs.items()},
        guarantees=models,
        base=prepared(facts, models),
        population=tables["adult"],
    )


def figures(loss: Any) -> list[float]:
    return list(loss) if isinstance(loss, list | tuple) else [loss]


def test_given_transformations_next_to_the_population(tables: dict[str, Any], embedded: Engine, shared: Path) -> None:
    """Suppressed records of the sample exactly, losses to 1e-8, and what is within the limit by definition."""
    file = json.loads((shared / "reference" / "arx.json").read_text())
    encoded_for: dict[Any, Any] = {}
    checked = by_definition = 0
    for section in SECTIONS:
        for row in compared_rows(file, section):
            context, stage = context_of(row, tables, embedded, shared), stage_of(row)
            key = json.dumps([row["qis"], row["models"], row.get("cost_benefit")])
            if key not in encoded_for:
                encoded_for[key] = encode(embedded, tables["adult_subset"], stage, context)
            encoded = encoded_for[key]
            check = NodeCheck(encoded, context, searched_quality(encoded, stage, context))
            for node in row.get("nodes") or [row["expected"] | row.get("by_definition", {})]:
                found = check(tuple(node["transformation"]))
                where = row["id"], node["transformation"]
                gone = int(encoded.rows.counts[found.rows].sum())
                root = all(level == tree.height for level, tree in zip(found.levels, encoded.hierarchies, strict=True))
                if not root:  # a class of nothing but roots is flagged as suppressed by ARX, and loses as if kept
                    assert gone == node["suppressed_in_sample"], where
                # ARX cuts each column's figure to ten decimals.
                loss, _ = check.loss.exact(found.levels, found.rows)
                assert figures(loss) == pytest.approx(figures(node["loss"]), rel=1e-8, abs=2e-10), where
                truth = node.get("within_limit_by_definition", node.get("within_limit", True))
                hopeless = found.suppressed < 0 and gone < encoded.records
                within = not hopeless and gone <= floor_share(row["suppression_limit"], encoded.records)
                assert within == truth, where
                by_definition += "within_limit_by_definition" in node or "by_definition" in row
                checked += 1
    assert checked >= 150
    assert by_definition >= 5


def test_optima_next_to_the_population(tables: dict[str, Any], embedded: Engine, shared: Path) -> None:
    """The least loss that ARX found; where it accepted a node that violates delta-presence, ours is no such node."""
    file = json.loads((shared / "reference" / "arx.json").read_text())
    checked = 0
    for row in compared_rows(file, "optimum_from_arx_tests"):
        if row["id"] not in SEARCHED:
            continue
        context, stage = context_of(row, tables, embedded, shared), stage_of(row)
        found = plan(embedded, tables["adult_subset"], stage, context).detail
        expected = row["expected"]
        assert found["optimal"], row["id"]
        if "peer_error" in row:
            assert figures(found["loss"]) > figures(expected["loss"]), row["id"]
            assert list(found["levels"].values()) != expected["transformation"], row["id"]
            continue
        assert figures(found["loss"]) == pytest.approx(figures(expected["loss"]), rel=1e-8, abs=2e-10), row["id"]
        checked += 1
    assert checked == 3
