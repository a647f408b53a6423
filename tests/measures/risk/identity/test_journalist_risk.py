"""Journalist risk counts the population's persons, and is never above prosecutor risk."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import UsageError
from privpipe.measures import JournalistRisk, ProsecutorRisk
from privpipe.testing import judged

BLOCK = ClassBlock(np.array([1, 4, 0]), population=np.array([2, 10, 1]))


@pytest.mark.parametrize(
    ("figure", "threshold", "observed"),
    [("highest", 0.2, 0.5), ("average", 0.2, 0.18), ("at_risk", 0.2, 0.2), ("at_risk", 0.05, 1.0)],
)
def test_figures_of_given_classes(figure: str, threshold: float, observed: float) -> None:
    verdict = judged(JournalistRisk(figure=figure, threshold=threshold, at_most=observed), BLOCK)
    assert verdict.observed == pytest.approx(observed)
    assert verdict.passed
    prosecutor = judged(ProsecutorRisk(figure=figure, threshold=threshold), ClassBlock(np.array([1, 4])))
    assert verdict.observed <= prosecutor.observed


def test_classes_that_are_alike_count_each() -> None:
    """Two classes of three, all of the population; four of one record in ten: (3/3 + 3/3 + 4/10) of 10 records."""
    block = ClassBlock(np.array([3, 3, 1, 1, 1, 1]), population=np.array([3, 3, 10, 10, 10, 10]))
    for figure, wanted in (("highest", 1 / 3), ("average", 0.24), ("at_risk", 0.6)):
        assert judged(JournalistRisk(figure=figure), block).observed == pytest.approx(wanted)


def test_blocks_merge_in_any_order() -> None:
    measure = JournalistRisk(figure="average")
    parts = [measure.measure(BLOCK.take(np.arange(3) == at), Facts()) for at in range(3)]
    forth = measure.merge(parts[0], measure.merge(parts[1], parts[2]))
    back = measure.merge(measure.merge(parts[2], parts[1]), parts[0])
    assert measure.judge(forth, Facts()).observed == measure.judge(back, Facts()).observed


def test_without_a_population_there_is_no_figure() -> None:
    with pytest.raises(UsageError, match="none was counted"):
        judged(JournalistRisk(), ClassBlock(np.array([1])))
    none = judged(JournalistRisk(at_most=1.0), BLOCK.take(np.arange(3) == 2))
    assert (none.outcome, none.observed) == ("error", None)
