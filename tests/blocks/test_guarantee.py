"""The common shape of guarantees: what a subclass inherits, and its error when a part is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, ClassModel, Facts, Guarantee, SizeModel, Tally
from privpipe.blocks.guarantee import Direction, one_class, short
from privpipe.blocks.size_model import histogram_sums, size_histogram
from privpipe.testing import block_of, facts_of, judged

BLOCK = ClassBlock(np.array([3, 1, 2]))


@dataclass(frozen=True, kw_only=True, repr=False)
class AtMostSize(ClassModel):
    """Classes of at most so many records."""

    threshold_field: ClassVar[str | None] = "most"
    direction: ClassVar[Direction] = "at_most"

    most: float | None = None

    def scores(self, block: ClassBlock, facts: Facts) -> Any:
        return np.where(block.sizes == 3, np.inf, block.sizes.astype(np.float64))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Guarantee().measure(BLOCK, Facts()),
        lambda: Guarantee().merge(Tally(), Tally()),
        lambda: Guarantee().judge(Tally(), Facts()),
        lambda: ClassModel().scores(BLOCK, Facts()),
        lambda: SizeModel().figure_of(BLOCK.sizes, BLOCK.sizes),
    ],
)
def test_a_part_that_is_missing_is_named(call: Any) -> None:
    with pytest.raises(TypeError, match="Guarantee|ClassModel|SizeModel"):
        call()


def test_infinite_means_no_number() -> None:
    verdict = judged(AtMostSize(most=2.0), BLOCK)
    assert (verdict.observed, verdict.outcome, verdict.failing_records) == (None, "fail", 3)
    assert verdict.reason == "observed no number, required at most 2; 1 of 3 classes, 3 of 6 records fail."


def test_without_a_threshold_nothing_fails() -> None:
    model = AtMostSize()
    assert not model.is_gate()
    assert model.passing(BLOCK, Facts()).all()
    assert "asked" not in judged(model, BLOCK).reason


def test_a_model_concludes_nothing_by_default() -> None:
    """A user's own model is judged at every step of a search, and never noted as out of reach."""
    model = AtMostSize(most=0.5)
    assert not model.hereditary
    assert not model.convex
    assert model.unattainable(3, Facts()) == model.needs_suppression(3, Facts()) == ""
    assert Guarantee().unattainable(3, Facts()) == ""


def test_tallies_add_their_counters() -> None:
    model = AtMostSize(most=2.0)
    left, right = Tally(1.0, 0, 0, 1, 1, {"a": 1}), Tally(2.0, 1, 2, 1, 2, {"a": 2, "b": 3})
    assert model.merge(left, right) == Tally(2.0, 1, 2, 2, 3, {"a": 3, "b": 3})


@pytest.mark.parametrize("sizes", [[], [1], [2, 1, 2, 10**12], list(range(1, 2000)), [5] * 100])
def test_a_size_histogram_survives_the_way_through_text(sizes: list[int]) -> None:
    tally = Tally(sums=histogram_sums(np.array(sizes, dtype=np.int64)))
    seen, counts = size_histogram(tally)
    assert np.repeat(seen, counts).tolist() == sorted(sizes)


def test_one_class_holds_every_value() -> None:
    facts = facts_of(block_of(illness=[[2, 1], [0, 3]]))
    block = one_class(6, facts, ("illness",))
    assert (block.sizes.tolist(), block.cells["illness"].counts.tolist()) == ([6], [2, 4])


def test_figures_in_words() -> None:
    assert [short(figure) for figure in (1_000_000, 0.5, 1 / 3, float("inf"))] == [
        "1,000,000",
        "0.5",
        "0.333333",
        "no number",
    ]
