"""Two policies over one source share no draw: nothing that a stage masks joins their releases, unless it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.blocks.verdict import plain
from privpipe.engines import Engine
from privpipe.running.stage_run import DrawRoot
from privpipe.testing import people
from privpipe.testing.stages import keys_of
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import Transformer
from tests.tiers import deep, deep_beyond

N = 400
ABOVE_CHANCE = 0.05
MASKING: dict[str, Transformer] = {
    f"{name}-{at}": example  # type: ignore[misc]
    for name in CATALOGUE
    for at, example in enumerate(CATALOGUE[name].examples())
    if example.masked_columns() and CATALOGUE[name].taxon != "identifiers"  # type: ignore[attr-defined]
}
ONE_EACH = [name for name in MASKING if name.endswith("-0")]


def source(stage: Transformer) -> pd.DataFrame:
    """People of whom two policies release different quasi-identifiers; `tag` shows the test which row is whose."""
    example = getattr(type(stage), "example_table", None)
    found = (example()["rows"] if example else people(N).rows).to_pandas()
    rng = np.random.default_rng(3)
    found["tag"] = rng.permutation(len(found))
    found["first"], found["second"] = rng.integers(0, 4, (2, len(found)))
    return found


def named(value: Any) -> set[str]:
    """Every text in the parameters of a stage."""
    if isinstance(value, dict):
        return set().union(*map(named, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(named, value))
    return {value} if isinstance(value, str) else set()


def released(stage: Transformer, rows: pd.DataFrame, key: str, engine: Engine) -> pd.DataFrame:
    """What a policy with one quasi-identifier releases, its first stage being this one."""
    shown = {"tag", *(named(plain(stage.parameters())) & {*rows.columns})}
    columns: dict[str, Any] = {name: {"role": "insensitive" if name in shown else "drop"} for name in rows.columns}
    columns[key] = {"role": "quasi_identifier"}
    document = {
        "columns": columns,
        "transform": [{stage.name(): plain(stage.parameters())}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
    }
    with keys_of(stage):
        found: pd.DataFrame = pp.Policy.from_dict(document).apply(rows, engine=engine)
    return found


def joined(a: pd.DataFrame, b: pd.DataFrame, columns: list[str]) -> float:
    """Share of the records that these columns join to themselves, one to one."""
    one, other = (each[~each.duplicated(columns, keep=False)].dropna(subset=columns) for each in (a, b))
    both = one.merge(other, on=columns, suffixes=("", "_other"))
    return float((both["tag"] == both["tag_other"]).sum() / max(len(a), 1))


def joins(stage: Transformer, engine: Engine) -> dict[str, float]:
    """The columns, and the masked columns together, that join two releases above chance."""
    rows = source(stage)
    a, b = (released(stage, rows, key, engine) for key in ("first", "second"))
    masked = list(stage.masked_columns())
    shares = {" + ".join(names): joined(a, b, names) for names in (*([name] for name in masked), masked)}
    return {names: share for names, share in shares.items() if share > ABOVE_CHANCE}


@pytest.mark.parametrize("name", [name if name in ONE_EACH else deep(name) for name in MASKING])
def test_nothing_joins_two_policies_but_what_says_so(embedded: Engine, name: str) -> None:
    found = joins(MASKING[name], embedded)
    assert not found or MASKING[name].links_releases, found


@pytest.mark.dask
@pytest.mark.parametrize("name", deep_beyond(3, ONE_EACH))
def test_nor_on_dask(dask_engine: Engine, name: str) -> None:
    assert not joins(MASKING[name], dask_engine) or MASKING[name].links_releases


@pytest.mark.spark
@pytest.mark.parametrize("name", ["add_noise-0", "rank_swap-0", "shuffle-0"])
def test_nor_on_spark(spark_engine: Engine, name: str) -> None:
    assert joins(MASKING[name], spark_engine) == {}


def test_every_masking_stage_was_tried() -> None:
    tried = {MASKING[name].name() for name in MASKING}
    spared = {"pseudonymise"}  # its columns are there to join
    masking = {name for name in CATALOGUE if any(each.masked_columns() for each in CATALOGUE[name].examples())}
    assert tried == masking - spared
    assert len(MASKING) >= 39


def test_a_stage_that_draws_by_the_seed_alone_is_caught(embedded: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: keys of stages that know neither the policy nor the source."""
    monkeypatch.setattr(DrawRoot, "of", classmethod(lambda cls, context, drawn, plan: cls(context.seed)))
    caught = [name for name in ("add_noise-0", "rank_swap-0", "shuffle-0") if joins(MASKING[name], embedded)]
    assert caught == ["add_noise-0", "rank_swap-0", "shuffle-0"]
