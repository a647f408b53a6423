"""The homogeneity attack on the worked tables.

Source: reference/torra.json (slides after V. Torra and L. Sweeney): city table 2/5.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.measures import BackgroundKnowledgeAttack, HomogeneityAttack
from privpipe.testing import block_of, judged

CITY = [[2, 0, 0], [0, 2, 1]]


def test_the_city_table() -> None:
    block = block_of(illness=CITY)
    assert judged(HomogeneityAttack(column="illness"), block).observed == pytest.approx(2 / 5)
    assert judged(HomogeneityAttack(column="illness", certainty=0.6), block).observed == 1.0
    refused = judged(HomogeneityAttack(column="illness", at_most=0.0), block)
    assert (refused.outcome, refused.failing_classes, refused.failing_records) == ("fail", 1, 2)
    assert "by homogeneity" in refused.reason


def test_the_worked_tables_of_the_slides(shared: Path) -> None:
    worked: dict[str, Any] = json.loads((shared / "reference" / "torra.json").read_text())["worked_examples"]
    city = worked["city_table"]
    classes: dict[Any, Counter[Any]] = {}
    for row in city["rows"]:
        classes.setdefault(tuple(row[at] for at in city["qi"]), Counter())[row[-1]] += 1
    values = sorted({row[-1] for row in city["rows"]})
    block = block_of(illness=[[counts[value] for value in values] for counts in classes.values()])
    share = judged(HomogeneityAttack(column="illness"), block).observed
    assert share == pytest.approx(city["homogeneity_share"], rel=1e-12)
    assert judged(BackgroundKnowledgeAttack(column="illness", insiders=1), block).observed == 1.0


@pytest.mark.parametrize("wrong", [{"certainty": 0}, {"certainty": 1.1}, {"at_most": -1}, {"column": ""}])
def test_ill_formed_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HomogeneityAttack(**{"column": "illness", **wrong})


def test_classes_of_one_record_are_counted_too() -> None:
    verdict = judged(HomogeneityAttack(column="illness", at_most=0.5), block_of(illness=[[1, 0], [0, 1], [1, 1]]))
    assert (verdict.observed, verdict.failing_classes, verdict.failing_records) == (0.5, 2, 2)
