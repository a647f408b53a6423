"""What a class must hold at least before it can meet a model: searches leave out whatever holds less."""

from __future__ import annotations

import pytest

from privpipe.blocks import ClassModel
from privpipe.models import (
    AlphaKAnonymity,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    PSensitiveKAnonymity,
    RecursiveCLDiversity,
)
from privpipe.testing import block_of, judged


@pytest.mark.parametrize(
    ("model", "size", "values"),
    [
        (KAnonymity(k=5), 5, 1),
        (AlphaKAnonymity(column="illness", k=2, alpha=0.1), 10, 10),
        (DistinctLDiversity(column="illness", l=3), 3, 3),
        (EntropyLDiversity(column="illness", l=2.5), 3, 3),
        (RecursiveCLDiversity(column="illness", c=4.0, l=3), 3, 3),
        (PSensitiveKAnonymity(columns=("illness",), k=5, p=2), 5, 2),
    ],
    ids=repr,
)
def test_a_threshold_asks_for_so_many(model: ClassModel, size: int, values: int) -> None:
    assert (model.least_size(), model.least_values()) == (size, values)


@pytest.mark.parametrize(
    "model",
    [
        KAnonymity(),
        AlphaKAnonymity(column="illness"),
        DistinctLDiversity(column="illness"),
        EntropyLDiversity(column="illness"),
        PSensitiveKAnonymity(columns=("illness",)),
    ],
    ids=repr,
)
def test_without_a_threshold_one_record_may_stand_alone(model: ClassModel) -> None:
    assert (model.least_size(), model.least_values()) == (1, 1)


@pytest.mark.parametrize(
    "model",
    [
        KAnonymity(k=5),
        AlphaKAnonymity(column="illness", k=2, alpha=0.1),
        DistinctLDiversity(column="illness", l=3),
        EntropyLDiversity(column="illness", l=3.0),
        RecursiveCLDiversity(column="illness", c=4.0, l=3),
        PSensitiveKAnonymity(columns=("illness",), k=5, p=2),
    ],
    ids=repr,
)
def test_one_less_fails_and_the_least_size_of_even_values_holds(model: ClassModel) -> None:
    least = model.least_size()
    assert judged(model, block_of(illness=[[1] * least])).passed
    assert not judged(model, block_of(illness=[[1] * (least - 1)])).passed
