"""Entries as checks: one frame, any kind of it, and the figures that a policy gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import DataError, Refused, RolesError, UsageError
from privpipe.models import (
    CATALOGUE,
    DistinctLDiversity,
    KAnonymity,
    KMap,
    SampleUniqueness,
    TCloseness,
)

KEYS = ["age", "zip"]


def people(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 5, rows),
            "zip": rng.choice(["081", "082"], rows),
            "illness": rng.choice(["flu", "cold", "cough"], rows),
        }
    )


def kinds() -> list[Any]:
    duckdb = pytest.importorskip("duckdb")
    frame = people()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return [frame, pl.from_pandas(frame), table, table.to_reader(), duckdb.from_arrow(table)]


@pytest.mark.parametrize("at", range(5), ids=["pandas", "polars", "arrow", "reader", "relation"])
def test_the_figures_are_those_of_the_definition_on_every_kind_of_frame(at: int) -> None:
    frame, rows = kinds()[at], people()
    sizes = Counter(rows[KEYS].itertuples(index=False, name=None))
    values = rows.groupby(KEYS)["illness"].nunique()
    entries = [KAnonymity(k=2), DistinctLDiversity(column="illness", l=2), SampleUniqueness()]
    found = pp.assess(frame, entries, quasi_identifiers=KEYS)
    assert [verdict.observed for verdict in found.verdicts] == [min(sizes.values()), values.min()]
    unique = sum(size == 1 for size in sizes.values()) / len(rows)
    assert found.measures[0].observed == pytest.approx(unique)


def test_a_check_gives_what_the_policy_gives() -> None:
    frame = people()
    document = {
        "columns": {
            **{name: {"role": "quasi_identifier"} for name in KEYS},
            "illness": {"role": "sensitive"},
        },
        "guarantees": [{"k_anonymity": {"k": 5}}, {"t_closeness": {"column": "illness", "t": 0.2}}],
    }
    wanted = pp.assess(frame, document)
    entries = [KAnonymity(k=5), TCloseness(column="illness", t=0.2)]
    found = pp.assess(frame, entries, quasi_identifiers=KEYS)
    assert found.verdicts == wanted.verdicts
    assert tuple(entry.assess(frame, quasi_identifiers=KEYS) for entry in entries) == wanted.verdicts


def judged_classes() -> list[Any]:
    """Every example of a model of classes with a threshold that needs nothing next to the frame."""
    return [
        example
        for name in CATALOGUE.built_in
        for example in CATALOGUE[name].examples()
        if example.way.classes_alone and not example.needs_population and example.is_gate()
    ]


@pytest.mark.parametrize("entry", judged_classes(), ids=repr)
def test_every_model_of_classes_is_a_check(entry: Any) -> None:
    rng = np.random.default_rng(5)
    texts = rng.choice(["flu", "cold", "gout"], 90)
    values = {"income": rng.integers(1, 5, 90)}
    columns = {name: rng.choice(["1", "2"], 90) for name in ("zip", "age")}
    sensitive = entry.sensitive_columns() or ("illness",)
    frame = pd.DataFrame({**columns, **{name: values.get(name, texts) for name in sensitive}})
    document = {
        "columns": {
            **{name: {"role": "quasi_identifier"} for name in ("zip", "age")},
            **{name: {"role": "sensitive"} for name in sensitive},
        },
        "guarantees": [*({"distinct_l_diversity": {"column": n, "l": 1}} for n in sensitive), _written(entry)],
    }
    assert (
        entry.assess(frame, quasi_identifiers=["zip", "age"], sensitive=sensitive)
        == pp.assess(frame, document).verdicts[-1]
    )


def _written(entry: Any) -> dict[str, Any]:
    return {entry.name(): entry.parameters()}


def test_a_check_raises_with_the_assessment_and_shows_no_value() -> None:
    with pytest.raises(Refused) as caught:
        pp.check(people(), [KAnonymity(k=100), KAnonymity(k=1)], quasi_identifiers=KEYS)
    assert "published" not in str(caught.value)
    assert "081" not in str(caught.value)
    assert [verdict.passed for verdict in caught.value.assessment.verdicts] == [False, True]
    assert pp.check(people(), KAnonymity(k=1), quasi_identifiers=KEYS).passed


def test_an_identifier_among_the_columns_fails_a_check() -> None:
    frame = people().assign(name=[f"p{at}" for at in range(120)])
    roles = pp.Roles(identifiers=["name"], quasi_identifiers=KEYS, sensitive=["illness"])
    with pytest.raises(Refused, match="identifier"):
        pp.check(frame, KAnonymity(k=1), roles=roles)


def test_a_population_is_another_frame() -> None:
    frame, everybody = people().head(20), people()
    entry = KMap(k=2)
    sizes = everybody.value_counts(KEYS)
    wanted = min(sizes[tuple(key)] for key in frame[KEYS].drop_duplicates().itertuples(index=False, name=None))
    assert entry.assess(frame, quasi_identifiers=KEYS, population=everybody).observed == wanted


def test_the_original_is_another_frame() -> None:
    frame = people().assign(id=range(120), income=np.arange(120.0))
    noisy = frame.assign(income=frame["income"] + 1)
    entry = pp.measures.RecordLinkage(columns=["income"])
    found = entry.assess(noisy, original=frame, record_id="id", quasi_identifiers=["income"])
    assert found.outcome != "error", found.reason
    assert found.observed is not None


def test_names_that_mean_something_elsewhere_are_columns() -> None:
    odd = {"age": 'a "quoted" count', "zip": "größe"}
    frame = people().rename(columns=odd)
    found = KAnonymity(k=1).assess(frame, quasi_identifiers=list(odd.values()))
    assert found.observed == KAnonymity(k=1).assess(people(), quasi_identifiers=KEYS).observed


@pytest.mark.parametrize(
    ("entries", "options", "kind", "said"),
    [
        (KAnonymity(k=2), {}, UsageError, "every table would pass: give quasi_identifiers"),
        (KAnonymity(k=2), {"quasi_identifiers": ["aeg"]}, DataError, "'aeg' is not in the frame; did you mean 'age'"),
        (KAnonymity(k=2), {"quasi": KEYS}, UsageError, "unknown option 'quasi'"),
        (KAnonymity(k=2), {"quasi_identifiers": KEYS, "nulls": "keep"}, UsageError, "nulls must be one of"),
        (KAnonymity(k=2), {"quasi_identifiers": KEYS, "roles": pp.Roles()}, UsageError, "not both"),
        (KAnonymity(k=2), {"quasi_identifiers": "age"}, RolesError, "must be a list"),
        (KAnonymity(k=2), {"quasi_identifiers": KEYS, "sensitive": ["age"]}, RolesError, "a column has one role"),
        (KMap(k=2), {"quasi_identifiers": KEYS}, UsageError, "needs population="),
        (DistinctLDiversity(column="age", l=2), {"quasi_identifiers": KEYS}, UsageError, "'age' is given as"),
        ([], {"quasi_identifiers": KEYS}, UsageError, "give a policy, a model or measure"),
        (["k"], {"quasi_identifiers": KEYS}, UsageError, "unknown privacy model, .* 'k'"),
        ({"columns": {}}, {"quasi_identifiers": KEYS}, UsageError, "the policy states it itself"),
    ],
)
def test_a_wrong_call_is_reported(entries: Any, options: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        pp.assess(people(), entries, **options)


def test_a_check_that_cannot_fail_is_none() -> None:
    with pytest.raises(UsageError, match="could not fail"):
        pp.check(people(), KAnonymity(), quasi_identifiers=KEYS)


def test_a_path_is_a_frame_too(tmp_path: Path) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    assert pp.check(tmp_path / "people.parquet", KAnonymity(k=1), quasi_identifiers=KEYS).records == 120


@pytest.mark.dask
def test_a_dask_frame_gives_the_same_figures() -> None:
    dd = pytest.importorskip("dask.dataframe")
    lazy = dd.from_pandas(people(), npartitions=3)
    entries = [KAnonymity(k=2), TCloseness(column="illness", t=0.2)]
    wanted = pp.assess(people(), entries, quasi_identifiers=KEYS)
    assert pp.assess(lazy, entries, quasi_identifiers=KEYS).verdicts == wanted.verdicts


@pytest.mark.spark
def test_a_spark_frame_gives_the_same_figures(spark_engine: Any) -> None:
    lazy = spark_engine.session.createDataFrame(people())
    entries = [KAnonymity(k=2), TCloseness(column="illness", t=0.2)]
    wanted = pp.assess(people(), entries, quasi_identifiers=KEYS)
    assert pp.assess(lazy, entries, quasi_identifiers=KEYS).verdicts == wanted.verdicts
    assert pp.k_anonymity(lazy, KEYS) == wanted.verdicts[0].observed
