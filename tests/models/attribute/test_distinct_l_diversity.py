"""Distinct l-diversity."""

from __future__ import annotations

import pytest

from privpipe.blocks import Facts
from privpipe.errors import UsageError
from privpipe.models import DistinctLDiversity
from privpipe.testing import block_of, facts_of, judged


def test_the_inpatient_table() -> None:
    """Source: Machanavajjhala et al., ACM TKDD 1(1), 2007, figure 3: three classes of three diseases each."""
    block = block_of(condition=[[1, 1, 2, 0], [1, 2, 1, 0], [1, 1, 2, 0]])
    assert judged(DistinctLDiversity(column="condition", l=3), block, Facts()).passed
    assert not judged(DistinctLDiversity(column="condition", l=4), block, Facts()).passed


def test_a_homogeneous_class_fails() -> None:
    verdict = judged(DistinctLDiversity(column="illness", l=2), block_of(illness=[[3, 0], [1, 1], [0, 4]]))
    assert (verdict.observed, verdict.failing_classes, verdict.failing_records) == (1, 2, 7)


def test_rare_values_count_in_full() -> None:
    assert judged(DistinctLDiversity(column="illness", l=3), block_of(illness=[[98, 1, 1]])).observed == 3


def test_more_than_the_values_that_exist_is_noted() -> None:
    block = block_of(illness=[[2, 2], [1, 1]])
    verdict = judged(DistinctLDiversity(column="illness", l=3), block)
    assert "cannot be met by this table: 'illness' has 2 distinct values" in verdict.reason
    unknown = judged(DistinctLDiversity(column="illness", l=3), block, Facts())
    assert "cannot" not in unknown.reason


def test_more_than_the_records_is_noted_without_facts() -> None:
    model = DistinctLDiversity(column="illness", l=5)
    assert "it has 4 records" in judged(model, block_of(illness=[[2, 2]]), Facts()).reason
    assert model.unattainable(4, facts_of(block_of(illness=[[2, 2]]))).endswith("2 distinct values")


@pytest.mark.parametrize("l", [0, 2.0, True, "2"])
def test_l_is_a_positive_integer(l: object) -> None:
    with pytest.raises(UsageError, match="DistinctLDiversity: l"):
        DistinctLDiversity(column="illness", l=l)


def test_a_column_does_not_form_its_own_classes() -> None:
    with pytest.raises(UsageError, match="take it out of quasi_identifiers"):
        DistinctLDiversity(column="illness", l=2, quasi_identifiers=("illness",))
    with pytest.raises(UsageError, match="column must be a column name"):
        DistinctLDiversity(column="", l=2)
