"""Options that are dataclasses are taken as mappings too, in Python as in a policy."""

from __future__ import annotations

import pytest

from privpipe.errors import UsageError
from privpipe.transforms import Generalize, Microaggregate, RankSwap


def test_a_mapping_is_the_option_that_a_policy_would_build() -> None:
    for entry, given in (
        (Generalize, {"loss": {"name": "loss", "weights": {"age": 2.0}}, "budget": {"nodes": 5}}),
        (Microaggregate, {"columns": ["income"], "k": 3, "sensitive": {"column": "illness", "l": 2}}),
    ):
        assert entry(**given) == entry.build(given)  # type: ignore[attr-defined]


def test_an_unknown_key_and_a_missing_one_are_named() -> None:
    with pytest.raises(UsageError, match=r"Generalize: loss: unknown key 'nam'; did you mean 'name'"):
        Generalize(loss={"nam": "loss"})
    with pytest.raises(UsageError, match=r"Microaggregate: sensitive: 'column' must be given"):
        Microaggregate(columns=["income"], k=3, sensitive={"l": 2})


def test_a_whole_number_is_the_float_that_a_policy_would_read() -> None:
    stage = RankSwap(columns=["income"], p=1)
    assert type(stage.p) is float
    assert stage.parameters() == RankSwap.build({"columns": ["income"], "p": 1}).parameters()
