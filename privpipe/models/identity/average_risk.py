"""Average re-identification risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from annotated_types import Gt, Le
from typing_extensions import Doc

from privpipe.blocks import SizeModel
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import Stricter

__all__ = ["AverageRisk"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AverageRisk(SizeModel):
    """A record is re-identified with probability at most `at_most` on average; observed = classes / records.

    Parameters
    ----------
    at_most : float, optional
        In (0, 1]. Left out (under `measures:`), the average risk is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The mean over *records* of 1/n_c, which is C/n. The mean over classes of 1/n_c is another, misleading figure:
    classes of 99 and 1 records give 0.505 against 0.02.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = AverageRisk(at_most=0.05)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([99, 1])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('pass', 0.02)
    """

    judges_matching = True
    threshold_field = "at_most"
    protects_nobody_at = 1
    observes = float
    source = "El Emam, Guide to the De-Identification of Personal Health Information, CRC Press, 2013"
    threat = "A marketer matches as many records as possible to people and accepts that some matches are wrong."
    formula = "C / n <= at_most: the mean of 1/n_c over records"
    choose = (
        "0.05 to 0.1 is usual for health data. An average hides single records at high risk: pair it with k_anonymity."
    )

    at_most: Annotated[
        float | None,
        Gt(0),
        Le(1),
        Stricter("smaller"),
        Doc("highest mean probability, over records, that a record is matched to its person"),
    ] = None

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return float(counts.sum() / (sizes @ counts))

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.5), cls(at_most=0.05)]
