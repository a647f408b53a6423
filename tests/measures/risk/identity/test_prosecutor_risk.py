"""Prosecutor risk is that of the class sizes, and a gate."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import UsageError
from privpipe.measures import ProsecutorRisk
from privpipe.testing import judged


@pytest.mark.parametrize(
    ("figure", "threshold", "observed"),
    [("highest", 0.2, 0.5), ("average", 0.2, 0.3), ("at_risk", 0.2, 0.5), ("at_risk", 0.5, 0.0), ("at_risk", 0.3, 0.5)],
)
def test_figures_of_given_sizes(figure: str, threshold: float, observed: float) -> None:
    block = ClassBlock(np.array([2, 3, 5]))
    measure = ProsecutorRisk(figure=figure, threshold=threshold, at_most=observed)
    verdict = judged(measure, block)
    assert verdict.observed == pytest.approx(observed)
    assert verdict.passed
    if observed:
        assert not judged(ProsecutorRisk(figure=figure, threshold=threshold, at_most=observed - 1e-6), block).passed


@pytest.mark.parametrize("figure", ["highest", "average", "at_risk"])
def test_sizes_that_no_class_has_change_nothing(figure: str) -> None:
    measure, sizes, counts = ProsecutorRisk(figure=figure), np.array([1, 2, 3, 5]), np.array([0, 4, 1, 0])
    assert measure.figure_of(sizes, counts) == measure.figure_of(sizes[1:3], counts[1:3])


def test_merging_classes_never_raises_it() -> None:
    for figure in ("highest", "average", "at_risk"):
        fine, coarse = (judged(ProsecutorRisk(figure=figure), ClassBlock(np.array(s))) for s in ([1, 2, 4], [3, 4]))
        assert coarse.observed <= fine.observed


def test_no_class_has_no_figure() -> None:
    assert judged(ProsecutorRisk(at_most=1.0), ClassBlock(np.zeros(0, dtype=np.int64))).observed is None


@pytest.mark.parametrize("wrong", [{"figure": "mean"}, {"threshold": 0}, {"at_most": 2}, {"threshold": 1.5}])
def test_ill_formed_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="ProsecutorRisk"):
        ProsecutorRisk(**wrong)  # type: ignore[arg-type]
    assert Facts() is not None
