"""A sample next to the population it was drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Cells, ClassBlock
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.counted_classes import SIDE, beside_population
from privpipe.judging.judged_table import require_population
from privpipe.models import KAnonymity, KMap
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("zip",))


def judged(engine: Engine, sample: list[Any], population: list[Any] | None, **rules: Any) -> Any:
    tables = [
        None if each is None else engine.scan(Source(data=pa.table({"zip": each}))) for each in (sample, population)
    ]
    return assess(
        engine, tables[0], guarantees=[KMap(k=2)], roles=ROLES, rules=JudgingRules(**rules), population=tables[1]
    )


def test_the_smallest_class_of_the_population_that_someone_released_is_of(engine: Engine) -> None:
    population = ["a"] * 5 + ["b"] * 3 + ["c"]
    found = judged(engine, ["a", "b", "b"], population)
    assert (found.verdicts[0].outcome, found.verdicts[0].observed) == ("pass", 3)
    assert (found.records, found.classes) == (3, 2), "classes of no one released are not released"
    assert judged(engine, ["a", "c"], population).verdicts[0].observed == 1


def test_more_records_than_the_population_has_are_not_a_sample(engine: Engine) -> None:
    with pytest.raises(DataError, match=r"2 of 3 classes hold more records than the population does \(5 records\)"):
        judged(engine, ["a", "b", "b", "b", "d", "d"], ["a", "a", "b", "c"])


def test_suppressed_records_are_in_no_class_next_to_a_population(engine: Engine) -> None:
    found = judged(engine, ["a", "*", "*"], ["a"] * 4 + ["b"])
    assert (found.verdicts[0].observed, found.records, found.suppressed_records) == (4, 1, 2)


def test_classes_of_either_side_stay_and_their_marked_records_go() -> None:
    cells = Cells(np.array([0, 2, 3, 4, 6]), np.array([0, 1, 1, 0, 0, 1]), np.array([2, 5, 4, 3, 6, 1]))
    more = Cells(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 0, 1]), np.array([7, 4, 3, 7]))
    block = ClassBlock(np.array([7, 4, 3, 7]), {SIDE: cells, "x": more}, marked=np.array([False, False, True, True]))
    both, marked = beside_population(block)
    assert marked == 9
    assert both.sizes.tolist() == [2, 0, 0]
    assert both.population is not None
    assert both.population.tolist() == [5, 4, 1]
    assert both.cells["x"].counts.tolist() == [7, 4, 7]


def test_what_is_asked_of_a_population(embedded: Engine) -> None:
    table = embedded.scan(Source(data=pa.table({"zip": ["a", None], "age": [1, 2]})))
    asking, others = [KMap(k=2)], [KAnonymity(k=2)]
    require_population(embedded, None, others, ("zip",), True)
    with pytest.raises(UsageError, match="k_map compares with a population, and none was given"):
        require_population(embedded, None, asking, ("zip",), False)
    with pytest.raises(DataError, match="city"):
        require_population(embedded, table, asking, ("city",), False)
    require_population(embedded, table, asking, ("zip",), False)
    require_population(embedded, table, asking, ("age",), True)
    with pytest.raises(DataError, match="column 'zip' of the population has 1 missing values"):
        require_population(embedded, table, asking, ("zip", "age"), True)
