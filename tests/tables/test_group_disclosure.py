"""Group disclosure: reference figures, the definition on random tables with trees, remedies."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privpipe.errors import UsageError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.group_disclosure import GroupDisclosure
from tests.tables.table_cases import cases


def counted(cells: Cells, counts: list[int]) -> CellFigures:
    zeros = np.zeros(len(cells), dtype=np.int64)
    numbers = np.array(counts, dtype=np.int64)
    return CellFigures(
        cells=cells,
        response="count",
        contributors=numbers,
        records=numbers,
        totals=numbers,
        largest=zeros[:, None],
        holders=zeros[:, None],
        negative=zeros,
        nonzero=numbers,
        single=zeros,
        magnitudes=numbers,
        counting=True,
    )


def table_of(case: dict[str, Any]) -> CellFigures:
    dimensions = [Dimension.tree(each["name"], each["parent"]) for each in case["table"]["dims"]]
    rows = case["table"]["cells"]
    cells = Cells.labelled(dimensions, [row[: len(dimensions)] for row in rows])
    return counted(cells, [row[len(dimensions)] for row in rows])


def names(figures: CellFigures, pairs: Any) -> list[list[str]]:
    return sorted([figures.cells.name(child), figures.cells.name(margin)] for child, margin in zip(*pairs, strict=True))


@pytest.mark.parametrize("case", cases("group_disclosure"))
def test_reference_figures(case: dict[str, Any]) -> None:
    figures = table_of(case)
    columns = [each["name"] for each in case["table"]["dims"]]
    known, share = case["options"]["known"], case["options"]["share"]
    plain = GroupDisclosure(columns=columns, known=known)
    assert names(figures, plain.pairs(figures)) == sorted(case["expected"]["disclosive"])
    both = GroupDisclosure(columns=columns, known=known, share=share)
    above = [pair for pair in case["expected"]["above_share"] if _members(figures, pair[1]) > known]
    expected = {*map(tuple, case["expected"]["disclosive"]), *map(tuple, above)}
    assert names(figures, both.pairs(figures)) == sorted(map(list, expected))


def _members(figures: CellFigures, name: str) -> int:
    found = {figures.cells.name(cell): int(count) for cell, count in enumerate(figures.contributors)}
    return found[name]


TREE = {"a": "Total", "b": "Total", "b1": "b", "b2": "b", "b3": "b"}
FLAT = {"x": "Total", "y": "Total"}


def random_table(draw: np.random.Generator) -> CellFigures:
    cells = Cells.complete([Dimension.tree("place", TREE), Dimension.tree("kind", FLAT)])
    leaf = {(p, k): int(draw.integers(0, 4)) for p in ("a", "b1", "b2", "b3") for k in FLAT}
    below = {"Total": ["a", "b1", "b2", "b3"], "b": ["b1", "b2", "b3"]}
    kinds = {"Total": list(FLAT)}
    counts = []
    for place, kind in cells.codes:
        p, k = cells.dimensions[0].labels[place], cells.dimensions[1].labels[kind]
        counts.append(sum(leaf[i, j] for i in below.get(p, [p]) for j in kinds.get(k, [k])))
    return counted(cells, counts)


@pytest.mark.parametrize("known", [0, 1, 2])
@pytest.mark.parametrize("share", [None, "2/3"])
def test_the_definition_on_random_tables(known: int, share: str | None) -> None:
    draw = np.random.default_rng(known)
    for _ in range(50):
        figures = random_table(draw)
        count = {figures.cells.name(at): int(n) for at, n in enumerate(figures.contributors)}
        expected = []
        for at, (place, kind) in enumerate(figures.cells.codes):
            for dimension, other in ((0, kind), (1, place)):
                parent = figures.cells.dimensions[dimension].parent[(place, kind)[dimension]]
                if parent < 0:
                    continue
                codes = (parent, other) if dimension == 0 else (other, parent)
                margin = next(m for m, each in enumerate(figures.cells.codes) if tuple(each) == codes)
                c, p = count[figures.cells.name(at)], count[figures.cells.name(margin)]
                if p > known and (p - c <= known or (share is not None and c >= Fraction(share) * p)):
                    expected.append([figures.cells.name(at), figures.cells.name(margin)])
        rule = GroupDisclosure(columns=["place", "kind"], known=known, share=share)
        assert names(figures, rule.pairs(figures)) == sorted(expected)
        _check_remedy(rule, figures)


def _check_remedy(rule: GroupDisclosure, figures: CellFigures) -> None:
    """With the child at the end of its level, the pair is no longer disclosive."""
    levels = rule.levels(figures)
    lower = dict(zip(levels.variables.tolist(), levels.lower.tolist(), strict=True))
    for child, margin in zip(*rule.pairs(figures), strict=True):
        least = figures.contributors[child] - lower[int(child)]
        assert least >= 0
        assert figures.contributors[margin] - least > rule.known or least == 0
        if rule.share is not None:
            assert least < Fraction(rule.share) * int(figures.contributors[margin]) or least == 0


def test_only_published_pairs_are_a_disclosure() -> None:
    figures = table_of(_handbook())
    rule = GroupDisclosure(columns=["hours"])
    everything = np.ones(len(figures), dtype=bool)
    assert rule.observed(figures, everything) == 1
    hidden = everything.copy()
    hidden[int(np.flatnonzero(rule.unsafe(figures))[0])] = False
    assert rule.observed(figures, hidden) == 0


def test_what_is_not_secret_is_allowed() -> None:
    figures = table_of(_handbook())
    assert GroupDisclosure(columns=["hours"], allowed=[{"hours": "full"}]).observed(figures, np.ones(12, bool)) == 0
    with pytest.raises(UsageError, match="'hour' is not a dimension"):
        GroupDisclosure(columns=["hours"], allowed=[{"hour": "full"}]).pairs(figures)


def test_only_along_attributes() -> None:
    figures = table_of(_handbook())
    assert GroupDisclosure(columns=["marital"], known=1).observed(figures, np.ones(12, bool)) == 1
    with pytest.raises(UsageError, match="did you mean 'marital'"):
        GroupDisclosure(columns=["marita"]).pairs(figures)
    with pytest.raises(UsageError, match="give the attributes"):
        GroupDisclosure(columns=[])


def _handbook() -> dict[str, Any]:
    marital = {"Married": "Total", "Divorced": "Total", "Single": "Total"}
    counts = {"Total": (16, 13, 3), "Married": (6, 6, 0), "Divorced": (6, 5, 1), "Single": (4, 2, 2)}
    cells = [
        [label, hours, count, "published"]
        for label, row in counts.items()
        for hours, count in zip(("Total", "full", "part"), row, strict=True)
    ]
    hours = {"full": "Total", "part": "Total"}
    dims = [{"name": "marital", "parent": marital}, {"name": "hours", "parent": hours}]
    return {"table": {"dims": dims, "cells": cells}}
