"""Column labels of pandas that are not text: refused on every face, with how to rename them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe import measures, models, transforms
from privpipe.errors import DataError, PrivpipeError, RolesError, UsageError
from privpipe.policy import Policy
from tests.gathering import gathered

SEED = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
TEXT = pd.DataFrame({"0": [1, 1], "1": [2, 2]})
LABELS: dict[str, list[Any]] = {
    "numbers": [0, 1],
    "tuples": [("a", "x"), ("a", "y")],
    "text and number": ["0", 1],
    "text and a missing label": ["0", np.nan],
    "days": [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")],
    "truth values": [True, False],
    "none": ["0", None],
    "bytes": [b"a", b"b"],
    "dates": ["0", datetime.date(2020, 1, 1)],
}
TO_DO = r"column names must be text and one is \w+; rename the columns, as in frame"
OVER_NAMES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "k_anonymity": lambda frame, names: pp.k_anonymity(frame, names),
    "observe": lambda frame, names: pp.observe.average_risk(frame, names),
    "assess": lambda frame, names: pp.assess(frame, models.KAnonymity(k=2), quasi_identifiers=names),
    "assess, sensitive": lambda frame, names: pp.assess(frame, models.KAnonymity(k=2), sensitive=names),
    "check": lambda frame, names: pp.check(frame, models.KAnonymity(k=2), quasi_identifiers=names),
    "entry over classes": lambda frame, names: models.KAnonymity(k=2, quasi_identifiers=names),
    "entry over a column": lambda frame, names: models.DistinctLDiversity(column=names[1], l=2),
    "entry over columns": lambda frame, names: measures.Distinction(columns=names),
    "hierarchies": lambda frame, names: pp.assess(
        TEXT, models.KAnonymity(k=2), quasi_identifiers=["0"], hierarchies={names[1]: {"redact": {"keep": "left"}}}
    ),
    "stage": lambda frame, names: transforms.RankSwap(columns=names, p=0.5).apply(frame, seed=SEED),
    "stage by strata": lambda frame, names: transforms.RankSwap(columns=["0"], by=names, p=0.5),
    "levels": lambda frame, names: transforms.Generalize(levels={names[1]: 1}),
    "policy": lambda frame, names: Policy(roles=pp.Roles(quasi_identifiers=names), guarantees=[]),
}
OVER_FRAMES: dict[str, Callable[[Any], Any]] = {
    "assess": lambda frame: pp.assess(frame, models.KAnonymity(k=2), quasi_identifiers=["0"]),
    "synthesize": lambda frame: transforms.Synthesize().apply(frame, seed=SEED),
    "fitted": lambda frame: transforms.Round(columns=["0"], base=1).fit(TEXT, seed=SEED).transform(frame),
    "policy, apply": lambda frame: _policy().apply(frame),
    "original": lambda frame: pp.assess(
        TEXT, measures.RecordLinkage(), original=frame, align="position", quasi_identifiers=["0"], seed=SEED
    ),
    "population": lambda frame: pp.assess(TEXT, models.KMap(k=1), population=frame, quasi_identifiers=["0"]),
}


def _policy() -> Policy:
    return Policy(
        roles=pp.Roles(quasi_identifiers=["0"], insensitive=["1"]), guarantees=[models.KAnonymity(k=2)], seed=SEED
    )


def _frame(labels: list[Any]) -> pd.DataFrame:
    frame = TEXT.copy()
    frame.columns = pd.Index(labels, tupleize_cols=False)
    return frame


@pytest.mark.parametrize("face", OVER_NAMES)
def test_names_that_are_no_text_are_refused_with_what_to_do(face: str) -> None:
    with gathered() as case:
        for kind, labels in LABELS.items():
            with case(kind):
                # In parameters that take lists of lists a tuple is one of these.
                said = (
                    r"column names must be text and one is \w+; rename the columns, as in frame|must be a .*column name"
                )
                with pytest.raises(UsageError, match=said):
                    OVER_NAMES[face](_frame(labels), labels)


@pytest.mark.parametrize("face", OVER_FRAMES)
def test_frames_with_such_labels_are_refused_with_what_to_do(face: str) -> None:
    with gathered() as case:
        for kind, labels in LABELS.items():
            with (
                case(kind),
                pytest.raises(
                    DataError, match=r"column names must be text and one is \w+; rename the columns, as in frame"
                ),
            ):
                OVER_FRAMES[face](_frame(labels))


def test_several_levels_of_labels_are_refused() -> None:
    frame = TEXT.set_axis(pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]), axis=1)
    with pytest.raises(DataError, match="one is tuple"):
        pp.k_anonymity(frame, ["a"])


@pytest.mark.dask
def test_dask_frames_are_refused_alike() -> None:
    import dask.dataframe as dd

    frame = dd.from_pandas(_frame([0, 1]), npartitions=1)
    with pytest.raises(DataError, match="column names must be text and one is int"):
        pp.k_anonymity(frame, ["0"])
    with pytest.raises(DataError, match="column names must be text and one is int"):
        transforms.Synthesize().apply(frame, seed=SEED)


@pytest.mark.parametrize("labels", [[0, 1], ["0", 1]])
def test_scikit_learn_gets_the_same_error(labels: list[Any]) -> None:
    from privpipe import sklearn

    with pytest.raises(DataError, match="column names must be text and one is int"):
        sklearn.Round(base=1).fit_transform(_frame(labels))


def test_the_remedy_works() -> None:
    frame = _frame([0, 1])
    frame.columns = pd.Index([str(name) for name in frame.columns])
    assert pp.k_anonymity(frame, ["0", "1"]) == 2


@pytest.mark.parametrize("names", [5, None, 2.0, "age"])
def test_roles_are_lists_of_names(names: Any) -> None:
    with pytest.raises(RolesError, match="quasi_identifiers must be a list of column names"):
        pp.Roles(quasi_identifiers=names)
    assert pp.Roles(quasi_identifiers=(name for name in ["a", "b"])).quasi_identifiers == ("a", "b")


@pytest.mark.parametrize("key", ["record_id", "person_id", "household_id"])
def test_keys_by_label_are_refused(key: str) -> None:
    with pytest.raises(PrivpipeError):
        pp.assess(_frame([0, 1]), models.KAnonymity(k=2), quasi_identifiers=["0"], **{key: 0})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"{key}: column names must be text"):
        pp.assess(TEXT, models.KAnonymity(k=2), quasi_identifiers=["0"], **{key: 1})  # type: ignore[arg-type]
