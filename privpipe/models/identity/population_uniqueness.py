"""Share of records that are unique in the population, estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from typing_extensions import Doc

from privpipe.blocks import Facts, SizeModel, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, PositiveNumber, Stricter
from privpipe.blocks.size_model import size_histogram
from privpipe.errors import DataError
from privpipe.tolerance import at_most

__all__ = ["PopulationUniqueness"]

Estimator = Literal["dankar", "pitman", "zayatz", "snb"]


@dataclass(frozen=True, kw_only=True, repr=False)
class PopulationUniqueness(SizeModel):
    """At most the share `at_most` of the population is unique in it, by estimate; observed = uniques / population.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the estimate is reported.
    population_size : int
        N, at least the records of the table.
    estimator : {"dankar", "pitman", "zayatz", "snb"}
        dankar takes pitman where the table holds at most a tenth of the population, else the lesser of zayatz and
        snb (zayatz alone where snb has no answer).
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Without a unique record in the table the figure is 0. Where the estimator has no answer, or one outside (0, N],
    observed is None and the guarantee fails: nothing else is tried. Where the table is the population, its own
    uniques are counted. The share is one of the population, not of the table.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = PopulationUniqueness(at_most=0.01, population_size=80, estimator="zayatz")
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([10, 8, 1, 1])), Facts()), Facts())
    >>> verdict.outcome, round(verdict.observed, 4)
    ('fail', 0.0529)
    """

    threshold_field = "at_most"
    protects_nobody_at = 1
    trusts_values = True
    prefix_monotone = False
    observes = float
    source = (
        "Dankar, El Emam, Neisa, Roffey, Estimating the re-identification risk of clinical data sets, BMC "
        "Med. Inform. Decis. Mak. 12:66, 2012; Hoshino, J. Off. Stat. 17(4), 2001; Zayatz, US Census Bureau, "
        "1991; Chen and Keller-McNulty, J. Off. Stat. 14(1), 1998"
    )
    threat = (
        "An intruder matches records with the whole population, and is certainly right where a person is unique in it."
    )
    formula = "U / N <= at_most, U estimated from the number of classes of each size"
    choose = (
        "0.0001 to 0.01. It is an estimate: pair it with k_anonymity or average_risk. dankar is the default because "
        "no single estimator is right at every sampling fraction."
    )

    at_most: Annotated[LargestShare, Doc("highest share of the population that is unique in it")] = None
    population_size: Annotated[PositiveNumber, Doc("number of people in the population that the table is a sample of")]
    estimator: Annotated[
        Estimator, Stricter("equal"), Doc("dankar (chooses by the sampling fraction), pitman, zayatz or snb")
    ] = "dankar"

    def share(self, sizes: Ints, counts: Ints) -> float | None:
        """U/N of so many (`counts`) classes of each of these `sizes`; None where no estimate is available.

        Raises
        ------
        DataError
            The population is smaller than the table.
        """
        from privpipe.kernels.uniqueness.population_estimates import population_uniques

        records = int(sizes @ counts)
        if self.population_size < records:
            raise DataError(
                f"population_uniqueness: population_size is {self.population_size:,} and the table has {records:,} "
                "records"
            )
        held = counts > 0
        uniques = population_uniques(sizes[held], counts[held], self.population_size, self.estimator)
        return None if uniques is None else uniques / self.population_size

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        share = self.share(sizes, counts)
        return float("inf") if share is None else share

    def met_by(self, sizes: Ints, counts: Ints, facts: Facts) -> bool:
        if self.at_most is None or not counts.sum():
            return True
        return bool(at_most(self.figure_of(sizes, counts), self.at_most))

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes, counts = size_histogram(observed)
        share = self.share(sizes, counts) if observed.records else None
        passed = self.met_by(sizes, counts, facts)
        if not observed.records:
            seen = "no class to judge"
        elif share is None:
            seen = f"no estimate: {self.estimator} has no answer for these class sizes"
        else:
            seen = f"observed {short(share)} by {self.estimator}"
        uniques = observed.sums.get("1", 0)
        over = (
            f"{uniques:,} of {observed.records:,} {facts.unit} are unique in the table, "
            f"population {self.population_size:,}"
        )
        return Verdict(
            self,
            share,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=f"{seen}{self.asked}; {over}.",
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(population_size=10**6),
            cls(at_most=0.0001, population_size=10**6),
            cls(at_most=0.01, population_size=4000),
            cls(at_most=0.1, population_size=10**5, estimator="pitman"),
            cls(at_most=0.001, population_size=4000, estimator="zayatz"),
            cls(at_most=0.01, population_size=4000, estimator="snb"),
        ]
