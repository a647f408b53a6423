"""Planted faults in models, measures and engines: each mutant is seen by the kit. Stages have their own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from privpipe import models
from privpipe.blocks import ClassBlock, ClassModel, ClassQuery, DistinctBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.file_pair import FilePair, FilePairMeasure
from privpipe.blocks.way import DISTINCT, Way
from privpipe.engines import Engine
from privpipe.models import (
    AverageRisk,
    DeltaDisclosure,
    DistinctLDiversity,
    EntropyLDiversity,
    KAnonymity,
    TCloseness,
)
from privpipe.testing import (
    Expected,
    PlainEngine,
    conformance,
    merging_claims,
    splitting_problems,
    suppression_claim,
    threshold_claim,
    verdict_problems,
)
from privpipe.tolerance import slack


class MeanOfBlocks(KAnonymity):
    """Merges as if every block held the same number of classes."""

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        tally = super().measure(block, facts)
        return replace(tally, observed=float(block.sizes.mean())) if len(block) else tally

    def merge(self, left: Tally, right: Tally) -> Tally:
        if left.observed is None or right.observed is None:
            return super().merge(left, right)
        return replace(super().merge(left, right), observed=(left.observed + right.observed) / 2)


class DropsABlock(KAnonymity):
    """Keeps the larger of two."""

    def merge(self, left: Tally, right: Tally) -> Tally:
        return left if left.classes >= right.classes else right


class ForgetsRecords(DistinctLDiversity):
    """Merges everything but one counter."""

    def merge(self, left: Tally, right: Tally) -> Tally:
        return replace(super().merge(left, right), failing_records=left.failing_records)


class RoundsInBlocks(AverageRisk):
    """Adds up rounded figures: the last bit depends on the blocks."""

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return Tally(classes=len(block), records=block.records, sums={"risk": float((1 / block.sizes).sum())})

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        return Verdict(self, observed.sums["risk"] if observed.records else None, "pass")


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstCombination(Guarantee):
    """A figure of the distinct table that goes by the order of its rows."""

    way: ClassVar[Way] = DISTINCT

    def measure(self, block: Any, facts: Facts) -> Tally:
        assert isinstance(block, DistinctBlock)
        return Tally(observed=int(block.counts[0]), records=block.records)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        return Verdict(self, observed.observed, "pass")


@pytest.mark.parametrize(
    "mutant",
    [
        MeanOfBlocks(k=2),
        DropsABlock(k=2),
        ForgetsRecords(column="illness", l=3),
        RoundsInBlocks(at_most=0.5),
        FirstCombination(),
    ],
    ids=lambda mutant: type(mutant).__name__,
)
def test_a_figure_that_depends_on_blocks_is_seen(mutant: Guarantee) -> None:
    assert splitting_problems(mutant)


class GoesByTheClock(FilePairMeasure):
    """An attack that draws from no key."""

    def judge_files(self, files: FilePair) -> Verdict:
        return Verdict(self, float(np.random.default_rng().random()), "pass")


class CountsBlocks(KAnonymity):
    """A measure whose figure is the number of measured blocks."""

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return Tally(observed=1, classes=len(block), records=block.records)

    def merge(self, left: Tally, right: Tally) -> Tally:
        return replace(super().merge(left, right), observed=left.observed + right.observed)


def test_a_figure_that_counts_blocks_is_seen() -> None:
    assert splitting_problems(CountsBlocks(k=2))


@pytest.mark.parametrize("mutant", [GoesByTheClock()], ids=lambda mutant: type(mutant).__name__)
def test_an_attack_that_says_something_else_each_time_is_seen(embedded: Engine, mutant: Guarantee) -> None:
    assert any("observed differs" in problem for problem in verdict_problems(mutant, embedded, partitions=[1, 3]))


UNCLAIMED = [
    (model, flag)
    for name in models.CATALOGUE
    for model in models.CATALOGUE[name].examples()
    for flag in ("hereditary", "convex")
    if isinstance(model, ClassModel) and model.way.classes_alone and model.is_gate() and not getattr(model, flag)
]


@pytest.mark.parametrize(("model", "flag"), UNCLAIMED, ids=str)
def test_a_false_claim_is_seen(model: ClassModel, flag: str) -> None:
    """Each model that makes no claim would be contradicted if it did."""
    claims = {claim.name: claim for claim in merging_claims(model, flags=(flag,))}
    assert claims[flag].against, str(claims[flag])


class CallsItselfHereditary(EntropyLDiversity):
    """Entropy of a failing class says nothing of its parts."""

    hereditary: ClassVar[bool] = True


class CallsItselfConvex(DeltaDisclosure):
    """A value that one part lacks becomes rare in the whole."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "convex", True)


class PassesBelowItsLeastSize(KAnonymity):
    """A search throws away classes that pass."""

    def least_size(self) -> int:
        return super().least_size() + 1


def test_a_mutant_that_claims_too_much_is_seen() -> None:
    mutants: dict[str, ClassModel] = {
        "hereditary": CallsItselfHereditary(column="illness", l=2.0),
        "convex": CallsItselfConvex(column="illness", delta=1.0),
        "least_size": PassesBelowItsLeastSize(k=3),
    }
    for name, mutant in mutants.items():
        assert {claim.name for claim in merging_claims(mutant) if not claim.holds} == {name}


class LargestClass(AverageRisk):
    """The share of the largest class grows when small ones go."""

    def figure_of(self, sizes: Any, counts: Any) -> float:
        return float(sizes.max() / (sizes @ counts))


def test_a_rule_that_suppression_can_break_is_seen() -> None:
    assert suppression_claim(LargestClass(at_most=0.5)).against


class BareComparison(TCloseness):
    """0.1 + 0.2 is above 0.3."""

    def passing(self, block: ClassBlock, facts: Facts) -> Any:
        return self.scores(block, facts) <= self.t


class BareEntropy(EntropyLDiversity):
    """exp(H) of three even values is below 3."""

    def passing(self, block: ClassBlock, facts: Facts) -> Any:
        return self.scores(block, facts) >= self.l


class TooTolerant(TCloseness):
    """Allows a thousandth more."""

    def passing(self, block: ClassBlock, facts: Facts) -> Any:
        assert self.t is not None
        return self.scores(block, facts) <= self.t * 1.001 + slack(self.t)


class StrictlyMore(KAnonymity):
    """k records do not suffice."""

    def passing(self, block: ClassBlock, facts: Facts) -> Any:
        assert self.k is not None
        return block.sizes > self.k


class NotStrict(DeltaDisclosure):
    """Takes the bound itself for below it."""

    def passing(self, block: ClassBlock, facts: Facts) -> Any:
        return self.scores(block, facts) <= self.delta + slack(self.delta)


@pytest.mark.parametrize(
    "mutant",
    [
        BareComparison(column="illness", t=0.3),
        BareEntropy(column="illness", l=3.0),
        TooTolerant(column="illness", t=0.3),
        StrictlyMore(k=3),
        NotStrict(column="illness", delta=1.0),
    ],
    ids=lambda mutant: type(mutant).__name__,
)
def test_a_wrong_comparison_at_the_threshold_is_seen(mutant: Guarantee) -> None:
    assert threshold_claim(mutant).against


class OracleDisagrees(KAnonymity):
    """A model that is right next to an oracle that is not."""

    @staticmethod
    def oracle(model: Any, classes: Any) -> Expected:
        return Expected("pass", 1, 0, 0)


def test_an_oracle_that_disagrees_is_seen() -> None:
    assert len(conformance(PlainEngine(), models=[OracleDisagrees(k=3)]).failures) > 20  # type: ignore[arg-type]


class DropsTheLastBlock(PlainEngine):
    """Loses what comes last."""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        blocks = list(super().classes(table, query))
        yield from blocks[:-1] if len(blocks) > 1 else blocks


class CountsABlockTwice(PlainEngine):
    """A task that failed and ran again."""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        blocks = list(super().classes(table, query))
        yield from [*blocks, blocks[0]]


class SplitsClasses(PlainEngine):
    """A class over two partitions is judged twice, each time too small."""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        for block in super().classes(table, query):
            large = block.sizes > 3
            yield replace(block, sizes=np.where(large, block.sizes - 1, block.sizes), cells=block.cells)
            if large.any():
                yield replace(block.take(large), sizes=np.ones(int(large.sum()), dtype=np.int64))


class MarksOtherClasses(PlainEngine):
    """Takes classes that someone is in for suppressed ones. (One that forgets the mark is found out by the judge.)"""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        for block in super().classes(table, query):
            yield ClassBlock(block.sizes, block.cells, ~np.asarray(block.marked))


class IgnoresTheDictionary(PlainEngine):
    """Codes of its own, where models compare with a base by code."""

    def classes(self, table: Any, query: ClassQuery) -> Iterator[ClassBlock]:
        return super().classes(table, replace(query, dictionaries={}))


class LosesMissingValues(PlainEngine):
    """A group-by that drops missing keys."""

    def scan(self, source: Any) -> Any:
        table = super().scan(source)
        names = [name for name in table.columns if name not in ("illness", "income")]
        kept = [at for at in range(len(table)) if all(table.columns[name][at] is not None for name in names)]
        return replace(table, columns={name: [cells[at] for at in kept] for name, cells in table.columns.items()})


MODELS: list[Guarantee] = [
    KAnonymity(k=2),
    DistinctLDiversity(column="illness", l=2),
    TCloseness(column="illness", t=0.3),
    AverageRisk(at_most=0.5),
]
ENGINES: list[Callable[[], Any]] = [
    DropsTheLastBlock,
    CountsABlockTwice,
    SplitsClasses,
    MarksOtherClasses,
    IgnoresTheDictionary,
    LosesMissingValues,
]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_counts_wrongly_is_seen(engine: Callable[[], Any]) -> None:
    assert conformance(engine(), models=MODELS).failures


def test_the_engine_that_they_mutate_conforms() -> None:
    assert conformance(PlainEngine(), models=MODELS).failures == {}  # type: ignore[arg-type]
