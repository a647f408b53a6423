"""Records by the size of their class, for pages: of all guarantees the same classes, and no bin of few records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.engines import Engine, Source
from privpipe.judging import JudgingRules
from privpipe.judging.report_counts import SizeFigures, judged_keys, size_bins, size_figures
from privpipe.models import KAnonymity, NoIdentifiers
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=("zip",))


def side(sizes: dict[int, int]) -> SizeFigures:
    return SizeFigures(sizes=tuple(sizes), classes=tuple(sizes.values()), journalist={}, marketer=None)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("least", [1, 5, 40])
def test_a_bin_holds_the_records_of_classes_between_its_ends(seed: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [Counter(np.ceil(rng.pareto(0.6, 30)).astype(int).clip(1, 5_000).tolist()) for _ in range(2)]
    bins = size_bins([side(dict(sorted(each.items()))) for each in drawn], least)
    assert bins
    for at, sizes in enumerate(drawn):
        told = [
            sum(n * size for size, n in sizes.items() if one["from"] <= size <= (one["to"] or 10**9)) for one in bins
        ]
        assert told == [one["counts"][at] for one in bins]
        assert sum(told) == sum(size * n for size, n in sizes.items())
        assert all(not count or count >= least for count in told)


def figures(engine: Engine, zips: list[Any], population: list[Any] | None = None) -> SizeFigures | None:
    tables = [
        None if rows is None else engine.scan(Source(data=pa.table({"zip": pa.array(rows, pa.string())})))
        for rows in (zips, population)
    ]
    return size_figures(engine, tables[0], ("zip",), ROLES, JudgingRules(), tables[1])


def test_figures_count_classes_of_each_size_and_leave_suppressed_records_out(engine: Engine) -> None:
    found = figures(engine, ["a", "b", "b", "c", "c", "*"])
    assert found == SizeFigures(sizes=(1, 2), classes=(1, 2), journalist={}, marketer=None)
    assert figures(engine, ["*", "*"]) is None


def test_beside_a_population_the_risks_are_those_of_its_classes(embedded: Engine) -> None:
    found = figures(embedded, ["a", "b", "b"], ["a"] * 4 + ["b"] * 5 + ["c"])
    assert found is not None
    assert found.journalist["highest"] == pytest.approx(1 / 4)
    assert found.marketer == pytest.approx((1 / 4 + 2 / 5) / 3)


def test_the_classes_are_those_of_the_first_guarantee_over_classes() -> None:
    roles = Roles(quasi_identifiers=("age", "zip"))
    own, zips = KAnonymity(k=2), KAnonymity(k=2, quasi_identifiers=("zip",))
    assert judged_keys([NoIdentifiers(), zips, own], roles) == ("zip",)
    assert judged_keys([own, zips], roles) == ("age", "zip")
    assert judged_keys([NoIdentifiers()], roles) == ("age", "zip")
    assert judged_keys([own, zips], Roles()) == ("zip",), "one that names none of its own has no classes"
    assert judged_keys([own], Roles()) == ()
