"""Optima and losses of ARX 3.9.2 on Adult, under every quality model and every privacy model it reports on.

Source: reference/arx.json. Where several vectors tie on loss any of them is right, so losses are compared first;
figures of the peer that depart from the definition are replaced by those that follow it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from privpipe.blocks import Facts, FactsRequest, Guarantee, prepared
from privpipe.engines import Engine, Source
from privpipe.hierarchies import HierarchySpec
from privpipe.models import (
    AverageRisk,
    BasicBetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    DistinctLDiversity,
    EnhancedBetaLikeness,
    EntropyLDiversity,
    EstimatedKMap,
    JournalistProfitability,
    KAnonymity,
    KMap,
    PopulationUniqueness,
    RecursiveCLDiversity,
    SampleUniqueness,
    StrictAverageRisk,
    TCloseness,
)
from privpipe.roles import Roles
from privpipe.tolerance import floor_share
from privpipe.transforms import Generalize
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.encoded_table import EncodedTable, encode, searched_quality
from privpipe.transforms.recoding.generalize_stage import MOST_NODES
from privpipe.transforms.recoding.labelling import LossSpec
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.optimal_search import search_optimal
from tests.tiers import deep_among

NAMES = {"kl": "kl_divergence", "entropy-based-information-loss": "entropy_based"}
METRICS = [
    "aecs",
    "discernibility",
    "discernibility-monotonic",
    "entropy",
    "entropy-based-information-loss",
    "entropy-monotonic",
    "height",
    "kl",
    "loss",
    "normalized-entropy",
    "precision",
    "precision-monotonic",
    "publisher-payout",
]
SLOW = {
    "gen-k5-s002-kl",
    "gen-b-likeness1-s1",
    "gen-k5+t-hier02-s1",
    "arx-BLikeness-00",
    "arx-BLikeness-05",
    "arx-UtilityLoss-20",
    "arx-UtilityLoss-29",
    "arx-UtilityLoss-30",
    "arx-UtilityLoss-49",
    "arx-UtilityLoss-52",
    "arx-UtilityLoss-59",
    "arx-UtilityLoss-68",
    "arx-UtilityLoss-72",
    "gen-popuniq-pitman-f1-s0",
    "arx-Profitability-05",
    "arx-RiskBased-03",
}
"""Searched by hand only, thousands of nodes each, like others here in kind: only their best vector is checked."""


MODELS: dict[str, Callable[[dict[str, Any], Path], Guarantee]] = {
    "k-anonymity": lambda spec, folder: KAnonymity(k=spec["k"]),
    "k-map-estimated": lambda spec, folder: EstimatedKMap(
        k=spec["k"],
        population_size=spec["population"],
        significance=spec["significance"],
        estimator=spec["estimator"],
    ),
    "population-uniqueness": lambda spec, folder: PopulationUniqueness(
        at_most=spec["threshold"], population_size=spec["population"], estimator=spec["estimator"]
    ),
    "distinct-l-diversity": lambda spec, folder: DistinctLDiversity(column=spec["attribute"], l=int(spec["l"])),
    "entropy-l-diversity": lambda spec, folder: EntropyLDiversity(
        column=spec["attribute"], l=spec["l"], estimator=spec["estimator"]
    ),
    "recursive-cl-diversity": lambda spec, folder: RecursiveCLDiversity(
        column=spec["attribute"], c=spec["c"], l=int(spec["l"])
    ),
    "t-closeness-equal": lambda spec, folder: TCloseness(column=spec["attribute"], t=spec["t"]),
    "t-closeness-ordered": lambda spec, folder: TCloseness(
        column=spec["attribute"], t=spec["t"], distance="ordered", order="text"
    ),
    "t-closeness-hierarchical": lambda spec, folder: TCloseness(
        column=spec["attribute"],
        t=spec["t"],
        distance="hierarchical",
        hierarchy={"file": f"{folder}/{spec['hierarchy']}", "delimiter": ";"},
    ),
    "delta-disclosure": lambda spec, folder: DeltaDisclosure(column=spec["attribute"], delta=spec["delta"]),
    "beta-likeness-basic": lambda spec, folder: BasicBetaLikeness(column=spec["attribute"], beta=spec["beta"]),
    "beta-likeness-enhanced": lambda spec, folder: EnhancedBetaLikeness(column=spec["attribute"], beta=spec["beta"]),
    "average-risk": lambda spec, folder: (
        StrictAverageRisk(at_most=spec["average"], highest=spec["highest"], records_at_risk=spec["records_at_risk"])
        if "highest" in spec
        else AverageRisk(at_most=spec["average"])
    ),
    "sample-uniqueness": lambda spec, folder: SampleUniqueness(at_most=spec["threshold"]),
    "k-map": lambda spec, folder: KMap(k=spec["k"]),
    "delta-presence": lambda spec, folder: DeltaPresence(min=spec["min"], max=spec["max"]),
}


def model_of(spec: dict[str, Any], row: dict[str, Any], folder: Path) -> Guarantee:
    """The model of a reference row."""
    kind = spec["type"]
    if kind.startswith("profitability-journalist"):
        amounts = {name: float(of) for name, of in row.get("cost_benefit", {}).items()}
        no_attack = {"no_attack": True} if kind.endswith("-no-attack") else {}
        return JournalistProfitability(**no_attack, **amounts)
    return MODELS[kind](spec, folder)


def stage_of(row: dict[str, Any]) -> Generalize:
    metric = row["metric"]
    name = NAMES.get(metric["name"], metric["name"].replace("-", "_"))
    given: dict[str, Any] = {"name": name, "gs_factor": metric.get("gs_factor", 0.5)}
    if "aggregate" in metric:
        given["aggregate"] = {"maximum": "max"}.get(metric["aggregate"], metric["aggregate"])
    if row.get("weights"):
        given["weights"] = {of: float(weight) for of, weight in row["weights"].items() if of in row["qis"]}
    if name == "kl_divergence":
        given["compat"] = "arx"
    if name == "publisher_payout":
        given |= {of: float(amount) for of, amount in row["cost_benefit"].items()}
    return Generalize(loss=LossSpec(**given), suppress_at_most=float(row["suppression_limit"]))


class Tables:
    """Adult and its sample, scanned once, and encoded once for each set of columns."""

    def __init__(self, engine: Engine, shared: Path) -> None:
        self.engine = engine
        self.folder = shared / "data" / "adult"
        self._scanned: dict[str, Any] = {}
        self._facts: dict[tuple[str, ...], Facts] = {}
        self._encoded: dict[tuple[Any, ...], EncodedTable] = {}

    def scanned(self, name: str) -> Any:
        if name not in self._scanned:
            source = Source(data=str(self.folder / name), format="csv", delimiter=";", types={"age": "integer"})
            self._scanned[name] = self.engine.scan(source)
        return self._scanned[name]

    def problem(self, row: dict[str, Any]) -> tuple[Any, StageContext]:
        """The table a row is about, and its context."""
        models = tuple(model_of(model, row, self.folder) for model in row["models"])
        samples = [model["sample"] for model in row["models"] if "sample" in model]
        name = samples[0] if samples else "adult.csv"
        table = self.scanned(name)
        sensitive = tuple({column: None for model in models for column in model.sensitive_columns()})
        if (name, *sensitive) not in self._facts:
            self._facts[(name, *sensitive)] = self.engine.facts(table, FactsRequest(histograms=sensitive))
        files = {of: {"file": str(self.folder / f"adult_hierarchy_{of}.csv")} for of in row["qis"]}
        return table, StageContext(
            roles=Roles(quasi_identifiers=row["qis"], sensitive=sensitive),
            schema=table.schema,
            types={"age": "integer"},
            hierarchies={of: HierarchySpec.from_mapping(file, ".", column=of) for of, file in files.items()},
            guarantees=models,
            base=prepared(self._facts[(name, *sensitive)], models),
            population=self.scanned("adult.csv") if samples else None,
        )

    def check(self, row: dict[str, Any]) -> tuple[NodeCheck, Generalize]:
        """What judges the nodes of a row."""
        (table, context), stage = self.problem(row), stage_of(row)
        compared = any(model.needs_population for model in context.guarantees)
        kind = (tuple(row["qis"]), context.roles.sensitive, compared, context.population is not None)
        if kind not in self._encoded:
            self._encoded[kind] = encode(self.engine, table, stage, context)
        encoded = self._encoded[kind]
        return NodeCheck(encoded, context, searched_quality(encoded, stage, context)), stage


@pytest.fixture(scope="module")
def tables(shared: Path, embedded: Engine) -> Tables:
    return Tables(embedded, shared)


@pytest.fixture(scope="module")
def reference(shared: Path) -> dict[str, Any]:
    return dict(json.loads((shared / "reference" / "arx.json").read_text()))


def figures(loss: Any) -> list[float]:
    return list(loss) if isinstance(loss, list | tuple) else [loss]


def rows_of(reference: dict[str, Any], *sections: str, metric: str) -> Iterator[dict[str, Any]]:
    for section in sections:
        for row in reference[section]:
            if row["metric"]["name"] == metric and "not_comparable" not in row:
                yield row


@pytest.mark.parametrize("metric", METRICS)
def test_the_losses_of_given_transformations(metric: str, reference: dict[str, Any], tables: Tables) -> None:
    """To 1e-8; the peer cuts each column's loss and entropy to ten decimals."""
    for row in rows_of(reference, "loss_of_given_transformation", metric=metric):
        check, stage = tables.check(row)
        for expected in row["nodes"]:
            node = check(tuple(expected["transformation"]))
            loss, _ = check.loss.exact(node.levels, node.rows)
            assert list(loss) == pytest.approx(figures(expected["loss"]), rel=1e-8, abs=1e-9), (row["id"], node.levels)
            gone = check.table.records if node.suppressed < 0 else node.suppressed
            within = gone <= floor_share(stage.limit or 0.0, check.table.records)
            assert within == expected.get("within_limit_by_definition", expected["within_limit"]), (row["id"], node)


@pytest.mark.parametrize("metric", deep_among(["loss"], METRICS))
def test_the_optima(metric: str, reference: dict[str, Any], tables: Tables) -> None:
    """The peer's vector costs what it says, and no vector costs less."""
    for row in rows_of(reference, "optimum_from_arx_tests", "optimum_generated", metric=metric):
        right, expected = row.get("by_definition", {}), row["expected"] | row.get("by_definition", {})
        check, stage = tables.check(row)
        budget = floor_share(stage.limit or 0.0, check.table.records)
        found = None if row["id"] in SLOW else search_optimal(check, budget, MOST_NODES)[0]
        if not expected["solution"]:
            assert found is None, row["id"]
            continue
        assert row["id"] in SLOW or (found is not None and found.optimal), row["id"]
        if right and "classes" not in right:
            continue  # the peer's vector violates the model
        own = check(tuple(expected["transformation"]))
        loss = list(check.loss.exact(own.levels, own.rows)[0])
        assert 0 <= own.suppressed <= budget, row["id"]
        if check.uninformative(own) == 0:
            assert own.suppressed == expected.get("suppressed_records", own.suppressed), row["id"]
            assert check.kept_classes(own) == expected.get("classes", check.kept_classes(own)), row["id"]
        if not right or "loss" in right:
            assert loss == pytest.approx(figures(expected["loss"]), rel=1e-8, abs=1e-9), row["id"]
        if found is not None and "peer_error" in row:
            assert list(found.loss) <= loss, row["id"]
        elif found is not None:
            assert list(found.loss) == pytest.approx(figures(expected["loss"]), rel=1e-8, abs=1e-9), row["id"]
