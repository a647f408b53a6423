"""Small tables on which pycanon 1.3.6 errs, and what the definitions give; on every engine.

Source: reference/pycanon.json, section `synthetic`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from privpipe.blocks import Guarantee, Verdict
from privpipe.engines import Engine, Source
from privpipe.judging import assess
from privpipe.models import (
    DistinctLDiversity,
    EnhancedBetaLikeness,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privpipe.roles import Roles


def observed(engine: Engine, frame: Any, *models: Guarantee) -> list[Any]:
    roles = Roles(quasi_identifiers=["a"], sensitive=["s"])
    table = engine.scan(Source(data=frame))
    verdicts: tuple[Verdict, ...] = assess(engine, table, guarantees=models, roles=roles).verdicts
    return [verdict.observed for verdict in verdicts]


def test_a_missing_key_is_a_value(engine: Engine) -> None:
    """pandas groupby drops NaN keys: a unique record vanishes and k is said to be 3."""
    frame = pd.DataFrame({"a": [1, 1, 1, None], "s": ["u", "v", "u", "v"]})
    assert observed(engine, frame, KAnonymity(k=3)) == [1]


def test_index_labels_are_not_positions(engine: Engine) -> None:
    """Labels used as positions give l = 2 and t = 1/6."""
    frame = pd.DataFrame({"a": [1, 2, 1, 2, 1, 2], "s": ["u", "v", "u", "v", "u", "w"]}, index=[0, 3, 1, 4, 2, 5])
    found = observed(engine, frame, DistinctLDiversity(column="s", l=2), TCloseness(column="s", t=0.2))
    assert found == [1, pytest.approx(0.5)]


def test_entropy_is_not_cut_to_an_integer(engine: Engine) -> None:
    """Equally frequent values; the peer reports 1, 2, 3, 5, 5, 6, 7, 9."""
    numbers = [2, 3, 4, 5, 6, 7, 8, 10]
    rows = [(values, f"s{value}") for values in numbers for value in range(values)]
    frame = pd.DataFrame(rows, columns=["a", "s"])
    assert observed(engine, frame, EntropyLDiversity(column="s", l=2)) == [pytest.approx(2)]


def test_recursive_counts_descend(engine: Engine) -> None:
    """Counts 6, 3, 1; sorted ascending, the peer says that c = 1 does for l = 3."""
    frame = pd.DataFrame({"a": [0] * 10, "s": ["x"] * 6 + ["y"] * 3 + ["z"]})
    models = [RecursiveCLDiversity(column="s", c=2.0, l=l) for l in (2, 3)]
    assert observed(engine, frame, *models) == [1.5, 6.0]


def test_no_beta_satisfies_the_enhanced_form(engine: Engine) -> None:
    """Gain 4 of a value with cap -ln 0.2; the peer mixes it with the cap of another value and says 1.609."""
    frame = pd.DataFrame({"a": [1, 1] + [2] * 8, "s": ["r", "r"] + ["u"] * 8})
    assert observed(engine, frame, EnhancedBetaLikeness(column="s", beta=5.0)) == [None]
