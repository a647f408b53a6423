"""The background-knowledge attack on the worked classes; source: slides after Machanavajjhala et al. 2007."""

from __future__ import annotations

from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.measures import BackgroundKnowledgeAttack
from privpipe.testing import block_of, judged

HEART_AND_CANCER = block_of(illness=[[1, 2]])


def share(**knowledge: Any) -> float:
    return float(judged(BackgroundKnowledgeAttack(column="illness", **knowledge), HEART_AND_CANCER).observed)


def test_worked_classes() -> None:
    assert share(exclude_values=0) == 0.0
    assert share(exclude_values=1) == 1.0
    assert share(insiders=0) == 0.0
    assert share(insiders=1) == 1.0


def test_values_left_after_ruling_some_out() -> None:
    block = block_of(illness=[[4, 2, 2, 1]])
    worst = [4 / 9, 4 / 7, 4 / 5, 1.0, 1.0]
    for b, posterior in enumerate(worst):
        for certainty, learnt in ((posterior, 1.0), (min(posterior + 1e-6, 1.0), float(posterior == 1.0))):
            measure = BackgroundKnowledgeAttack(column="illness", exclude_values=b, certainty=certainty)
            assert judged(measure, block).observed == learnt, (b, certainty)


def test_one_kind_of_knowledge_is_named() -> None:
    for wrong in ({}, {"insiders": 1, "exclude_values": 1}, {"insiders": -1}, {"exclude_values": 1.5}):
        with pytest.raises(UsageError):
            BackgroundKnowledgeAttack(column="illness", **wrong)
