"""k-map: k persons of the population, counted or estimated, share each released combination."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally, Verdict
from privpipe.blocks.arrays import Bools
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LeastNumber, PositiveNumber, Stricter
from privpipe.blocks.oracle_classes import Case, Classes, Expected, by_class
from privpipe.errors import DataError, UsageError

__all__ = ["EstimatedKMap", "KMap"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KMap(ClassModel):
    """Each released record matches at least k persons of the population; observed = least population class.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least population class is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Needs the policy's `population:`, generalized as the release is. Classes without a released record do not count.
    A class with more released records than persons in the population is a DataError.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))
    >>> verdict = KMap(k=5).judge(KMap(k=5).measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 4, 2)
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    needs_population = True
    observes = int
    source = "Sweeney, IJUFKS 10(5), 2002; El Emam and Dankar, JAMIA 15(5), 2008"
    threat = "A journalist, who does not know who is in the table, links a record to a person of a public register."
    formula = "min over classes with a released record of F_c >= k, F_c counted in the population"
    choose = (
        "k as for k_anonymity: 5 under a contract, 10 to 20 for public files. It does not guard against an "
        "intruder who knows that a person is in the table: k_anonymity does, and implies k-map."
    )

    k: Annotated[
        LeastNumber, Doc("least number of persons of the population that share a released quasi-identifier combination")
    ] = None

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        if block.population is None:
            raise UsageError("k_map compares with a population, and none was counted")
        return block.population

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return super().measure(block.take(block.sizes > 0), facts)

    def unattainable(self, records: int, facts: Facts) -> str:
        return ""  # the sample does not show how large the population is

    def needs_suppression(self, records: int, facts: Facts) -> str:
        return ""

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has k records of the population."""
        return by_class(
            classes, classes.population, (model.k is None or size >= model.k for size in classes.population), min
        )

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"k": int(rng.integers(1, 20))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=1), cls(k=2), cls(k=5)]


Estimator = Literal["poisson", "zero_truncated_poisson"]


@dataclass(frozen=True, kw_only=True, repr=False)
class EstimatedKMap(ClassModel):
    """Each class is so large that at least `k` people of the population are likely in it; observed = least class size.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least class size is reported.
    population_size : int
        N, at least the records of the table.
    significance : float
        In (0, 1): chance, for one class, to take it for larger than k when it is not.
    estimator : {"poisson", "zero_truncated_poisson"}
        How the size of a class in the sample is distributed, given k in the population.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The rule is n_c >= k', the threshold of the verdict: with lambda = k n/N and i* the least size that a class of k
    people exceeds with probability at most `significance`, k' is i* + 2 (poisson, one record more than needed) or
    i* + 1, and never more than k. n counts all records of the table, suppressed ones too. Every class is a separate
    test, and the significance is not corrected for their number.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model, facts = EstimatedKMap(k=10, population_size=1000, significance=0.01), Facts(records=100)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([95, 5])), facts), facts)
    >>> verdict.observed, verdict.threshold, verdict.outcome
    (5, 6, 'fail')
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    needs_records = True
    observes = int
    source = "El Emam and Dankar, Protecting privacy using k-anonymity, JAMIA 15(5), 2008"
    threat = (
        "An intruder who does not know who is in the table looks in the population for the one person a record fits."
    )
    formula = "n_c >= k' in each class; k' from k n/N by the tail of a Poisson distribution"
    choose = (
        "k as for k_anonymity, 5 to 20; significance 0.05 or 0.01. Use k_map instead where a population table can "
        "be had, and k_anonymity where the attacker may know who is in the table."
    )

    k: Annotated[LeastNumber, Doc("people of the population that share a combination, in all likelihood")] = None
    population_size: Annotated[PositiveNumber, Doc("number of people in the population that the table is a sample of")]
    significance: Annotated[
        float, Gt(0), Lt(1), Stricter("equal"), Doc("chance to take a class of k people for a larger one")
    ]
    estimator: Annotated[
        Estimator, Stricter("equal"), Doc("poisson, or zero_truncated_poisson, which asks for less")
    ] = "poisson"

    def derived(self, records: int) -> int:
        """k', the least class size, for a table of so many records.

        Raises
        ------
        DataError
            The population is smaller than the table.
        UsageError
            The records were not counted.
        """
        from privpipe.kernels.uniqueness.population_estimates import derived_class_size

        if records < 0:
            raise UsageError("estimated_k_map: the number of records of the whole table is not among the facts")
        if self.population_size < records:
            raise DataError(
                f"estimated_k_map: population_size is {self.population_size:,} and the table has {records:,} records"
            )
        return derived_class_size(self.k or 1, self.population_size, records, self.significance, self.estimator)

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return block.sizes

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        if self.k is None or not len(block):
            return np.ones(len(block), dtype=np.bool_)
        return np.asarray(block.sizes >= self.derived(facts.records), dtype=np.bool_)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if self.k is None or not observed.classes:
            return verdict
        return replace(verdict, threshold=self.derived(facts.records))

    def unattainable(self, records: int, facts: Facts) -> str:
        if self.k is None or facts.records < 0 or records >= self.derived(facts.records):
            return ""
        return f"cannot be met by this table: it has {records:,} {facts.unit}"

    def reason(self, observed: Tally, facts: Facts) -> str:
        text = super().reason(observed, facts)
        if self.k is None or not observed.classes:
            return text
        asked = (
            f", required at least k' = {self.derived(facts.records):,} (k = {self.k:,}, lambda = "
            f"{short(self.k * facts.records / self.population_size)}, significance {short(self.significance)})"
        )
        return text.replace(f", required at least {short(self.k)}", asked, 1)

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has the size that the estimator derives from k."""
        sizes = classes.sizes
        if classes.records > model.population_size:
            raise DataError("the population is smaller than the table")
        least = 1 if model.k is None else _derived(model, classes.records)
        return by_class(classes, sizes, [size >= least for size in sizes], min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"k": int(rng.integers(1, 9))}

    @staticmethod
    def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
        """Several k: the size asked for is derived from k and the number of records."""
        for k in (max(1, observed - 1), observed, observed + 1, 3 * observed, 50 * observed):
            least = _derived(SimpleNamespace(**vars(model) | {"k": k}), facts.records)
            yield f"k = {k}", {"k": k}, observed >= least

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(population_size=10**9, significance=0.05),
            cls(k=1, population_size=10**9, significance=0.05),
            cls(k=5, population_size=10**5, significance=0.01),
            cls(k=3, population_size=4000, significance=0.05, estimator="zero_truncated_poisson"),
        ]


def _derived(model: Any, records: int) -> int:
    mean = model.k * records / model.population_size
    nobody = math.exp(-mean)
    truncated = model.estimator == "zero_truncated_poisson"
    size, term, cumulated = 0, nobody, 0.0 if truncated else nobody
    whole = -math.expm1(-mean) if truncated else 1.0
    while cumulated / whole < 1 - model.significance or (truncated and size < 1):
        size += 1
        term *= mean / size
        cumulated += term
    return max(1, min(int(model.k), size + (1 if truncated else 2), records))
