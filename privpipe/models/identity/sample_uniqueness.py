"""Share of unique records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

from typing_extensions import Doc

from privpipe.blocks import SizeModel
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import LargestShare
from privpipe.blocks.oracle_classes import Classes, Expected, share_at_most

__all__ = ["SampleUniqueness"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SampleUniqueness(SizeModel):
    """At most the share `at_most` of records is alone in its class; observed = classes of size 1 / records.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]; 0 is 2-anonymity. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = SampleUniqueness(at_most=0.1)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([3, 1])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.25)
    """

    judges_matching = True
    threshold_field = "at_most"
    protects_nobody_at = 1
    trusts_values = True
    observes = float
    source = (
        "Dankar, El Emam, Neisa, Roffey, Estimating the re-identification risk of clinical data sets, BMC "
        "Med. Inform. Decis. Mak. 12:66, 2012"
    )
    threat = "An intruder who knows that a person is in the table finds the record, because no other record equals it."
    formula = "c_1 / n <= at_most, c_1 the number of classes of one record"
    choose = (
        "0 is 2-anonymity; a small share, such as 0.01, tolerates few uniques where a sample is small against its "
        "population. It does not protect classes of two."
    )

    at_most: Annotated[
        LargestShare, Doc("highest share of records whose quasi-identifier combination no other record has")
    ] = None

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return float(counts[sizes == 1].sum() / (sizes @ counts))

    @classmethod
    def counts_records(cls) -> bool:
        return True

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Records alone in their class over records."""
        sizes = classes.sizes
        return share_at_most(model, Fraction(sizes.count(1), sum(sizes)) if sizes else None)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"at_most": float(rng.uniform(0, 1))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.0), cls(at_most=0.25), cls(at_most=1.0)]
