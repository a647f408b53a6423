"""Class-based figures by definition on 14 tables of Adult.

Source: reference/pycanon.json, computed straight from the definitions; k, distinct l and t also agree with
pycanon 1.3.6. `where_the_peer_errs` there lists what is not to be copied.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from privpipe.models import (
    AlphaKAnonymity,
    AverageRisk,
    BasicBetaLikeness,
    DeltaDisclosure,
    DistinctLDiversity,
    EnhancedBetaLikeness,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    SampleUniqueness,
    TCloseness,
)
from privpipe.testing import judged


def exactly(figure: float) -> Any:
    return pytest.approx(figure, rel=1e-12, abs=1e-15)


def table_of(row: dict[str, Any], adult: Any) -> tuple[Any, Any]:
    levels = {name: row["generalization_levels"].get(name, 0) for name in row["quasi_identifiers"]}
    least = row["drop_classes_smaller_than"] or 1
    classes = adult.class_numbers(levels)
    block, facts = adult.block(levels, row["sensitive"], kept=np.bincount(classes)[classes] >= least)
    assert block.records == row["rows"]
    return block, facts


def test_sizes(pycanon_row: dict[str, Any], adult: Any) -> None:
    block, facts = table_of(pycanon_row, adult)
    expected = pycanon_row["reference"]
    assert (len(block), block.sizes.max()) == (expected["n_classes"], expected["max_class"])
    assert judged(KAnonymity(), block, facts).observed == expected["k"]
    risk = judged(AverageRisk(), block, facts).observed
    assert risk == exactly(expected["avg_record_risk(n_classes/n)"])
    unique = judged(SampleUniqueness(), block, facts).observed
    assert unique == exactly(expected["n_unique_records"] / pycanon_row["rows"])


def test_diversity(pycanon_row: dict[str, Any], adult: Any) -> None:
    block, facts = table_of(pycanon_row, adult)
    column, expected = pycanon_row["sensitive"], pycanon_row["reference"]
    assert judged(DistinctLDiversity(column=column), block, facts).observed == expected["l_distinct"]
    entropy = judged(EntropyLDiversity(column=column), block, facts).observed
    assert entropy == exactly(expected["l_entropy_real"])
    for l, infimum in expected["recursive_c_infimum_by_l"].items():
        verdict = judged(RecursiveCLDiversity(column=column, l=int(l)), block, facts)
        assert verdict.observed == (None if infimum is None else exactly(infimum))


def test_closeness(pycanon_row: dict[str, Any], adult: Any) -> None:
    block, facts = table_of(pycanon_row, adult)
    column, expected = pycanon_row["sensitive"], pycanon_row["reference"]
    order = None if pycanon_row["sensitive_type"] == "numeric" else "text"
    equal = judged(TCloseness(column=column), block, facts).observed
    ordered = judged(TCloseness(column=column, distance="ordered", order=order), block, facts).observed
    assert equal == exactly(expected["t_equal"])
    assert ordered == exactly(expected["t_ordered"])


def test_shares(pycanon_row: dict[str, Any], adult: Any) -> None:
    """Logarithms there are natural, ours to base 2; enhanced beta is None where no beta meets it."""
    block, facts = table_of(pycanon_row, adult)
    column, expected = pycanon_row["sensitive"], pycanon_row["reference"]
    alpha = judged(AlphaKAnonymity(column=column), block, facts).observed
    assert alpha == {"k": expected["k"], "alpha": exactly(expected["alpha"])}
    assert judged(BasicBetaLikeness(column=column), block, facts).observed == exactly(expected["beta_basic"])
    delta = judged(DeltaDisclosure(column=column), block, facts).observed
    assert delta == exactly(expected["delta_present_values_only_ln"] / math.log(2))
    for model, name in (
        (EnhancedBetaLikeness(column=column), "beta_enhanced"),
        (DeltaDisclosure(column=column, absent="strict"), "delta_strict_ln"),
    ):
        figure = expected[name]
        scale = math.log(2) if name.startswith("delta") else 1
        assert judged(model, block, facts).observed == (None if figure is None else exactly(figure / scale))
