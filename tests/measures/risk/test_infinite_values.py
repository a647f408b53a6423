"""An infinite value has no distance: a measure of distances refuses it, and never lets a release pass by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.file_pair import FilePair, TableFiles
from privpipe.errors import DataError
from privpipe.measures import (
    ClosestRecord,
    MembershipAttack,
    ProbabilisticLinkage,
    RecordLinkage,
    SdIntervalDisclosure,
    TransparencyAttack,
)

ORIGINAL = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
OF_PAIRS = [
    RecordLinkage(columns=("a", "b"), at_most=0.5),
    RecordLinkage(columns=("a", "b"), metric="gower", at_most=0.5),
    SdIntervalDisclosure(columns=("a", "b"), sd="original", at_most=0.5),
    SdIntervalDisclosure(columns=("a", "b"), sd="released", at_most=0.5),
    ProbabilisticLinkage(columns=("a", "b"), agreement={"a": {"absolute": 0.5}, "b": {"relative": 0.1}}, at_most=0.5),
    TransparencyAttack(columns=("a", "b"), method="rank_swap", p=0.5, at_most=0.5),
    TransparencyAttack(columns=("a", "b"), method="microaggregation", at_most=0.5),
]


def table(values: list[float]) -> pa.Table:
    return pa.table({"a": ORIGINAL, "b": values})


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
@pytest.mark.parametrize("side", ["original", "released"])
@pytest.mark.parametrize("measure", OF_PAIRS, ids=repr)
def test_of_pairs(measure: Any, side: str, infinite: float) -> None:
    sides = {"original": table(ORIGINAL), "released": table(ORIGINAL)}
    sides[side] = table([*ORIGINAL[:-1], infinite])
    batches = {name: found.to_batches()[0] for name, found in sides.items()}
    ids = np.arange(12, dtype=np.int64).reshape(6, 2)
    files = FilePair(**batches, ids=ids, records=6, released_records=6)
    with pytest.raises(DataError, match="column 'b' holds infinite values, which have no distance"):
        measure.judge_files(files)


@pytest.mark.parametrize("side", ["original", "released", "holdout"])
@pytest.mark.parametrize(
    "measure",
    [ClosestRecord(columns=("a", "b"), holdout="kept.csv"), MembershipAttack(columns=("a", "b"), holdout="kept.csv")],
    ids=repr,
)
def test_of_whole_tables(measure: Any, side: str) -> None:
    sides = dict.fromkeys(("original", "released", "holdout"), table(ORIGINAL))
    sides[side] = table([*ORIGINAL[:-1], np.inf])
    with pytest.raises(DataError, match="column 'b' holds infinite values, which have no distance"):
        measure.judge_tables(TableFiles(**sides, hierarchies={}))
