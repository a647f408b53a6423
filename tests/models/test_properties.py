"""What holds of every class-based model, whatever the classes."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Guarantee, SizeModel, Tally, prepared
from privpipe.models import CATALOGUE
from privpipe.roles import Roles
from privpipe.testing import examples_of, facts_of
from privpipe.testing.oracle import beside
from tests.gathering import gathered

ROLES = Roles(quasi_identifiers=["zip"], sensitive=["illness", "income"])
MODELS = [
    model.with_roles(ROLES)
    for model in examples_of(CATALOGUE)
    if "tree" not in (getattr(model, "hierarchy", None) or {})  # one that names other values than those made up here
]
CLASS_MODELS = [model for model in MODELS if isinstance(model, ClassModel)]
Matrix = list[list[int]]


@st.composite
def matrices(draw: st.DrawFn, classes: int = 6) -> Matrix:
    """Counts by class and value; every class has a record and every value occurs."""
    values = draw(st.integers(1, 5))
    counts = st.one_of(st.integers(0, 3), st.integers(0, 40))
    rows = draw(st.lists(st.lists(counts, min_size=values, max_size=values).filter(any), min_size=1, max_size=classes))
    seen = [any(row[value] for row in rows) for value in range(values)]
    return [[count for count, has in zip(row, seen, strict=True) if has] for row in rows]


@st.composite
def gates(draw: st.DrawFn, models: list[Any]) -> Any:
    """A model with a threshold of its own."""
    model = draw(st.sampled_from(models))
    if model.threshold_field is None:
        return model
    return with_threshold(model, thresholds_of(type(model))(np.random.default_rng(draw(st.integers(0, 2**32 - 1)))))


def thresholds_of(model: Any) -> Any:
    """What draws thresholds stands next to the model."""
    return beside(model, "thresholds")


def with_threshold(model: Any, threshold: Any) -> Any:
    """The model with another threshold, or with several."""
    changes = threshold if isinstance(threshold, dict) else {str(model.threshold_field): threshold}
    return replace(model, **changes).with_roles(ROLES)


def block_of_rows(rows: Matrix) -> ClassBlock:
    """The same counts under both column names of the examples."""
    pairs = [[(code, count) for code, count in enumerate(row) if count] for row in rows]
    flat = np.array([pair for row in pairs for pair in row], dtype=np.int64).reshape(-1, 2)
    cells = {
        name: Cells(np.cumsum([0, *map(len, pairs)]), flat[:, 0].copy(), flat[:, 1].copy())
        for name in ("illness", "income")
    }
    return ClassBlock(np.array([sum(row) for row in rows], dtype=np.int64), cells)


def judged_in_parts(model: Guarantee, block: ClassBlock, facts: Facts, size: int) -> Any:
    tallies = [model.measure(part, facts) for part in block.split(size)]
    merged = tallies[0]
    for tally in tallies[1:]:
        merged = model.merge(merged, tally)
    return model.judge(merged, facts)


@given(gates(MODELS), matrices(), st.integers(1, 7))
def test_splitting_a_block_changes_nothing(model: Guarantee, rows: Matrix, size: int) -> None:
    block = block_of_rows(rows)
    facts = ordered_facts(block)
    whole = model.judge(model.measure(block, facts), facts)
    assert judged_in_parts(model, block_of_rows(rows), facts, size).to_dict() == whole.to_dict()


@given(gates(MODELS), matrices(), st.randoms())
def test_the_order_of_classes_changes_nothing(model: Guarantee, rows: Matrix, random: Any) -> None:
    facts = ordered_facts(block_of_rows(rows))
    shuffled = random.sample(rows, len(rows))
    verdicts = [model.judge(model.measure(block_of_rows(some), facts), facts).to_dict() for some in (rows, shuffled)]
    assert verdicts[0] == verdicts[1]


@given(gates(MODELS), matrices(), matrices(), matrices())
def test_merge_is_associative_and_commutative(model: Guarantee, first: Matrix, second: Matrix, third: Matrix) -> None:
    tables = (first, second, third)
    least = min(len(rows[0]) for rows in tables)
    some = [[row[:least] for row in rows if any(row[:least])] for rows in tables]
    facts = ordered_facts(block_of_rows([row for rows in some for row in rows] + [[1] * least]))
    a, b, c = (model.measure(block_of_rows(rows), facts) if rows else Tally() for rows in some)
    assert model.merge(model.merge(a, b), c) == model.merge(a, model.merge(b, c))
    assert model.merge(a, b) == model.merge(b, a)
    assert model.merge(a, Tally()) == a


@given(gates(CLASS_MODELS), matrices(), st.data())
def test_passing_agrees_with_the_verdict(model: ClassModel, rows: Matrix, data: st.DataObject) -> None:
    block = block_of_rows(rows)
    facts = ordered_facts(block)
    passing = model.passing(block, facts)
    verdict = model.judge(model.measure(block, facts), facts)
    assert passing.shape == (len(block),)
    assert verdict.failing_classes == (~passing).sum()
    assert verdict.failing_records == block.sizes[~passing].sum()
    assert verdict.passed == passing.all()
    alone = data.draw(st.integers(0, len(rows) - 1))
    assert model.passing(block_of_rows([rows[alone]]), facts)[0] == passing[alone]


@given(gates(CLASS_MODELS), matrices(), st.data())
def test_merging_classes_breaks_no_passing_table(model: ClassModel, rows: Matrix, data: st.DataObject) -> None:
    """G of the specification's overview, for the models that claim it."""
    if not (model.hereditary or model.convex):
        return
    facts = ordered_facts(block_of_rows(rows))
    before = model.passing(block_of_rows(rows), facts)
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    for group in set(groups):
        parts = [at for at, of in enumerate(groups) if of == group]
        merged = np.sum([rows[at] for at in parts], axis=0).tolist()
        after = model.passing(block_of_rows([merged]), facts)[0]
        if all(before[at] for at in parts):
            assert after, "passing parts merged to a failing class"
        if model.hereditary and any(before[at] for at in parts):
            assert after, "a failing class had a passing part"


@given(matrices(), st.data())
def test_merging_never_lowers_k_nor_raises_risk(rows: Matrix, data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    merged = [
        np.sum([row for row, of in zip(rows, groups, strict=True) if of == group], axis=0).tolist()
        for group in sorted(set(groups))
    ]
    least, risk, unique = (CATALOGUE[name]() for name in ("k_anonymity", "average_risk", "sample_uniqueness"))
    fine, coarse = (
        [model.judge(model.measure(block_of_rows(some), Facts()), Facts()).observed for model in (least, risk, unique)]  # type: ignore[attr-defined]
        for some in (rows, merged)
    )
    assert coarse[0] >= fine[0]
    assert coarse[1] <= fine[1]
    assert coarse[2] <= fine[2]


@given(gates([one for one in MODELS if isinstance(one, SizeModel) and one.prefix_monotone]), matrices(classes=12))
def test_suppressing_small_classes_only_helps(model: SizeModel, rows: Matrix) -> None:
    sizes = np.sort(block_of_rows(rows).sizes)
    met = [model.met_by(*np.unique(sizes[start:], return_counts=True), Facts()) for start in range(len(sizes) + 1)]
    assert met == sorted(met), "once met, a longer prefix meets it too"
    assert met[-1], "nothing left is met"


@given(gates(CLASS_MODELS), matrices())
def test_observed_is_the_tightest_threshold_that_passes(model: ClassModel, rows: Matrix) -> None:
    """Itself enough, or where the rule is strict itself not enough (Grassberger's asks for values in addition)."""
    block = block_of_rows(rows)
    facts = ordered_facts(block)
    observed = model.judge(model.measure(block, facts), facts).observed
    if observed is None or getattr(model, "estimator", "shannon") == "grassberger":
        return
    if observed == 0 and model.threshold_field in ("delta", "beta"):
        return  # their thresholds are above 0
    if model.threshold_field is None:
        return  # the threshold follows from other parameters
    if isinstance(observed, dict) and not all(observed.values()):
        return  # a share of no record is not an alpha
    at_it = with_threshold(model, observed)
    assert at_it.judge(at_it.measure(block, facts), facts).passed == (model.direction != "below")


@given(gates(CLASS_MODELS), matrices())
def test_what_is_called_unattainable_fails(model: ClassModel, rows: Matrix) -> None:
    """Whatever classes are formed or left out: not even the one class of all records passes, nor any part."""
    block = block_of_rows(rows)
    facts = ordered_facts(block)
    passes = model.passing(block, facts)
    if model.unattainable(block.records, facts):
        assert not passes.any()
    if model.needs_suppression(block.records, facts):
        assert not passes.all()


def test_models_pickle() -> None:
    with gathered() as case:
        for model in MODELS:
            with case(repr(model)):
                assert pickle.loads(pickle.dumps(model)) == model


def test_no_class_is_not_a_figure() -> None:
    with gathered() as case:
        for model in MODELS:
            with case(repr(model)):
                tally = model.measure(block_of_rows([[1]]).take(np.array([False])), ordered_facts(block_of_rows([[1]])))
                verdict = model.judge(tally, Facts())
                assert (verdict.observed, verdict.passed) == (None, True)
                assert verdict.reason


def test_large_counts_do_not_overflow() -> None:
    """p_s n_c in 32 bits overflows from 46,341 records on; sums of 10^12 must hold too."""
    with gathered() as case:
        for model in MODELS:
            with case(repr(model)):
                large_counts_do_not_overflow(model)


def large_counts_do_not_overflow(model: Guarantee) -> None:
    block = block_of_rows([[10**12, 10**12 + 1], [3 * 10**12, 5]])
    if hasattr(model, "population_size"):
        model = replace(model, population_size=10**14)
    verdict = model.judge(model.measure(block, ordered_facts(block)), ordered_facts(block))
    figures = verdict.observed.values() if isinstance(verdict.observed, dict) else [verdict.observed]
    assert all(figure is None or (math.isfinite(figure) and figure >= 0) for figure in figures)


def ordered_facts(block: ClassBlock) -> Facts:
    """The block's own base; ``illness`` as text, ``income`` as numbers, both in the order of the codes."""
    import pyarrow as pa

    facts = facts_of(block)
    illness = facts.histograms["illness"]
    texts = pa.array([f"value {code}" for code in range(len(illness))])
    known = replace(facts, histograms={**facts.histograms, "illness": replace(illness, values=texts)})
    return prepared(known, MODELS)
