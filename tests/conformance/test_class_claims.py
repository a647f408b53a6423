"""What models claim of all tables, and what their tolerance is: at least 1,000 random cases a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe import measures, models
from privpipe.blocks import ClassModel, Guarantee, SizeModel
from privpipe.judging.ways import way_of
from privpipe.models import EntropyLDiversity, RecursiveCLDiversity, TCloseness
from privpipe.testing import (
    block_of,
    facts_of,
    judged,
    merging_claims,
    splitting_problems,
    suppression_claim,
    threshold_claim,
)
from privpipe.testing.class_claims import EXAMPLES
from tests.gathering import gathered
from tests.tiers import at_most

ENTRIES: list[Any] = [
    example for room in (models, measures) for name in room.CATALOGUE for example in room.CATALOGUE[name].examples()
]
SPLIT = [entry for entry in ENTRIES if way_of(entry).measures is not None]
GATES = [entry for entry in SPLIT if entry.is_gate() and entry.way.over_classes]
NO_THRESHOLD: Mapping[str, str] = {
    "EntropyLDiversity(column='illness', l=2.5, estimator='grassberger')": (
        "its figure is of the classes with enough values for l, so that moving l moves the figure"
    ),
}
"""Gates that have no case at their threshold, and why; compared with what the kit finds."""


def shared(entry: Guarantee, among: list[Any]) -> int:
    """Cases for one example, so that all of a model together have stood enough."""
    return math.ceil(EXAMPLES / sum(type(other) is type(entry) for other in among))


def by_name(entries: list[Any]) -> Any:
    """A test for each entry, of all of its examples."""
    examples: dict[str, list[Any]] = {}
    for entry in entries:
        examples.setdefault(entry.name(), []).append(entry)
    return pytest.mark.parametrize("examples", examples.values(), ids=examples)


@by_name([entry for entry in GATES if isinstance(entry, ClassModel)])
def test_merging_does_what_the_model_claims(examples: list[ClassModel]) -> None:
    with gathered() as case:
        for model in examples:
            with case(repr(model)):
                claims = merging_claims(model, least=shared(model, GATES))
                assert all(claim.holds for claim in claims), [str(claim) for claim in claims]


@pytest.mark.parametrize("model", [m for m in GATES if isinstance(m, SizeModel) and m.prefix_monotone], ids=repr)
def test_suppressing_small_classes_does_what_the_model_claims(model: SizeModel) -> None:
    claim = suppression_claim(model, least=shared(model, GATES))
    assert claim.holds, str(claim)


@by_name(GATES)
def test_a_table_on_the_threshold_passes_and_one_beyond_fails(examples: list[Guarantee]) -> None:
    with gathered() as case:
        for model in examples:
            with case(repr(model)):
                holds_at_its_threshold(model)


def holds_at_its_threshold(model: Guarantee) -> None:
    claim = threshold_claim(model, least=shared(model, GATES))
    if repr(model) in NO_THRESHOLD:
        assert claim.examples == 0, f"{model!r} has cases at its threshold; its line goes"
    else:
        assert claim.holds, str(claim)


@by_name(SPLIT)
def test_blocks_change_no_figure(examples: list[Guarantee]) -> None:
    with gathered() as case:
        for entry in examples:
            with case(repr(entry)):
                assert splitting_problems(entry, tables=10) == []


@settings(max_examples=at_most(30))
@given(st.sampled_from(SPLIT), st.integers(0, 2**32 - 1))
def test_blocks_of_any_tables_change_no_figure(entry: Guarantee, seed: int) -> None:
    assert splitting_problems(entry, seed, tables=2) == []


def test_even_values_are_so_many_values() -> None:
    """exp(H) of three even values is 2.9999999999999996; of others it is above, or below."""
    with gathered() as case:
        for values in range(1, 60):
            with case(values):
                even = block_of(illness=[[2] * values])
                assert judged(EntropyLDiversity(column="illness", l=float(values)), even).passed
                assert not judged(EntropyLDiversity(column="illness", l=values * 1.000001 + 1e-6), even).passed


def test_sums_that_round_reach_their_threshold() -> None:
    """0.1 + 0.2 is above 0.3: distances are sums of such shares."""
    block = block_of(illness=[[9, 0, 1], [1, 8, 1]])
    facts = facts_of(block_of(illness=[[10, 8, 2]]))
    assert max(TCloseness(column="illness").scores(block, facts)) == pytest.approx(0.4)
    assert judged(TCloseness(column="illness", t=0.4), block, facts).passed
    for shares in ([1, 2, 7], [2, 4, 4], [3, 3, 4]):
        column = block_of(illness=[shares])
        c = shares[0] / sum(shares[1:])
        assert not judged(RecursiveCLDiversity(column="illness", c=max(c, 1e-3), l=2), column).passed
