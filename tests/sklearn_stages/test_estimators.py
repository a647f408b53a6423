"""Stages as estimators: in pipelines, on frames and arrays, with the rows that the stage itself gives."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import privpipe as pp
import privpipe.sklearn as stages
from privpipe.errors import DataError, UsageError
from privpipe.transforms import CATALOGUE

SEED = pp.Seed(bytes(range(32)))


def table(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {"age": rng.integers(18, 90, rows), "income": rng.normal(50, 9, rows)}, index=range(7, rows + 7)
    )


@pytest.mark.parametrize("name", CATALOGUE.built_in)
def test_every_transformer_has_its_class_with_the_same_parameters(name: str) -> None:
    kind = CATALOGUE[name]
    made = getattr(stages, kind.__name__)
    assert made.__name__ in dir(stages)
    taken = inspect.signature(made.__init__).parameters
    assert set(kind.descriptions()) <= set(taken)
    assert {"roles", "hierarchies", "guarantees", "seed"} <= set(taken)
    assert clone(made()).get_params() == made().get_params()


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas])
def test_the_rows_are_those_of_the_stage(kind: Any) -> None:
    frame = kind(table())
    made = stages.RankSwap(columns=["income"], p=0.2, seed=SEED)
    out = made.fit_transform(frame)
    wanted = pp.transforms.RankSwap(columns=["income"], p=0.2).apply(frame, seed=SEED)
    assert type(out) is type(frame)
    assert out.equals(wanted)
    assert made.transform(frame).equals(wanted)
    assert list(made.get_feature_names_out()) == ["age", "income"]


def test_an_array_gives_an_array() -> None:
    array = table().to_numpy()
    out = stages.TopCode(columns=["x0"], at=60).fit_transform(array)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, np.column_stack([array[:, 0].clip(max=60), array[:, 1]]))


def test_new_rows_follow_the_plan_or_are_refused() -> None:
    frame, other = table(), table(200).tail(50)
    cut = stages.TopCode(columns=["age"], quantile=0.5).fit(frame)
    assert cut.transform(other)["age"].max() <= cut.transform(frame)["age"].max()
    with pytest.raises(DataError, match="records it was learnt from"):
        stages.RankSwap(columns=["income"], p=0.2).fit(frame).transform(other)


def test_labels_stay_next_to_their_rows_in_a_pipeline() -> None:
    frame = table(400)
    labels = (frame["income"] > 50).to_numpy()
    model = make_pipeline(
        stages.AddNoise(columns=["income"], variance_ratio=0.01, seed=SEED), StandardScaler(), LogisticRegression()
    )
    assert model.fit(frame, labels).score(frame, labels) > 0.9


def test_it_is_in_a_column_transformer_and_a_search() -> None:
    frame = table()
    both = ColumnTransformer([("top", stages.TopCode(at=60), ["age"]), ("round", stages.Round(base=5.0), ["income"])])
    out = both.set_output(transform="pandas").fit_transform(frame)
    assert list(out) == ["top__age", "round__income"]
    assert list(out.index) == list(frame.index)
    labels = frame["age"] > 50
    pipe = make_pipeline(stages.TopCode(columns=["age"]), LogisticRegression())
    found = GridSearchCV(pipe, {"topcode__at": [60, 80]}, cv=2).fit(frame, labels)
    assert found.best_params_["topcode__at"] in (60, 80)


def test_rows_that_would_go_are_not_lost_next_to_labels() -> None:
    frame = table()
    with pytest.raises(UsageError, match="leave y next to other rows"):
        stages.Sample(fraction=0.5, seed=SEED).fit_transform(frame, np.ones(len(frame)))
    assert len(stages.Sample(fraction=0.5, seed=SEED).fit_transform(frame)) < len(frame)


def test_a_seed_is_neither_printed_nor_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stages.RankSwap(columns=["income"], p=0.2, seed=SEED)
    shown = [repr(made), made._repr_html_(), repr(make_pipeline(made, StandardScaler()))]
    assert not any(SEED.secret.hex() in text or str(SEED.secret) in text for text in shown)
    for each in (made, copy.copy(made).fit(table())):
        with pytest.raises(UsageError, match="not pickled"):
            pickle.dumps(each)
    with pytest.raises(UsageError, match=r"privpipe\.Seed\.of"):
        stages.RankSwap(columns=["income"], p=0.2, seed="8f1c2b7a93e04d56b7a1c9d2e3f40516").fit(table())
    monkeypatch.setenv("PRIVPIPE_TEST_SKLEARN", "8f1c2b7a93e04d56b7a1c9d2e3f40516")
    placed = stages.RankSwap(columns=["income"], p=0.2, seed={"from_env": "PRIVPIPE_TEST_SKLEARN"}).fit(table())
    text = pickle.dumps(placed)
    assert b"8f1c2b7a93e04d56" not in text
    pd.testing.assert_frame_equal(pickle.loads(text).transform(table()), placed.transform(table()))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (stages.TopCode(columns=["aeg"], at=1), "'aeg'"),
        (stages.Microaggregate(columns=["income"]), "'k' must be given"),
        (stages.RankSwap(columns="income", p=0.1), "columns must be a list"),
    ],
)
def test_what_is_wrong_is_reported_when_it_is_fitted(made: Any, said: str) -> None:
    with pytest.raises((UsageError, DataError), match=said):
        made.fit(table())


def test_it_loads_scikit_learn_and_no_cluster() -> None:
    code = (
        "import sys, privpipe.sklearn as s; s.TopCode(at=1)\n"
        "print({'pyspark', 'dask', 'great_expectations'} & {n.partition('.')[0] for n in sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.strip() == "set()"
