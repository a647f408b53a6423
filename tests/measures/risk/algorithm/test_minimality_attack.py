"""The minimality attack: worlds are counted as defined; those a search would have published finer fall away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks import FilePair
from privpipe.draws import Draws, Seed
from privpipe.errors import Refused, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.kernels.classes.posterior import class_tables, drawn_tables, ways
from privpipe.measures import MinimalityAttack
from privpipe.models import DistinctLDiversity

TREE = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"]}}, column="town")


@pytest.mark.parametrize(
    ("groups", "values"), [((2, 3), (2, 2, 1)), ((1, 1, 3), (4, 1)), ((4,), (1, 3)), ((3, 2), (5, 0))]
)
def test_tables_are_all_assignments_by_what_they_have_in_common(groups: Sequence[int], values: Sequence[int]) -> None:
    held = [value for value, count in enumerate(values) for _ in range(count)]
    cuts = np.cumsum(groups)[:-1]
    wanted: Counter[Any] = Counter()
    for order in set(permutations(held)):
        parts = np.split(np.array(order), cuts)
        wanted[tuple(tuple(np.bincount(part, minlength=len(values)).tolist()) for part in parts)] += 1
    assert dict(class_tables(groups, values)) == wanted
    assert sum(wanted.values()) == ways(groups, values)
    drawn = drawn_tables(groups, values, 50, np.random.default_rng(1))
    assert set(drawn) <= set(wanted)


def files_of(towns: list[str], illness: list[str], rerun: Any) -> FilePair:
    n = len(towns)
    return FilePair(
        original=pa.record_batch({"town": towns, "illness": illness}),
        released=pa.record_batch({"town": ["Europe"] * n, "illness": illness}),
        ids=np.column_stack([np.arange(n), np.arange(n)]),
        records=n,
        released_records=n,
        hierarchies={"town": TREE},
        models=(DistinctLDiversity(column="illness", l=2),),
        rerun=rerun,
        order=Draws(Seed.insecure("worlds"), -1, "attack").of("order"),
    )


def by_diversity(files: FilePair, column: str, values: Sequence[Any]) -> str:
    """The released towns of a minimal search for 2 distinct values: towns are shown where each has two."""
    towns = files.original.column("town").to_pylist()
    kinds: dict[str, set[Any]] = {}
    for town, value in zip(towns, values, strict=True):
        kinds.setdefault(town, set()).add(value)
    return "Europe" if min(map(len, kinds.values())) < 2 else "towns"


def test_worlds_a_search_would_have_split_fall_away() -> None:
    towns, illness = ["Bonn"] * 3 + ["Graz"] * 10, ["HIV"] * 3 + ["flu"] * 10
    files = files_of(towns, illness, by_diversity)
    verdict = MinimalityAttack(column="illness", at_most=0.5).judge_files(files)
    # Of 286 worlds those with Bonn of one kind remain: 1 of three HIV, 120 of none (Graz always has flu).
    assert "121 worlds are consistent, fewer than 200" in verdict.reason
    assert verdict.outcome == "error"
    more = files_of(["Bonn"] * 3 + ["Graz"] * 12, ["HIV"] * 3 + ["flu"] * 12, by_diversity)
    verdict = MinimalityAttack(column="illness", at_most=0.5).judge_files(more)
    assert verdict.observed["worlds"] == 221  # 220 leave Bonn all flu, one gives it all HIV
    assert verdict.observed["certainty"] == pytest.approx(220 / 221)
    assert (verdict.outcome, verdict.observed["unsplit"]) == ("fail", 1.0)
    assert verdict.observed["runs"] == 4
    careless = files_of(["Bonn"] * 3 + ["Graz"] * 12, ["HIV"] * 3 + ["flu"] * 12, lambda *given: "Europe")
    verdict = MinimalityAttack(column="illness", at_most=0.85).judge_files(careless)
    assert verdict.observed["certainty"] == pytest.approx(12 / 15)  # what the class says by itself
    assert (verdict.outcome, verdict.observed["worlds"]) == ("pass", 455)
    drawn = MinimalityAttack(column="illness", at_most=0.9, worlds=400).judge_files(careless)
    assert drawn.observed["worlds"] == 400
    assert drawn.observed["certainty"] == pytest.approx(0.8, abs=0.06)
    assert drawn == MinimalityAttack(column="illness", at_most=0.9, worlds=400).judge_files(careless)


@pytest.mark.parametrize(("least", "outcome"), [(221, "fail"), (222, "error")])
def test_as_many_worlds_as_are_asked_for_are_enough(monkeypatch: pytest.MonkeyPatch, least: int, outcome: str) -> None:
    monkeypatch.setattr("privpipe.measures.risk.algorithm.minimality_attack.LEAST", least)
    files = files_of(["Bonn"] * 3 + ["Graz"] * 12, ["HIV"] * 3 + ["flu"] * 12, by_diversity)
    assert MinimalityAttack(column="illness", at_most=0.5).judge_files(files).outcome == outcome


def test_what_no_one_can_run_again_is_not_judged() -> None:
    files = replace(files_of(["Bonn", "Graz"], ["HIV", "flu"], None), models=())
    verdict = MinimalityAttack(column="illness", at_most=1.0).judge_files(files)
    assert (verdict.outcome, verdict.observed) == ("error", {"certainty": None, "unsplit": 0.0})
    for wrong in ({"worlds": 10}, {"at_most": 2}, {"column": ""}):
        with pytest.raises(UsageError):
            MinimalityAttack(**{"column": "illness", **wrong})


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_minimal_search_is_refused(tmp_path: Path) -> None:
    towns, illness = ["Bonn"] * 3 + ["Graz"] * 12, ["HIV"] * 3 + ["flu"] * 12
    table = pa.table({"name": [f"p{at}" for at in range(15)], "town": towns, "illness": illness})
    pq.write_table(table, tmp_path / "people.parquet")
    policy: dict[str, Any] = {
        "source": {"path": str(tmp_path / "people.parquet"), "format": "parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "town": {"role": "quasi_identifier", "hierarchy": {"tree": {"Europe": ["Bonn", "Graz"]}}},
            "illness": {"role": "sensitive"},
        },
        "record_id": "name",
        "transform": [{"generalize": {"search": "optimal"}}],
        "guarantees": [
            {"k_anonymity": {"k": 3}},
            {"distinct_l_diversity": {"column": "illness", "l": 2}},
            {"minimality_attack": {"column": "illness", "at_most": 0.9}},
        ],
        "sink": {"path": str(tmp_path / "published"), "format": "parquet"},
        "seed": {"insecure": "a test's seed"},
        "allow_insecure_seed": True,
    }
    with pytest.raises(Refused) as refused:
        pp.release(policy)
    anonymity, diversity, attack = refused.value.assessment.verdicts
    assert anonymity.passed
    assert diversity.passed
    assert attack.observed["certainty"] == pytest.approx(220 / 221)
    assert attack.outcome == "fail"
    policy["transform"] = [{"generalize": {"levels": {"town": 1}}}]  # decided before anyone looked at the data
    policy["guarantees"][2]["minimality_attack"]["at_most"] = 0.8
    assert pp.release(policy).assessment.verdicts[2].observed["certainty"] == pytest.approx(0.8)
