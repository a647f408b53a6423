"""Each rule of pruning against every node: what must go goes, bounds stay below, witnesses tell the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpipe.kernels.quality.loss import LossModel
from privpipe.models import (
    AlphaKAnonymity,
    BasicBetaLikeness,
    DeltaDisclosure,
    EnhancedBetaLikeness,
    EntropyLDiversity,
    KAnonymity,
    RecursiveCLDiversity,
    TCloseness,
)
from privpipe.transforms.recoding.encoded_table import encode
from privpipe.transforms.recoding.explorer import Lattice
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.optimal_search import Witnesses
from tests.tiers import at_most

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
ILL = {"column": "ill"}
CONVEX = [
    TCloseness(t=0.15, **ILL),
    TCloseness(t=0.2, distance="ordered", order="text", **ILL),
    EntropyLDiversity(l=2.2, **ILL),
    RecursiveCLDiversity(c=1.5, l=2, **ILL),
    RecursiveCLDiversity(c=2.0, l=3, **ILL),
    BasicBetaLikeness(beta=0.4, **ILL),
    EnhancedBetaLikeness(beta=0.6, **ILL),
    DeltaDisclosure(delta=0.6, **ILL),
    AlphaKAnonymity(k=2, alpha=0.6, **ILL),
]


def checks(plain: Any, problem: Any) -> NodeCheck:
    encoded = encode(plain, problem.table, problem.stage, problem.context)
    return NodeCheck(encoded, problem.context, LossModel(encoded, problem.stage.loss))


def under(problem: Any, model: Any) -> Any:
    return replace(problem, guarantees=(model,), limit=0.5)


@pytest.mark.deep
@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(st.data())
def test_what_must_go_goes_at_every_specialization(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    drawn = data.draw(random_problems)
    for model in CONVEX:
        check = checks(plain, under(drawn, model))
        judged = [check(tuple(node)) for node in check.table.nodes().tolist()]
        for node in judged:
            (one,) = node.rounds.values()
            assert (one.forced <= one.sizes).all()
            assert not one.forced[~one.failing].any()
            for finer in judged:
                if all(v <= w for v, w in zip(finer.levels, node.levels, strict=True)):
                    assert finer.suppressed == -1 or finer.suppressed >= node.must_go
                    # Class by class: of each failing class at least the forced records are gone.
                    counts = check.table.rows.counts
                    gone = np.bincount(one.numbers, weights=counts * finer.rows, minlength=len(one.sizes))
                    assert (gone >= one.forced).all()


@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(st.data())
def test_sharper_bounds_stay_below_the_loss(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    drawn = data.draw(random_problems)
    for model in [KAnonymity(k=4), *CONVEX]:
        check = checks(plain, under(drawn, model))
        nodes = check.table.nodes()
        judged = [check(tuple(node)) for node in nodes.tolist()]
        losses = [check.loss.exact(node.levels, node.rows)[0] for node in judged]
        for node in judged:
            below = np.flatnonzero((nodes <= np.array(node.levels)).all(axis=1))
            forced = node.forced()
            assert forced is not None
            for at, bound in zip(below.tolist(), check.loss.forced_bounds(nodes[below], forced), strict=True):
                assert list(bound) <= [figure + 1e-12 for figure in losses[at]]


@pytest.mark.deep
@settings(max_examples=at_most(25), suppress_health_check=SLOW)
@given(st.data())
def test_a_witness_shows_its_class_at_every_node(plain: Any, random_problems: Any, data: st.DataObject) -> None:
    """What witnesses count as lost is lost: their own records, wherever their class fails, for any kind of model."""
    drawn = data.draw(random_problems)
    for problem in [drawn, *(under(drawn, model) for model in CONVEX)]:
        check = checks(plain, problem)
        nodes = check.table.nodes()
        shape = tuple(len(levels) for levels in Lattice.of(check.table).allowed)
        witnesses = Witnesses(check, shape)
        if not witnesses.serves():
            continue
        judged = [check(tuple(node)) for node in nodes.tolist()]
        everywhere = np.arange(len(nodes))
        lost = np.zeros(len(nodes), dtype=np.int64)
        for node in judged:
            lost = witnesses.lost(node, everywhere, 3)
        called = sorted(witnesses._called)
        for node, figure in zip(judged, lost.tolist(), strict=True):
            failing = np.zeros(len(check.table), dtype=np.bool_)
            for each in node.rounds.values():
                failing |= each.failing[each.numbers]
            own = int(check.table.rows.counts[called][failing[called]].sum())
            assert figure <= own  # over several sets of keys a record is called for one of them
            if len(node.rounds) == 1:
                assert figure == own


def test_the_forced_share_is_that_of_the_formula(plain: Any, make_problem: Any) -> None:
    """18 of 20 ill with flu in one class, base even: (D - t)/(Dmax - t), 1 - H/ln l, (n_s - U n)/(1 - U)."""
    ills = ["flu"] * 18 + ["gout"] * 2 + ["gout"] * 16
    rows = {"a": ["x"] * 20 + ["y"] * 16, "ill": ills}
    tree = {"a": [["x", "*"], ["y", "*"]]}

    def forced(model: Any) -> int:
        check = checks(plain, make_problem(rows, tree, (model,), limit=1.0))
        node = check((0,))
        (one,) = node.rounds.values()
        return int(one.forced[one.numbers[0]])

    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert forced(TCloseness(t=0.2, **ILL)) == np.ceil(20 * (0.4 - 0.2) / (0.5 - 0.2) - 1e-6)
    assert forced(EntropyLDiversity(l=1.8, **ILL)) == np.ceil(20 * (1 - entropy / np.log(1.8)) - 1e-6)
    assert forced(RecursiveCLDiversity(c=2.0, l=2, **ILL)) == 18 - 2 * 2
    assert forced(BasicBetaLikeness(beta=0.2, **ILL)) == np.ceil((18 - 0.6 * 20) / 0.4 - 1e-6)
    assert forced(AlphaKAnonymity(k=2, alpha=0.7, **ILL)) == np.ceil((18 - 0.7 * 20) / 0.3 - 1e-6)
    assert forced(KAnonymity(k=21)) == 20
    assert forced(KAnonymity(k=20)) == 0
